"""Lines for the console, whatever is in them and whoever still reads it."""

import os
import re
import sys

# C0 and C1 controls, bidirectional marks and overrides, separators of lines, lone surrogates.
UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with every character that could command a terminal or reorder a line escaped."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def print_line(line: str) -> None:
    """A line on stdout, which may know few characters or be closed: no reason to end a run."""
    from tqdm import tqdm  # here: it is needed where lines are printed, not where this is imported

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    line = line.encode(encoding, "backslashreplace").decode(encoding)
    try:
        with tqdm.external_write_mode():
            print(line, flush=True)
    except OSError:  # nobody reads any more, as in `train.py | head`; let the exit be clean too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
