"""Exercise 5: accumulate gradients, and send them once.

The memory of a rank is enough for one micro-batch at a time. Those of its step are pairs of
`inputs` [N, 8] and `targets` [N], with different N. `replica` is a model in
DistributedDataParallel: by default, each backward averages the gradients over ranks. Afterwards
`parameter.grad` is on every rank the gradient of the mean loss (cross-entropy) per token, over
`tokens_of_step` tokens: all micro-batches of all ranks.

Forbidden: to send in another micro-batch than the last; another communication than by `replica`.
In the product: `OptimizerStep.compute_gradients` in translate_ddp/training/step.py.
"""

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel


def accumulate(
    replica: DistributedDataParallel,
    micro_batches: list[tuple[Tensor, Tensor]],
    tokens_of_step: int,
) -> None:
    """Set `parameter.grad` of each parameter. Every rank calls it, with its micro-batches."""
    raise NotImplementedError
