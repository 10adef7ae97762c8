"""The watchdog thread of one rank."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.helpers import processes
from translate_ddp.runtime.watchdog import open_watchdog, ranks


def test_exit_of_a_child_process_is_no_stop_request():
    # SIGCHLD handlers of torch's loader workers, inductor and W&B wake the watchdog too.
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        with open_watchdog(0, 1, under_torchrun=False) as watchdog:
            watchdog.begin_training()  # before that, a stop request ends the process
            for _ in range(3):
                subprocess.run([sys.executable, "-c", ""], check=True)
            os.kill(os.getpid(), signal.SIGUSR1)  # signals are received in order
            while watchdog.stop_reason is None:
                time.sleep(0.01)
            assert watchdog.stop_reason == "SIGUSR1"
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_signal_handlers_are_restored():
    def handler(*_: object) -> None: ...

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with open_watchdog(0, 1, under_torchrun=False):
            assert signal.getsignal(signal.SIGUSR1) is not handler
        assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)


def hang() -> None:
    with open_watchdog(0, 1, under_torchrun=False) as watchdog:
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


def test_names_of_ranks():
    assert ranks([3]) == "Rank 3"
    assert ranks([1, 2]) == "Ranks 1, 2"
    assert ranks(list(range(40))).endswith("14, 15 and others")
