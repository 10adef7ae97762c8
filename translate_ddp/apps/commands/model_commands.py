"""What the commands that use a model share: the model, given pairs, and the lines they write."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import tyro

from translate_ddp import __version__
from translate_ddp.apps.commands.command_line import silence
from translate_ddp.console import ProgressBar, print_line, printable
from translate_ddp.data.dataset import (
    find_prepared,
)
from translate_ddp.data.inputs import read_given_pairs, read_glossary
from translate_ddp.data.readers.spreadsheet import is_spreadsheet
from translate_ddp.data.readers.streams import compression_of
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import Stopped, UserError, cleanup
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine
from translate_ddp.modeling.engine import OnDone, ignore
from translate_ddp.runtime.chunked_file import ChunkedFile
from translate_ddp.runtime.device import visible_gpus
from translate_ddp.runtime.environment import usable_cores
from translate_ddp.runtime.launch import read_launch
from translate_ddp.runtime.long_calls import heartbeat
from translate_ddp.runtime.workers import map_in_processes
from translate_ddp.runtime.world import World, open_world
from translate_ddp.settings import (
    Checked,
    CheckpointConfig,
    CorpusConfig,
    DistributedConfig,
    Quoting,
    SourceOptions,
    Split,
    at_least,
    setting,
)
from translate_ddp.spans import Protection
from translate_ddp.text import normalize
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.checkpoint_name import is_word
from translate_ddp.training.open_checkpoint import open_checkpoint
from translate_ddp.training.state import RunState
from translate_ddp.training.validation import validation_rows
from translate_ddp.translator import Translator

_find_once = cache(find_prepared)  # it verifies all files
STDOUT = ("", "-", "/dev/stdout")  # values of --output
ROWS = 1000  # in a chunk: read and computed together
PARTS_PER_WORKER = 20  # at least: to start a process takes as long as these on a fast GPU
TIMEOUT_MINUTES = 60.0  # without progress; a large input takes minutes to read
DECIMALS = 6  # in log-probabilities: with more, more of them differ between machines


@dataclass(frozen=True)
class EngineConfig:
    """Settings of what computes translations."""

    engine: Literal["torch", "ctranslate2"] = "torch"
    """ctranslate2: faster on CPUs; the checkpoint is converted, and verified at its first use."""
    quantization: Literal["", "float32", "int8", "float16"] = ""
    """Weights with --engine ctranslate2; '': float32, or as exported."""

    def __post_init__(self) -> None:
        if self.quantization and self.engine == "torch":
            raise ValueError("--quantization needs --engine ctranslate2.")

    def replace_in(self, translator: Translator, folder: Path) -> None:
        """Let this engine compute a model of the folder. Raises UserError if it cannot."""
        if self.engine == "ctranslate2" and translator.has_state:
            from translate_ddp.apps.exporting.ctranslate2_export import open_verified

            quantization = self.quantization or "float32"
            translator.engine = open_verified(translator.state, folder, quantization)
        elif self.quantization:
            raise UserError("An exported model has its quantization: omit --quantization.")


TORCH = EngineConfig()


@dataclass(frozen=True)
class ProtectionConfig:
    """Settings of what translations hold as the source has it, or as a glossary has it."""

    glossary: str = ""
    """Table of terms (.tsv, .csv, .xlsx, .ods): a term and its translation in each row, and the
    languages as names of columns. A term in lower case is found in any case."""
    protect: str = ""
    """Regular expression of text that stays as it is, as links, placeholders, tags, ... do."""

    def __post_init__(self) -> None:
        Protection([*filter(None, [self.protect])])

    def create(self, languages: tuple[str, str]) -> Protection:
        """For this direction. Raises UserError if the glossary cannot be used."""
        terms = read_glossary(self.glossary, languages) if self.glossary else {}
        return Protection([*filter(None, [self.protect])], terms)


@dataclass(frozen=True)
class DirectionConfig:
    """Settings that choose one of several directions, or name the languages of texts."""

    to: str = ""
    """Target language, if the model has several, or without a model."""
    source_language: Annotated[str, tyro.conf.arg(name="from")] = ""
    """Source language, if the model has several for that target, or without a model."""

    def choose(self, translator: Translator, pivot: str = "") -> Translator:
        """The model in this direction. Raises UserError if it has none, or several."""
        if self.to or self.source_language or pivot:
            return translator.to(self.to, self.source_language, pivot)
        return translator


@dataclass(frozen=True)
class SavedModel(Checked):
    """Settings that select a checkpoint."""

    model_folder: str = CheckpointConfig.model_folder
    """Folder of a run or of an exported model, or a checkpoint file."""
    model_basename: str = CheckpointConfig.model_basename
    """Prefix of the checkpoint names."""
    preload: str = CheckpointConfig.preload
    """Checkpoint in the folder: latest, best (epoch), an epoch number; or the path of a model."""
    average: int = setting(0, check=at_least(0))
    """Epochs to average, up to --preload's; 0: as in training (best and files: no average)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        CheckpointConfig(self.model_folder, self.model_basename)  # checks both

    @property
    def path(self) -> Path:
        """The folder or the file that `open` reads."""
        folder = Path(self.model_folder)
        return folder if folder.is_file() or is_word(self.preload) else Path(self.preload)

    @property
    def folder(self) -> Path:
        """The folder of the model's files."""
        return self.path.parent if self.path.is_file() else self.path

    def open(self, split: Split = "sentences", engine: EngineConfig = TORCH) -> Translator:
        """The model. Raises UserError if there is none."""
        found = Translator.open(self.model_folder, self.preload, self.model_basename, self.average)
        engine.replace_in(found, self.folder)
        found.split = split
        return found

    def open_checkpoint(self) -> tuple[RunState, Path]:
        """The state of a checkpoint, and its file. Raises UserError if there is none."""
        store = CheckpointStore(CheckpointConfig(self.model_folder, self.model_basename))
        return open_checkpoint(store, self.preload, self.average)


