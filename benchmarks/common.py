"""Shared parts of all benchmarks: command lines, folders, commands of child processes.

Does not import torch: contestants that only start another program import this module, and their
memory is measured.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import tyro

from translate_ddp.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("benchmarks/results")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}  # variables of contestants

Values = dict[str, str | float]  # of a row of a table, by column


class Failed(Exception):
    """A contestant gave no result; the text is the reason."""


@dataclass(frozen=True)
class Settings:
    """The part of the command line that all benchmarks share."""

    results: Path = RESULTS
    """Folder that receives the report; it is created if missing."""

    def require_at_least(self, minimum: float, *names: str) -> None:
        """Raises ValueError if one of these settings is below `minimum`."""
        for name in names:
            if getattr(self, name) < minimum:
                raise ValueError(
                    f"{name} must be at least {minimum}, but is {getattr(self, name)}."
                )


Parsed = TypeVar("Parsed")


def read_settings(settings: type[Parsed], description: str | None) -> Parsed:
    """The command line as an instance of the dataclass `settings`.

    Exits with code 2 and a message if the flags are unusable. Raises UserError if the results
    folder cannot be written to.
    """
    return _with_folder(tyro.cli(settings, **_options(description)))


def read_settings_and_flags(
    settings: type[Parsed], description: str | None
) -> tuple[Parsed, list[str]]:
    """As `read_settings`; also returns the flags that `settings` has no field for."""
    found, flags = tyro.cli(settings, return_unknown_args=True, **_options(description))
    return _with_folder(found), flags


def _options(description: str | None) -> dict[str, Any]:
    spec = sys.modules["__main__"].__spec__
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    return {"prog": prog, "description": description, "use_underscores": True}


def _with_folder(found: Parsed) -> Parsed:
    if isinstance(found, Settings):
        make_folder(found.results)
    return found


def make_folder(folder: Path) -> None:
    """Create the folder if it is missing. Raises UserError if nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"Cannot write to {folder}: {reason}. Choose another folder.") from None


@contextmanager
def work_folder(chosen: str = "") -> Iterator[Path]:
    """An absolute path: the folder `chosen`, which is kept, or, if '', a temporary folder."""
    with nullcontext(chosen) if chosen else tempfile.TemporaryDirectory() as name:
        folder = Path(name).absolute()
        make_folder(folder)
        yield folder


def as_flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the words of a command line: `{"seed": 3}` is `["--seed", "3"]`."""
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def python(processes: int = 1) -> list[str]:
    """The command that starts a Python program, under torchrun if on several processes."""
    if processes == 1:
        return [sys.executable]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    return [sys.executable, *launcher]


def last_line(text: str) -> str:
    """The last line that is not blank; '' if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)


def select(entries: Sequence[Entry], only: Sequence[str]) -> list[Entry]:
    """The entries whose name contains one of `only`, or all if `only` is empty.

    Raises UserError if no name does.
    """
    chosen = [entry for entry in entries if not only or any(part in entry.name for part in only)]
    if not chosen:
        names = "; ".join(entry.name for entry in entries)
        raise UserError(f"--only {' '.join(only)} matches none of: {names}.")
    return chosen
