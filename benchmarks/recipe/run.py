"""One training run by `train.py`, as a user starts it; it can be stopped and resumed."""

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.common import ROOT, as_flags, python
from benchmarks.recipe.convention import SOURCE, TARGET, TRAIN, VALIDATION, Convention
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically

POLL_SECONDS = 5.0
STOPPED = 3  # exit code of train.py after a request to stop: it has saved, but not finished


def protocol_flags(convention: Convention, corpus: Path, folder: Path, seed: int) -> list[str]:
    """The flags of train.py that the protocol fixes; later flags override them."""
    return as_flags(
        {
            "dataset": convention.prefix(corpus, TRAIN),
            "validation": convention.prefix(corpus, VALIDATION),
            "lang_src": SOURCE,
            "lang_tgt": TARGET,
            "model_folder": folder,
            "seed": seed,
            "keep_last": 10,  # for the averages
            "wandb_mode": "disabled",
            "preempted_exit_code": STOPPED,
        }
    )


def train(flags: Sequence[str], processes: int, clock: Path) -> None:
    """Start or resume the run to its end. `clock` holds the seconds of all its processes.

    Raises UserError if the training failed or was stopped.
    """
    before = float(clock.read_text()) if clock.exists() else 0.0
    begin, code = time.monotonic(), None
    child = subprocess.Popen([*python(processes), "train.py", *flags], cwd=ROOT)
    try:
        while code is None:
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(POLL_SECONDS)
            write_atomically(clock, f"{before + time.monotonic() - begin}\n")
    finally:
        child.terminate()  # it saves; without effect if it has ended
        child.wait()
    if code:
        raise UserError(f"train.py ended with code {code}: see its message above.")