class Pairs(NamedTuple):
    """Sources and references, normalized."""

    sources: list[str]
    references: list[str]
    languages: LanguagePair


@dataclass(frozen=True)
class PairsConfig:
    """Settings that select pairs: given ones, or the validation set of the run."""

    source: str = ""
    """File of sentences (text, or a table), or a corpus of pairs as for --dataset of training, with
    {src} and {tgt} for the languages; '': the validation set of the training run."""
    reference: str = ""
    """File of the translations, unless --source has them."""
    src_column: str = ""
    """Column of --source that holds the sources: a name, or a number from 1 on; '': the usual
    names."""
    tgt_column: str = ""
    """Column of --source that holds the references."""
    quoting: Quoting = "auto"
    """Quotes in TSV and CSV. csv: they enclose fields; none: they are text; auto: by the file."""
    direction: DirectionConfig = field(default_factory=DirectionConfig)

    def __post_init__(self) -> None:
        if self.reference and not self.source:
            raise ValueError("--reference needs --source.")
        if (self.src_column or self.tgt_column) and (self.reference or not self.source):
            raise ValueError("--src_column and --tgt_column are for a --source with both sides.")

    def read(self, languages: LanguagePair) -> Pairs:
        """The pairs of `source`, or of it and `reference`. Raises UserError if unusable."""
        options = SourceOptions(self.src_column, self.tgt_column, quoting=self.quoting)
        source, reference = map(languages.fill, (self.source, self.reference))
        sides = read_given_pairs(source, reference, languages, options)
        sources, references = (list(map(normalize, side)) for side in sides)
        return Pairs(sources, references, languages)

    def read_for(self, translator: Translator, saved: SavedModel) -> Pairs:
        """The given pairs, or the validation set of the model's training. Raises UserError."""
        direction = translator.direction
        if not self.source:
            return from_training(saved, translator)
        if translator.has_state and direction.fill(self.source) != self.source:
            corpus = CorpusConfig.of(translator.state.run.config["corpus"])
            if direction not in corpus.requested:  # its pairs are in files of the other direction
                if self.src_column or self.tgt_column:
                    raise UserError(f"{direction}: name one file, as --source, for its columns.")
                targets, sources, _ = self.read(direction.reverse)
                return Pairs(sources, targets, direction)
        return self.read(direction)


def from_training(saved: SavedModel, translator: Translator) -> Pairs:
    """The validation set of the training run, which is beside its checkpoints.

    Raises UserError if it is not there.
    """
    folder, data = saved.folder, None
    if translator.has_state:
        data = _find_once(folder / "data", *translator.state.run.identity.data_fingerprints)
    if data is None:
        raise UserError(
            f"The validation set of the training is not in {folder / 'data'}: pass --source and "
            "--reference. To score an exported model: --model_folder RUN --compare EXPORT."
        )
    rows = validation_rows(data)[translator.direction]
    sides = data.validation_sources[rows], data.validation_references[rows]
    return Pairs(*sides, translator.direction)


def in_words(directions: Iterable[LanguagePair]) -> str:
    return ", ".join(f"{src} to {tgt}" for src, tgt in directions)


def check_one_process(
    advice: str = "Several processes write one file together: pass --output FILE.",
) -> None:
    """Raise UserError, with the advice, if a launcher has started several processes."""
    if read_launch(os.environ).size > 1:
        raise UserError(advice)


def check_lines(output: str) -> None:
    """Raise ValueError if the name of a file for lines has the ending of another format."""
    path = Path(output)
    if compression_of(path) or is_spreadsheet(path):
        raise ValueError(f"--output is lines of text: pass a name without {path.suffix}.")


def rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), DECIMALS) for value in values]


