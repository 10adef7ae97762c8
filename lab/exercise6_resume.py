"""Exercise 6: a killed training ends, bit for bit, as if nothing had happened.

`run.step(number)` makes one step: forward with dropout, backward, all-reduce, AdamW, with a
learning rate that depends on the number. Dropout uses torch's generator, which differs between
ranks and between steps. One rank saves a checkpoint to `path` after each step. The grader ends
ranks with kill -9 in a step, then while `torch.save` writes, and starts new processes each time.

Forbidden: other files than `path` and temporary files beside it; other writers than `torch.save`.
In the product: `CheckpointWriter` in translate_ddp/training/checkpoint.py, `reseed` in
translate_ddp/training/step.py.
"""

from pathlib import Path

from lab.loop import Run


def train(run: Run, path: Path, steps: int) -> None:
    """Make the steps 0 to steps - 1 which the checkpoint at `path`, if there is one, lacks.

    `run` has `model`, `optimizer` and `step`. Every rank calls it; all see the same `path`.
    """
    raise NotImplementedError
