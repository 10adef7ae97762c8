"""The watchdog thread of one rank."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.helpers import processes
from translate_ddp.runtime import watchdog as module
from translate_ddp.runtime.supervisor import is_in_foreground, open_watchdog


@pytest.mark.parametrize("number", [signal.SIGCHLD, signal.SIGUSR1])
def test_only_stop_signals_stop_and_handlers_are_restored(number: int):
    # SIGCHLD handlers of torch's loader workers, inductor and W&B wake the watchdog too.
    def handler(*_: object) -> None: ...

    before = signal.signal(number, handler)
    try:
        with open_watchdog() as watchdog:
            assert (signal.getsignal(number) is handler) == (number == signal.SIGCHLD)
            watchdog.begin_training()  # before that, a stop request ends the process
            for _ in range(3):
                subprocess.run([sys.executable, "-c", ""], check=True)
            os.kill(os.getpid(), signal.SIGUSR1)  # signals are received in order
            while watchdog.stop_reason is None:
                time.sleep(0.01)
            assert watchdog.stop_reason == "SIGUSR1"
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def stop_at_the_start() -> None:
    is_ending, is_training = threading.Event(), threading.Event()

    def close_record(seconds: float) -> None:
        is_ending.set()
        is_training.wait(0.5)

    with open_watchdog() as watchdog:
        watchdog.exit.close_record = close_record
        os.kill(os.getpid(), signal.SIGTERM)
        is_ending.wait()
        watchdog.begin_training()
        is_training.set()
        print("a step", flush=True)
        time.sleep(3600)


def test_process_that_was_stopped_at_its_start_takes_no_step(tmp_path: Path):
    job = processes.start(stop_at_the_start, tmp_path, 1)
    assert job.wait() == [0]
    assert "Stopped before the first step" in job.text() and "a step" not in job.text()


def hang() -> None:
    with open_watchdog() as watchdog:
        watchdog.timeout_seconds = 0.5
        watchdog.enter_phase("compiling", has_timeout=False)
        time.sleep(1.5)
        print("compiled", flush=True)
        watchdog.enter_phase("reading a batch", step=3)
        time.sleep(3600)


def test_phase_without_heartbeats_is_a_hang_after_the_timeout(tmp_path: Path):
    job = processes.start(hang, tmp_path, 1)
    assert job.wait() == [75]
    expected = "compiled\nerror: Rank 0 hung at step 3, reading a batch: no progress for 0.5 s. "
    assert job.text().startswith(expected), job.text()
    assert "Stack of rank 0" in job.text() and "in hang" in job.text()


@pytest.mark.parametrize(
    ("number", "seconds", "in_foreground", "ends"),
    [
        (signal.SIGINT, 1.5, False, True),
        (signal.SIGINT, 0.5, True, False),  # the same Ctrl-C, forwarded by a parent process
        (signal.SIGTERM, 1.5, True, True),  # torchrun's reaction to the second Ctrl-C
        (signal.SIGTERM, 1.5, False, False),  # a scheduler's to a process that does not end
        (signal.SIGUSR1, 1.5, True, False),
    ],
)
def test_only_a_second_ctrl_c_ends_the_process_at_once(
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    seconds: float,
    in_foreground: bool,
    ends: bool,
):
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(module, "is_in_foreground", lambda pid: in_foreground)
    watchdog = module.Watchdog(under_torchrun=True)
    watchdog._on_signal(signal.SIGTERM, 100.0)
    assert not codes
    watchdog._on_signal(signal.SIGINT, 200.0)
    watchdog._on_signal(number, 200.0 + seconds)
    assert codes == [130] * ends


@pytest.mark.parametrize("is_ending", [True, False])
def test_ctrl_c_at_the_end_keeps_the_status_of_the_end(
    monkeypatch: pytest.MonkeyPatch, is_ending: bool
):
    monkeypatch.setattr(os, "_exit", lambda code: None)
    watchdog = module.Watchdog()
    written: list[str] = []
    watchdog.exit.write_status = lambda status, reason: written.append(status)
    watchdog.stage = "ending" if is_ending else "training"
    watchdog._on_signal(signal.SIGINT, 100.0)
    watchdog._on_signal(signal.SIGINT, 110.0)
    assert written == ([] if is_ending else ["preempted"])


class Ended(Exception):
    pass


@pytest.mark.parametrize(
    ("reason", "ends"),
    [("SIGTERM", True), ("SIGUSR1", True), ("--max_minutes reached", False)],
)
def test_only_a_stop_by_a_signal_has_a_grace_period(
    monkeypatch: pytest.MonkeyPatch, reason: str, ends: bool
):
    def end(*_: object) -> None:
        raise Ended

    watchdog = module.Watchdog()
    monkeypatch.setattr(watchdog, "end", end)
    watchdog.begin_training()
    watchdog.request_stop(reason)
    with pytest.raises(Ended) if ends else nullcontext():
        watchdog._check(time.monotonic() + 1000)


def test_process_is_in_the_foreground_only_of_a_terminal():
    # torchrun starts each rank in a session without one.
    ours, theirs = pty.openpty()
    program = [sys.executable, "-c", "import time; time.sleep(3600)"]

    def acquire_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    shown = subprocess.Popen(program, start_new_session=True, preexec_fn=acquire_terminal)
    detached = subprocess.Popen(program, start_new_session=True)
    try:
        assert is_in_foreground(shown.pid) and not is_in_foreground(detached.pid)
    finally:
        for process in (shown, detached):
            process.kill()
            process.wait()
        os.close(ours)
        os.close(theirs)
    assert not is_in_foreground(shown.pid)  # it is gone
