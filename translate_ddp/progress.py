"""Progress of long work: a tqdm bar on a terminal, plain lines elsewhere."""

import io
import os
import time
from contextlib import suppress
from typing import TextIO

from tqdm import tqdm

from translate_ddp.console import print_line, printable

LINE_SECONDS = 10.0  # between two lines of progress where there is no terminal
COLUMNS = 80  # of a bar at most
FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"
LINE_FORMAT = "{desc} {percentage:3.0f}% {n_fmt}/{total_fmt}{postfix}"


class Progress(tqdm):
    """A bar of at most `COLUMNS` columns that shows the time left.

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
            bar_format=LINE_FORMAT if self.lines else FORMAT,
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
            self.ncols = min(COLUMNS, terminal_columns())  # the window may have changed
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
