"""Exercise 3: the gradient of the mean loss per token, over the tokens of all ranks.

Each rank has tokens of its own: `inputs` [N, 8] and `targets` [N], the right classes of 5. N
differs between ranks, and may be 0. `model(inputs)` are scores [N, 5]; the loss is cross-entropy.
Afterwards `parameter.grad`, which was None, is on every rank the gradient that one process would
compute from all tokens at once.

Forbidden: DistributedDataParallel; to send inputs or targets.
In the product: `OptimizerStep.compute_gradients` in translate_ddp/training/step.py.
"""

from torch import Tensor, nn


def gradient_of_step(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """Set `parameter.grad` of each parameter. Every rank calls it, also with N = 0."""
    raise NotImplementedError
