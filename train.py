"""Trains a translation model: `python train.py`, or `torchrun train.py` in several processes."""

# ruff: noqa: E402
import gc
import os
import signal
import sys

if __name__ == "__main__":  # before imports that take long
    gc.disable()  # collections during the imports free nothing and take a second
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback

from translate_ddp.runtime.environment import check_platform, set_defaults

if __name__ == "__main__":
    check_platform()
set_defaults(os.environ)

from translate_ddp.apps.commands.train import run

if __name__ == "__main__":
    run(sys.argv[1:])
