"""Trains a translation model: `python train.py`, or `torchrun train.py` in several processes."""

# ruff: noqa: E402
import sys

from translate_ddp.runtime.environment import begin_process

begin_process()

from translate_ddp.apps.commands.train import run

if __name__ == "__main__":
    run(sys.argv[1:])
