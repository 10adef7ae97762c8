"""The command line of a command: flags and texts; the folder and the page that it names.

Nothing here imports torch, which takes seconds.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, TypeVar

import tyro

from translate_ddp.errors import UserError
from translate_ddp.runtime.files import check_new, explain_write_errors, write_atomically

C = TypeVar("C")
GENERATOR = b'<meta name="generator" content="translate_ddp">'  # as in the pages' templates
START_BYTES = 1000  # that hold it
HOME = re.compile(r"(--[^\s=]*=)(~(?:/.*)?)", re.DOTALL)


def parse(
    config: type[C],
    arguments: Sequence[str],
    prog: str,
    prints: bool = True,
    default: Any = tyro.MISSING_NONPROP,
) -> C:
    """The configuration of a command line; `default` has the values of flags that are not given.

    `prints` is false off rank 0. Raises SystemExit, with a message, for unusable flags, UserError
    for the errors of `check_switches`.
    """
    check_switches(arguments, switches(config))
    with nullcontext() if prints else silence():
        return tyro.cli(
            config,
            args=expand_home(arguments),
            default=default,
            prog=prog,
            config=(tyro.conf.OmitArgPrefixes,),
            use_underscores=True,
        )


@contextmanager
def silence() -> Iterator[None]:
    """Within it, nothing is printed."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def check_switches(arguments: Sequence[str], names: set[str]) -> None:
    """Raise UserError for a switch with a value, and for the flag of an old launcher."""
    for argument, following in pairwise([*takewhile("--".__ne__, arguments), ""]):
        flag, equals, _ = argument.partition("=")
        if (name := flag_name(flag)) == "--local_rank":
            raise UserError(f"{flag} is a flag of torch.distributed.launch: use torchrun.")
        if name in names and (equals or following.lower() in ("true", "false")):
            switch = name.removeprefix("--").removeprefix("no_")
            raise UserError(f"{flag} takes no value: pass --{switch}, or --no_{switch} for false.")


def flag_name(flag: str) -> str:
    return flag[:2] + flag[2:].replace("-", "_")


def switches(config: Any) -> set[str]:
    """The flags of settings that are true or false."""
    found: set[str] = set()
    for setting in fields(config):
        if is_dataclass(setting.type):
            found |= switches(setting.type)
        elif isinstance(setting.default, bool):
            found |= {f"--{setting.name}", f"--no_{setting.name}"}
    return found


def expand_home(arguments: Sequence[str]) -> list[str]:
    """The arguments with the home folder in place of `~` in `--name=~/x`, where shells leave it."""
    return [
        f"{found[1]}{os.path.expanduser(found[2])}" if (found := HOME.fullmatch(each)) else each
        for each in arguments
    ]


def given_flags(arguments: Sequence[str]) -> set[str]:
    """The names of the settings in a usable command line, as perturb for --no_perturb."""
    flags = (flag_name(each.partition("=")[0]) for each in arguments if each.startswith("--"))
    return {flag.removeprefix("--").removeprefix("no_") for flag in flags}


def run_folder(name: str) -> Path:
    """The folder of a run that a command line names. Raises UserError if there is none."""
    folder = Path(name)
    if folder.is_file():
        raise UserError(f"{folder} is a file: pass its folder, {folder.absolute().parent}")
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}: pass the --model_folder of a run.")
    return folder


def check_page(path: Path, flag: str) -> None:
    """Raise UserError if a page cannot be written there, or would replace something else."""
    if path.is_dir():
        raise UserError(f"{flag} {path} is a folder: pass a new file in it.")
    if not path.exists():
        return check_new(path, flag)
    with path.open("rb") as file:
        if GENERATOR not in file.read(START_BYTES):
            raise UserError(
                f"{flag} {path} exists and is no page of translate_ddp: pass a new file."
            )


def write_page(path: Path, html: str, flag: str) -> None:
    """Write the page, or replace it at once. Raises UserError if that fails."""
    with explain_write_errors(f"{flag} {path}"):
        write_atomically(path, html)