def to_json(value: object) -> str:
    """JSON on one line. A lone surrogate, which is no text, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def to_bytes(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def print_lines(lines: Sequence[str]) -> None:
    """Write the lines to standard output in UTF-8, whatever the locale.

    Texts are untrusted: a terminal gets characters escaped that could control it. Pipes and files
    receive them unchanged.
    """
    if sys.stdout.isatty():
        lines = list(map(printable, lines))
    sys.stdout.buffer.write(to_bytes(lines))
    sys.stdout.buffer.flush()


class Rows(Protocol):
    """Rows of which a command computes lines.

    `config.open()` is the model, and `config.compute(translator, item, on_done)` the lines of an
    item. `on_done` receives the number of rows of each finished batch.
    """

    config: Any
    translator: Translator

    def __len__(self) -> int: ...

    def item(self, part: range) -> Any:
        """The contents of these rows, which may be sent to another process."""
        ...

    def identity(self) -> list[object]:
        """Plain values on which the lines depend."""
        ...


def parts_of(rows: Rows) -> list[range]:
    """All rows in parts that are computed together."""
    return [range(start, min(start + ROWS, len(rows))) for start in range(0, len(rows), ROWS)]


def computed(rows: Rows, parts: Sequence[range], on_done: OnDone = ignore) -> Iterator[list[str]]:
    """The lines of each part, in order.

    With enough parts for each, by a worker process for each GPU, or else for each core: threads of
    one process wait for each other's Python code.
    """
    gpus, count, items = visible_gpus(), len(parts) // PARTS_PER_WORKER, map(rows.item, parts)
    count = min(count, len(gpus) or usable_cores())
    if count < 2 or read_launch(os.environ).size > 1:  # other ranks use the other devices
        for item in items:
            yield rows.config.compute(rows.translator, item, on_done)
        return
    print_line(
        f"Starts {count} processes, each with {'a GPU' if gpus else 'its cores'}.", sys.stderr
    )
    config, engine = rows.config, rows.translator.engine
    if rows.translator.has_state and isinstance(engine, CTranslate2Engine):  # already converted
        config = replace(config, saved=SavedModel(str(engine.folder)), engine=TORCH)
    function = partial(lines_in_worker, config, str(rows.translator.identity))
    found = map_in_processes(function, items, processes=count, gpus=gpus[:count])
    for part, lines in zip(parts, found, strict=True):
        on_done(len(part))
        yield lines


def lines_in_worker(config: Any, identity: str, item: object) -> list[str]:
    return config.compute(open_once(config, identity), item)


@cache
def open_once(config: Any, identity: str) -> Translator:
    """The model of a worker. Raises UserError if the process that started it has another one."""
    with silence():  # which has printed the same
        translator = config.open()
    if str(translator.identity) != identity:
        raise UserError(
            "The checkpoint has changed since the command started, or a GPU computes in another "
            "precision. Run the command again, with --preload or CUDA_VISIBLE_DEVICES."
        )
    return translator


def write_file(output: str, open_rows: Callable[[], Rows], label: str) -> None:
    """Write the lines of all rows, in order, to a new file, on all ranks.

    An interrupted call is continued by the next one with an equal identity. Raises UserError if the
    file exists or cannot be written, or at a request to stop, followed after a batch or chunk.
    """
    opened: list[Rows] = []
    with open_world(DistributedConfig(timeout_minutes=TIMEOUT_MINUTES)) as world:

        def open_on_this_rank() -> None:
            with nullcontext() if world.is_main else silence():
                opened.append(open_rows())

        world.supervisor.at_end(lambda _: cleanup.close(), seconds=5)
        world.supervisor.begin_training()
        world.on_each_rank("opening the model and the input", open_on_this_rank)
        write_rows(Path(output), opened[0], world, label)


def write_rows(output: Path, rows: Rows, world: World, label: str) -> None:
    """As `write_file`, on the ranks of an open world."""
    total, parts = len(rows), parts_of(rows)
    key = [__version__, ROWS, total]
    file = ChunkedFile(output, lambda: key + rows.identity(), len(parts), world)
    missing = file.missing()
    if world.is_main and len(missing) < file.count:
        done = total - sum(len(parts[chunk]) for chunk in missing)
        print_line(f"Continues: {done:,} of {total:,} rows are done.", sys.stderr)

    def on_done(rows: int) -> None:
        progress.advance(rows)
        heartbeat()
        if world.supervisor.stop_reason is not None:
            raise Stopped

    def work(chunks: list[int]) -> Iterator[bytes]:
        return map(to_bytes, computed(rows, [parts[chunk] for chunk in chunks], on_done))

    own = sum(len(parts[chunk]) for chunk in file.of_this_rank(missing))
    try:
        with ProgressBar(label, own, shown=world.is_main, lines_to=sys.stderr) as progress:
            file.compute(missing, work)
    except Stopped:
        reason = world.supervisor.stop_reason or "on another rank"
        raise UserError(
            f"Stopped ({reason}) before {output} was complete: run the same command to continue."
        ) from None
    file.publish()
