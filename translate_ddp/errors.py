"""Errors that the user can act on, and how they are reported."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

from translate_ddp.console import IN_NOTEBOOK, printable

# Other ranks exit this much later, so that rank 0 can print: a launcher ends all ranks after one.
EXIT_DELAY_SECONDS = 0.5
# Errors of a path, or of a disk, that the user chose.
NOT_USABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOSPC)
cleanup = ExitStack()  # deletes temporary files, and releases locks, when a command ends


class UserError(Exception):
    """An error that the user can act on. Its text: what was requested, what was found, what to do.

    Every rank raises it, and rank 0 prints it. With `this_rank_only` it is raised and printed by
    one rank.
    """

    def __init__(self, text: str, this_rank_only: bool = False) -> None:
        super().__init__(text)
        self.this_rank_only = this_rank_only


class NoSuchPair(UserError):
    """A source does not exist, or has no text in a pair of languages."""


class NotSaved(UserError):
    """A file could not be written. Existing files are unchanged."""


class Stopped(Exception):
    """A stop was requested during long work, which the next start does again or continues."""


def first_line(error: BaseException) -> str:
    """The first line of the error's message, without the possible causes that gloo appends.

    The name of its type if it has no message.
    """
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first.split(". This is typically caused by")[0]


def type_and_line(error: BaseException) -> str:
    """The name of the error's type, and the first line of its message if it has one."""
    name, line = type(error).__name__, first_line(error)
    return name if line == name else f"{name}: {line}"


def import_optional(name: str, requirements_file: str) -> Any:
    """The module `name`. Raises UserError with the file to install if its library is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.partition(".")[0].replace("_", "-")
        raise UserError(
            f"{library} is not installed: run pip install -r {requirements_file}."
        ) from error


def _print(text: str) -> None:
    cleanup.close()
    with suppress(OSError):  # its disk may be full
        sys.stdout.flush()
    lines = [printable(line) for line in f"error: {text}".split("\n")]
    print("\n".join(lines), file=sys.stderr, flush=True)


def exit_now(code: int) -> NoReturn:
    """End the process at once; in a notebook, end the program by a SystemExit."""
    if IN_NOTEBOOK:
        raise SystemExit(code) from None
    os._exit(code)  # not sys.exit: the destructor of an open process group may abort the process


@contextmanager
def report_errors(prints: bool = True) -> Iterator[None]:
    """Print a `UserError` without traceback, and exit with code 2; also a path that is not usable.

    `prints` is false off rank 0, which prints for all ranks.
    """
    try:
        yield
    except UserError as error:
        if prints or error.this_rank_only:
            _print(str(error))
        else:
            time.sleep(EXIT_DELAY_SECONDS)
        exit_now(2)
    except OSError as error:
        is_output = error.filename is None and error.errno == errno.ENOSPC
        if not is_output and (error.filename is None or error.errno not in NOT_USABLE):
            raise
        place = "The output" if is_output else error.filename
        _print(f"{place} cannot be used: {error.strerror}.")
        exit_now(2)
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        _print(f"{error}: raise ulimit -u, ulimit -v, or the pids limit of the container.")
        exit_now(2)
    except SystemExit as error:
        if error.code and not prints:  # unusable flags, which rank 0 reports
            time.sleep(EXIT_DELAY_SECONDS)
        raise
    except KeyboardInterrupt:
        cleanup.close()
        exit_now(130)
