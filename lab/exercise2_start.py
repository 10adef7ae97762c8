"""Exercise 2: all ranks start from rank 0's weights.

The ranks have made the same model from different random numbers. Afterwards its parameters and
buffers (here of a BatchNorm: one is an integer, and one is not persistent) have rank 0's values on
every rank. An optimizer holds the parameters, so write into them: it would not update new ones.

Forbidden: DistributedDataParallel; to set a seed; another communication than torch.distributed's.
In the product: `World.replicate` in translate_ddp/runtime/world.py, by DDP.
"""

from torch import nn


def copy_from_rank_0(model: nn.Module) -> None:
    """Give parameters and buffers rank 0's values. Every rank calls it."""
    raise NotImplementedError
