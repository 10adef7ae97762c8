"""The watchdog: what it takes for a request to stop."""

import os
import signal
import subprocess
import sys
import time

from translate_ddp.runtime.watchdog import open_watchdog


def test_the_death_of_a_child_is_no_request_to_stop():
    # torch's loader workers, inductor's and W&B's processes: their handler wakes the watchdog.
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        with open_watchdog(0, 1, under_torchrun=False) as watchdog:
            watchdog.begin_training()  # before, a stop ends the process
            for _ in range(3):
                subprocess.run([sys.executable, "-c", ""], check=True)
            os.kill(os.getpid(), signal.SIGUSR1)  # of what comes in order, this is the last
            while watchdog.stop_reason is None:
                time.sleep(0.01)
            assert watchdog.stop_reason == "SIGUSR1"
    finally:
        signal.signal(signal.SIGCHLD, before)
