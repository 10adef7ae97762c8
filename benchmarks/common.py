"""Shared parts of all benchmarks: command lines, folders, commands of child processes.

Does not import torch: contestants that only start another program import this module, and their
memory is measured.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tyro

from translate_ddp.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("benchmarks/results")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}  # variables of contestants
OWN = "translate_ddp"  # labels of our own contestants start with it

Values = dict[str, str | float]  # of a row of a table, by column
Parsed = TypeVar("Parsed")


class Failed(Exception):
    """A contestant gave no result; the text is the reason."""


@dataclass(frozen=True)
class Settings:
    """The part of the command line that all benchmarks share."""

    results: Path = RESULTS
    """Folder that receives the report; it is created if missing."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
                raise ValueError(f"{name} must be positive, but is {value}.")


def read_settings(settings: type[Parsed], description: str | None) -> Parsed:
    """The command line as an instance of the dataclass `settings`.

    Exits with code 2 and a message if the flags are unusable. Raises UserError if the results
    folder cannot be written to.
    """
    spec = sys.modules["__main__"].__spec__
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    found = tyro.cli(settings, prog=prog, description=description, use_underscores=True)
    if isinstance(found, Settings):
        try:
            found.results.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=found.results):
                pass
        except OSError as error:
            reason = error.strerror or error
            raise UserError(
                f"Cannot write to {found.results}: {reason}. Choose another folder."
            ) from None
    return found


def as_flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the words of a command line: `{"seed": 3}` is `["--seed", "3"]`."""
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def python(processes: int = 1) -> list[str]:
    """The command that starts a Python program, under torchrun if on several processes."""
    if processes == 1:
        return [sys.executable]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    return [sys.executable, *launcher]


def module_command(module: str, settings: Mapping[str, Any], processes: int = 1) -> list[str]:
    """The command that starts a module of the benchmarks with these settings."""
    return [*python(processes), "-m", f"benchmarks.{module}", *as_flags(settings)]


def last_line(text: str) -> str:
    """The last line that is not blank; '' if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def select(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """The names that contain one of `only`, or all if `only` is empty.

    Raises UserError if none does.
    """
    chosen = [name for name in names if not only or any(part in name for part in only)]
    if not chosen:
        raise UserError(f"--only {' '.join(only)} matches none of: {'; '.join(names)}.")
    return chosen
