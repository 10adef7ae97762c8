"""The record from which the report of a run is made, and the process that makes report.html.

`run_record` has what the files hold. Beside the training, the process has the lowest priority.
"""

import errno
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path

from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS, SPECIAL_TOKENS, Tokenizer
from translate_ddp.data.tokenizer_models import SPACE
from translate_ddp.modeling.engine import cross_attention
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_record import (
    EVENTS_FILE,
    REPORT_FILE,
    SAMPLES_FILE,
    STATUS_FILE,
    VALIDATION_FILE,
    Attention,
    End,
    Event,
    LastValidation,
    LaunchFacts,
    Notice,
    SampleRows,
    Saved,
    event_line,
)
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.run_folder import read_json
from translate_ddp.training.logbook import Sample, Sink, choose_samples
from translate_ddp.training.metrics import bleu_signature

SAMPLES = 5  # sentences whose translations are kept at every validation
PICTURES = 3  # samples whose attention is kept, at most
MAX_TOKENS = 40  # in a sentence whose attention is a picture that can be read
DIGITS = 3  # in a weight
PART = "\ufffd"  # in the text of a token that has a part of a character
LANGUAGE_TAG = "[TAG]"
CONTINUED = "\u2026"  # later tokens of a character
PAGE_SECONDS = 600  # after which the kernel ends the process
REPORT_END_SECONDS = 10.0  # maximum wait for it at the end of the run
KILL_SECONDS = 1.0
LOWEST_PRIORITY = 19

# With the modules of this process, also in a folder with a file named as one of them. The alarm
# ends it even if it hangs and this process is gone; a lack of memory ends it first of all. Where
# the kernel shares cores between sessions (man sched, autogroup), nice counts only within one.
REPORT_CODE = """
import os, signal, sys
signal.alarm({seconds})
os.nice({nice})
sys.path[:] = {path}
from contextlib import suppress
from pathlib import Path
for name, value in (("oom_score_adj", "1000"), ("autogroup", "{nice}")):
    with suppress(OSError):
        Path("/proc/self", name).write_text(value)
from {module} import write_report
write_report(Path(sys.argv[1]))
"""
MODULE = "translate_ddp.apps.reporting.run_page"


