"""The watchdog thread of one rank."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import processes
from translate_ddp.runtime.watchdog import open_watchdog, ranks


@pytest.mark.parametrize("number", [signal.SIGCHLD, signal.SIGUSR1])
def test_only_stop_signals_stop_and_handlers_are_restored(number: int):
    # SIGCHLD handlers of torch's loader workers, inductor and W&B wake the watchdog too.
    def handler(*_: object) -> None: ...

    before = signal.signal(number, handler)
    try:
        with open_watchdog(0, 1, under_torchrun=False) as watchdog:
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
