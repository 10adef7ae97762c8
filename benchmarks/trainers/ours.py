"""translate_ddp: the training steps of `train.py`, on one process or under torchrun."""

from pathlib import Path

import torch

from benchmarks.common import as_flags
from benchmarks.trainers.clock import Clock
from benchmarks.trainers.task import read_flags
from benchmarks.workbench import open_training, take_steps
from translate_ddp.data.batches import padding_share
from translate_ddp.data.dataset import load_prepared


def main() -> None:
    flags, task = read_flags(__doc__)
    settings = {"precision": flags.precision, "batch_size": flags.batch_size}
    data = load_prepared(Path(task.prepared))
    with open_training([*task.flags, *as_flags(settings)], data) as training:
        torch.set_num_threads(flags.threads)
        training.warm_up()
        world, lengths = training.world, training.sampler.lengths
        padding = padding_share(training.sampler, training.loader.max_tokens)
        clock = Clock(flags.seconds)
        for rows in take_steps(training):
            target_tokens = int(lengths.target[rows].sum())
            real = target_tokens + int(lengths.source[rows].sum())
            clock.count(target_tokens, real, real / (1 - padding))
            if world.any(world.is_main and clock.is_over())[0]:
                break
        if world.is_main:
            clock.print_result()


if __name__ == "__main__":
    main()