class ReportSink(Sink):
    """Appends events, keeps translations, and starts a process that writes report.html.

    It is opened when the run begins. What a resumed run writes again replaces what was written
    before, for the reader. `step` returns the current global step, and `attend` the attention of
    the translation of a validation pair. Errors of the disk and of the process are one message
    each.
    """

    def __init__(
        self,
        folder: Path,
        launch: LaunchFacts,
        step: Callable[[], int],
        attend: Callable[[int, str], Attention | None],
        message: Callable[[str], None],
    ) -> None:
        self.folder, self.launch = folder, launch
        self._step, self._attend, self._message = step, attend, message
        self._process: subprocess.Popen[bytes] | None = None
        self._printed: set[str] = set()
        self._is_closed = False
        self._add(launch)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        if any(name.startswith("validation/") for name in scalars):
            self._start(LOWEST_PRIORITY)  # now: metrics.jsonl has the scores

    def validated(self, step: int, samples: Sequence[Sample]) -> None:
        self._write(lambda: self._keep(step, samples))

    def message(self, text: str) -> None:
        self._add(Notice(now(), self._step(), text))

    def saved(self, step: int, path: Path, epoch: int | None) -> None:
        self._write(lambda: self._append(Saved(now(), step, path.name, path.stat().st_size, epoch)))

    def close(self, seconds: float, failed: bool) -> None:
        """Record the end as STATUS.json has it, and write report.html; a second call is ignored."""
        if self._is_closed:
            return
        self._is_closed = True
        self._write(self._end)
        self._kill()  # it writes the page of the last validation, without the end
        self._start(nice=0)  # the training has ended, and the run waits for the page
        self._wait(min(seconds, REPORT_END_SECONDS))

    # --- the record ---

    def _end(self) -> None:
        status = read_json(self.folder / STATUS_FILE)
        self._append(End(now(), self._step(), status.get("state", ""), status.get("reason", "")))

    def _add(self, event: Event) -> None:
        self._write(lambda: self._append(event))

    def _append(self, event: Event) -> None:
        append_line(self.folder / EVENTS_FILE, event_line(event))

    def _keep(self, step: int, samples: Sequence[Sample]) -> None:
        """Keep the translations of a validation."""
        chosen = choose_samples(SAMPLES, len(samples))
        attended = (self._attend(index, samples[index].predicted) for index in chosen)
        pictures = list(islice(filter(None, attended), PICTURES))
        signature = bleu_signature(*self.launch.targets)
        kept = SampleRows(step, [samples[index] for index in chosen])
        append_line(self.folder / SAMPLES_FILE, as_json(kept) + "\n")
        validation = LastValidation(step, list(samples), pictures, signature)
        write_atomically(self.folder / VALIDATION_FILE, as_json(validation))

    def _write(self, write: Callable[[], None]) -> None:
        """Call `write`; an error is printed once, and what it loses is not retried."""
        try:
            fault_point("record")
            write()
        except Exception as error:  # whatever it is, the run goes on
            reason = error.strerror if isinstance(error, OSError) else repr(error)
            self._print(
                f"Could not write the record of the report to {self.folder}: {reason}. "
                f"Training continues; {REPORT_FILE} will lack a part."
            )

    def _print(self, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)  # first: the message is recorded, too
            self._message(text)

    # --- the process that writes the page ---

    def _start(self, nice: int) -> None:
        """Start the process, unless an earlier one is running: the next validation starts one.

        `nice` is added to the niceness of the training.
        """
        if self._is_running():
            return
        code = REPORT_CODE.format(seconds=PAGE_SECONDS, nice=nice, path=sys.path, module=MODULE)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, str(self.folder.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # One thread: the training uses the cores.
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,  # a Ctrl-C is for the process that started it
            )
        except OSError as error:
            self._print_failure(f"its process cannot be started ({error.strerror})")

    def _is_running(self) -> bool:
        """Whether the process has not ended. One that failed is reported."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code:
            self._print_failure("its process failed")
        return code is None

    def _wait(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it if that takes longer."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        if self._is_running():
            self._kill()
            self._print_failure("it took too long")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # it waits for a disk
                self._process.wait(KILL_SECONDS)
            self._process = None

    def _print_failure(self, reason: str) -> None:
        self._print(
            f"{self.folder / REPORT_FILE} was not written: {reason}. To write it: "
            f"translate-ddp report {shlex.quote(str(self.folder))}"
        )


def now() -> float:
    """Seconds since 1970, to the millisecond."""
    return round(time.time(), 3)


def as_json(record: SampleRows | LastValidation) -> str:
    return json.dumps(record, default=vars)


def append_line(path: Path, line: str) -> None:
    """Append a line. Half a line, left by a kill or a full disk, gets an end. Raises OSError."""
    with path.open("a+b", buffering=0) as file:
        if size := file.seek(0, os.SEEK_END):
            file.seek(size - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        data = line.encode()
        if file.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- attention ---


def attention_of(
    model: Transformer, tokenizer: Tokenizer, sources: Ragged, row: int, predicted: str
) -> Attention | None:
    """The cross-attention of a translation of that row of the sources.

    None if source or translation is longer than `MAX_TOKENS` or empty.
    """
    source_ids = sources[row].tolist()
    (target_ids,) = tokenizer.encode([predicted])
    sizes = len(source_ids), len(target_ids)
    if min(sizes) == 0 or max(sizes) > MAX_TOKENS:
        return None
    text_ids = [i for i in source_ids if i < len(tokenizer)]
    (sentence,) = tokenizer.decode([text_ids])
    weights_TS = cross_attention(model, source_ids, target_ids).tolist()
    return Attention(
        [
            *[LANGUAGE_TAG] * (sizes[0] - len(text_ids)),
            *token_texts(tokenizer, text_ids),
            SPECIAL_TOKENS[EOS],
        ],
        [*token_texts(tokenizer, target_ids), SPECIAL_TOKENS[EOS]],
        [[round(weight, DIGITS) for weight in row] for row in weights_TS],
        sentence,
    )


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """A readable text for each token, spaces as U+2581.

    Consecutive tokens with parts of characters have their text together, at the first of them; the
    others have an ellipsis.
    """
    texts: list[str] = []
    pieces = zip(tokenizer.pieces(ids), ids, strict=True)
    for is_part, group in groupby(pieces, key=lambda piece: PART in piece[0]):
        run = list(group)
        if is_part:
            (text,) = tokenizer.decode([[i for _, i in run]])
            texts += [text, *[CONTINUED] * (len(run) - 1)]
        else:
            texts += [text for text, _ in run]
    return [text.replace(" ", SPACE) for text in texts]
