"""translate_ddp: the steps of `train.py` with the flags of the task."""

import json
from pathlib import Path

import torch

from benchmarks.common import as_flags
from benchmarks.time_to_quality.snapshots import SnapshotClock, read_contestant
from benchmarks.workbench import decided, open_training, take_steps
from translate_ddp.data.dataset import load_prepared


def main() -> None:
    flags, task = read_contestant(__doc__)
    own = {
        "precision": flags.precision,
        "optimizer": flags.optimizer,
        "lr": flags.learning_rate,
        "warmup_steps": flags.warmup_steps,
        "schedule": "inverse_sqrt",  # that of the other trainers
    }
    data = load_prepared(Path(task.prepared))
    with open_training([*task.flags, *as_flags(own)], data) as training:
        torch.set_num_threads(flags.threads)
        training.warm_up()
        clock, world = SnapshotClock(flags), training.world
        for _ in take_steps(training):
            over = world.is_main and clock.step(training.model.state_dict)
            if decided(world, over):
                break
        if world.is_main:
            print(json.dumps({"steps": clock.steps}))


if __name__ == "__main__":
    main()
