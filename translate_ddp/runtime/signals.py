"""Stop signals, readable by a thread while the main thread is inside a collective."""

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Slurm's scripts send SIGUSR1 before the time limit, submitit SIGUSR2.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)


class SignalReceiver:
    """A queue of signal numbers that Python's C-level handler fills through a socket."""

    def __init__(self, inlet: socket.socket, outlet: socket.socket) -> None:
        self._inlet, self._outlet = inlet, outlet

    def wait(self, timeout: float) -> list[signal.Signals]:
        """The stop signals that have arrived, after at most `timeout` seconds or a `wake`."""
        ready, _, _ = select.select([self._outlet], [], [], timeout)
        # Other signals arrive too: torch handles SIGCHLD where it starts processes of its own.
        numbers = self._outlet.recv(64) if ready else b""
        return [signal.Signals(number) for number in numbers if number in STOP_SIGNALS]

    def wake(self) -> None:
        """Let a `wait` in another thread return."""
        self._inlet.send(b"\0")


@contextmanager
def receive_signals() -> Iterator[SignalReceiver]:
    """Receive stop signals instead of dying from them; signals ignored by nohup stay ignored.

    A Python signal handler would only run after the main thread has left a collective.
    """
    inlet, outlet = socket.socketpair()
    with inlet, outlet:
        inlet.setblocking(False)
        handled = [n for n in STOP_SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
        handlers = {number: signal.signal(number, lambda *_: None) for number in handled}
        old_descriptor = signal.set_wakeup_fd(inlet.fileno(), warn_on_full_buffer=False)
        try:
            yield SignalReceiver(inlet, outlet)
        finally:
            signal.set_wakeup_fd(old_descriptor)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def is_in_foreground(pid: int) -> bool:
    """Whether the process is in the foreground of a terminal, which sends it a Ctrl-C.

    False where the operating system does not list processes in /proc.
    """
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # After the command, which may contain blanks and parentheses.
    _state, _parent, group, _session, _terminal, foreground, *_ = line.rpartition(")")[2].split()
    return group == foreground
