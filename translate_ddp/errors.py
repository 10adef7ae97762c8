"""The one exception that prints to the person who started the program."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from translate_ddp.console import printable

FIRST_WORD_SECONDS = 0.5  # before a silent rank ends, and a launcher in turn ends those that speak


class UserError(Exception):
    """Something its reader can mend: what was asked, what was found, what to do.

    As a rule every rank raises it together. `alone` says that this rank alone does, and so has to
    tell the reader itself.
    """

    def __init__(self, text: str, this_rank_only: bool = False) -> None:
        super().__init__(text)
        self.this_rank_only = this_rank_only


class NotSaved(UserError):
    """Something to be kept could not be written; what was kept before is untouched."""


class Stopped(Exception):
    """Work was left, as somebody asked; all that counts is saved."""


def first_line(error: BaseException) -> str:
    """The first line of the error's message, without gloo's guesses at a cause."""
    first = (str(error).strip().splitlines() or ["no reason given"])[0]
    return first.split(". This is typically caused by")[0]


@contextmanager
def report_errors(prints: bool = True) -> Iterator[None]:
    """Turn a `UserError` into its text, without traceback, and exit code 2.

    `prints` is false off rank 0, which tells it for all.
    """
    try:
        yield
    except UserError as error:
        sys.stdout.flush()
        if prints or error.this_rank_only:
            lines = [printable(line) for line in f"error: {error}".split("\n")]
            print("\n".join(lines), file=sys.stderr, flush=True)
        else:
            time.sleep(FIRST_WORD_SECONDS)
        # Not sys.exit: at an orderly exit a process group that was not closed may abort.
        os._exit(2)
    except SystemExit as error:
        if error.code and not prints:  # the command line cannot be used, as rank 0 is saying
            time.sleep(FIRST_WORD_SECONDS)
        raise
    except KeyboardInterrupt:
        os._exit(130)
