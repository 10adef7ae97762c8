"""A request to stop, by a scheduler's signal or a Ctrl-C; it is only noted here, never acted on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """Set by the first signal; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.signal: str | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def note(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name


@contextmanager
def listening() -> Iterator[StopRequest]:
    """Note signals instead of dying of them, as long as this lasts."""
    request = StopRequest()
    heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, request.note) for number in heeded}  # not nohup's
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
