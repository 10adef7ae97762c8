"""Progress of long work: a tqdm bar on a terminal, plain lines elsewhere."""

import os
import time
from contextlib import suppress

from tqdm import tqdm

from translate_ddp.console import print_line, printable

LINE_SECONDS = 10.0  # between two lines of progress where there is no terminal
FORMAT = "{desc} {percentage:3.0f}%|{bar:8}| {n_fmt}/{total_fmt}{postfix}"
LINE_FORMAT = "{desc} {percentage:3.0f}% {n_fmt}/{total_fmt}{postfix}"


class Progress(tqdm):
    """A bar of at most 80 columns that shows the time left.

    Without a terminal it prints a line every `LINE_SECONDS` and one at the end. A terminal that is
    gone does not disturb the work.
    """

    monitor_interval = 0  # no thread that prints at other times

    def __init__(self, label: str, total: int, *, initial: int = 0, shown: bool = True) -> None:
        self.lines = not on_terminal()
        self.began = time.monotonic()
        super().__init__(
            desc=printable(label),
            total=total,
            initial=initial,
            disable=not shown,
            bar_format=LINE_FORMAT if self.lines else FORMAT,
            mininterval=LINE_SECONDS if self.lines else 0.1,
            miniters=1,
            ncols=None if self.lines else 80,
            delay=LINE_SECONDS if self.lines else 0,
        )
        if self.lines:
            self._instances.discard(self)  # of the bars that make room for printed lines

    def advance(self, count: int = 1, left: float | None = None, text: str = "") -> None:
        """`count` more are done; show `text` and the seconds `left`, estimated if not given."""
        if self.disable:
            return
        if left is None:
            done = self.n + count - self.initial
            left = (time.monotonic() - self.began) / max(done, 1) * (self.total - self.n - count)
        parts = [text, f"{tqdm.format_interval(int(left))} left"]
        self.set_postfix_str(", ".join(filter(None, parts)), refresh=False)
        self.update(count)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        if self.lines:
            print_line(str(self))
            return True
        with suppress(OSError):
            return bool(super().display(msg, pos))
        return False

    def close(self) -> None:
        with suppress(OSError):
            if self.lines and not self.disable:
                self.disable = True
                self.display()
            else:
                super().close()


def on_terminal() -> bool:
    """Whether stderr is a terminal that has a width: those in containers may have none."""
    try:
        return os.get_terminal_size(2).columns > 0
    except OSError:
        return False
