"""Prints any text to a console whose encoding may lack its characters, or that may be closed."""

import os
import re
import sys
from typing import TextIO

# C0 and C1 controls, bidirectional marks and overrides, line separators, lone surrogates.
UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text, with characters escaped that could control a terminal or reorder a line."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def open_closed_streams() -> None:
    """Open the null device in place of standard streams that are closed, as by `<&-`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def print_line(line: str, file: TextIO | None = None) -> None:
    """Print a line to stdout, or to `file`, above any progress bar.

    An unusable stdout ends no training: a closed one is no error, and any other, such as a file on
    a full disk, is reported on stderr once.
    """
    from tqdm import tqdm  # here: --help does not need it

    stream = file or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = line.encode(encoding, "backslashreplace").decode(encoding)
    try:
        with tqdm.external_write_mode():
            print(line, file=stream, flush=True)
    except OSError as error:  # as in `train.py | head`: the flush at exit must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            reason = error.strerror or error
            print_line(f"Nothing more is printed to standard output: {reason}.", sys.stderr)
