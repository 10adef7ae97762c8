"""Text on the console: any text, whatever the terminal; numbers in words; progress of long work."""

import builtins
import io
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from tqdm import tqdm

# C0 and C1 controls, bidirectional marks and overrides, line separators, lone surrogates.
UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
MAX_NAMED = 16  # ranks
LINE_SECONDS = 10.0  # between two lines of progress where there is no terminal
BAR_COLUMNS = 80  # at most
IN_NOTEBOOK = hasattr(builtins, "__IPYTHON__")  # whose process goes on after a program
BAR_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"
LINE_FORMAT = "{desc} {percentage:3.0f}% {n_fmt}/{total_fmt}{postfix}"


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


def number(value: float) -> str:
    """The value with four significant digits, or rounded if it has more: 0.0003, 92.13, 53,120."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def counted(count: int, noun: str) -> str:
    """`1 pair`, `1,200 pairs`: the count and the noun, whose plural ends in s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def describe_seconds(seconds: float) -> str:
    """`45 s`, `2 min 5 s` or `3 h 20 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: int) -> str:
    """`640 kB`, `12.3 MB`, `4.5 GB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count / 1e3:,.0f} kB"


def rank_names(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 4`, `ranks 1 to 7` where they follow each other; of many the first 16."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = " and others" if len(ranks) > MAX_NAMED else ""
    return f"ranks {', '.join(map(str, ranks[:MAX_NAMED]))}{more}"


class ProgressBar(tqdm):
    """A bar of at most `BAR_COLUMNS` columns that shows the time left.

    Without a terminal it prints a line every `LINE_SECONDS` and one at the end, to `lines_to` or
    stdout. `leave=False` clears the bar, or omits the last line. `scaled` shows 12.3M instead of
    12345678. A terminal that closes does not end the run.
    """

    monitor_interval = 0  # no thread that prints at other times

    def __init__(
        self,
        label: str,
        total: int,
        *,
        initial: int = 0,
        shown: bool = True,
        scaled: bool = False,
        leave: bool = True,
        lines_to: TextIO | None = None,
    ) -> None:
        self.lines_to = lines_to
        self.text = ""  # shown beside the count
        self.lines = terminal_columns() == 0
        self._printed = -1  # the count of the last line
        self._began = time.monotonic()
        super().__init__(
            desc=printable(label),
            total=total,
            initial=initial,
            disable=not shown,
            leave=leave,
            unit_scale=scaled,
            bar_format=LINE_FORMAT if self.lines else BAR_FORMAT,
            mininterval=LINE_SECONDS if self.lines else 0.1,
            miniters=1,
            delay=LINE_SECONDS if self.lines else 0,
            file=io.StringIO() if self.lines else None,  # lines are printed by `display`
        )

    def advance(self, count: int = 1, seconds_left: float | None = None) -> None:
        """Add `count` to the number done; the time left is estimated if it is not given."""
        if self.disable:
            return
        done, total = self.n + count, float(self.total or 0)
        pace = (time.monotonic() - self._began) / max(done - self.initial, 1)
        left = pace * (total - done) if seconds_left is None else seconds_left
        parts = [self.text, f"{tqdm.format_interval(int(left))} left"]
        self.set_postfix_str(", ".join(filter(None, parts)), refresh=False)
        self.update(count)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if self.lines:
            if msg is None and self.n != self._printed:  # not a request to clear the line
                self._printed = self.n
                print_line(str(self), self.lines_to)
        else:
            self.ncols = min(BAR_COLUMNS, terminal_columns())  # the window may have changed
            with suppress(OSError):
                super().display(msg, pos)

    def close(self) -> None:
        with suppress(OSError):
            if self.lines and not self.disable:
                self.disable = True
                if self.leave:
                    self.display()
            else:
                super().close()


def terminal_columns() -> int:
    """The width of the terminal that shows stderr; 0 if there is none, or one without a width."""
    try:
        return os.get_terminal_size(2).columns
    except OSError:
        return 0
