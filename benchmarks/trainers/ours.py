"""translate_ddp: the steps of `train.py`, with its loader, updater, meters and log records.

Its steps equal a run with the same flags, on one process or under torchrun. Validation,
checkpoints and progress bar are left out.
"""

import json
from pathlib import Path

import torch

from benchmarks.clock import Clock
from benchmarks.trainers.task import read_flags
from benchmarks.workbench import open_training, run_clock, take_steps
from translate_ddp.data.dataset import load_prepared


def main() -> None:
    flags, task = read_flags(__doc__)
    data = load_prepared(Path(task.prepared))
    with open_training([*task.flags, "--precision", flags.precision], data) as training:
        torch.set_num_threads(flags.threads)
        training.warm_up()
        clock = Clock(flags.seconds)
        run_clock(training, take_steps(training), clock)
        if training.world.is_main:
            print(json.dumps(clock.result()))


if __name__ == "__main__":
    main()
