"""`python -m translate_ddp translate`: one line per line of the input, in its order."""

import io
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Annotated

import tyro

from translate_ddp.checks import check_at_least
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.settings import SearchConfig
from translate_ddp.translator import Translator

LINES_AT_ONCE = 1000  # lines read and translated together


@dataclass(frozen=True)
class SavedModel:
    """Settings that select a checkpoint."""

    model_folder: str = CheckpointConfig.model_folder
    """Folder of the checkpoints."""
    model_basename: str = CheckpointConfig.model_basename
    """Prefix of the checkpoint names."""
    preload: str = CheckpointConfig.preload
    """Checkpoint to use: latest, best (epoch), an epoch number, or a file."""
    average: int = 0
    """Epochs to average, up to that one; 0: as set in training (best and files: no average)."""

    def __post_init__(self) -> None:
        check_at_least(0, self, "average")

    def open(self) -> Translator:
        return Translator.open(self.model_folder, self.preload, self.model_basename, self.average)


@dataclass(frozen=True)
class TranslateConfig:
    """Translate lines of text with a trained checkpoint, sentence by sentence."""

    lines: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Lines to translate; if there are none, those of standard input."""
    saved: SavedModel = field(default_factory=SavedModel)
    search: SearchConfig = field(default_factory=SearchConfig)


def run(config: TranslateConfig) -> None:
    # UTF-8, whatever the locale. An invalid byte becomes one replacement character.
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    translator = config.saved.open()
    lines = config.lines or (line.rstrip("\n") for line in sys.stdin)
    at_once = 1 if sys.stdin.isatty() else LINES_AT_ONCE
    for start, chunk in chunks(lines, at_once):

        def report(row: int, message: str, first: int = start + 1) -> None:
            print(f"Line {first + row}: {message}", file=sys.stderr)

        for translation in translator.translate(chunk, **asdict(config.search), report=report):
            print(translation, flush=True)


def chunks(lines: Iterable[str], size: int) -> Iterator[tuple[int, list[str]]]:
    """Lists of `size` lines, and the number of lines before each."""
    iterator = iter(lines)
    for start in itertools.count(0, size):
        if not (chunk := list(itertools.islice(iterator, size))):
            break
        yield start, chunk
