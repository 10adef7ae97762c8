"""Flags that all ranks share in every step: summed on the device, read by the host one step later.

A host that waited for each step's sum would leave the device idle until it has launched the next
step. So it reads the sum of the step before, which has long been there: all ranks act on a flag at
the end of the same step, one after the step in which it was raised.
"""

import torch
from torch import Tensor

from translate_ddp.runtime.distributed import World

NUM_FLAGS = 3


class StepFlags:
    """Three flags a step: not finite, stop, save."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._sums = [Copy(world.device), Copy(world.device)]  # of this step and the one before
        self._shared = 0

    def share(self, not_finite: Tensor, stop: bool, save: bool) -> Tensor:
        """Sum this rank's flags over all ranks; returns the sum of `not_finite`, on the device."""
        of_host = [torch.full((), float(flag), device=self.world.device) for flag in (stop, save)]
        total = self.world.sum(torch.stack([not_finite.float(), *of_host]))
        self._sums[self._shared % 2].start(total)
        self._shared += 1
        return total[0]

    def of_previous_step(self) -> tuple[bool, bool]:
        """Whether any rank asked for a stop or a save in the step before the last shared one."""
        if self._shared < 2:
            return False, False
        _, stop, save = self._sums[self._shared % 2].read()
        return stop > 0, save > 0


class Copy:
    """Values that travel from the device to the host while both go on."""

    def __init__(self, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self._values = torch.zeros(NUM_FLAGS, pin_memory=is_cuda)
        self._arrived = torch.cuda.Event() if is_cuda else None

    def start(self, values: Tensor) -> None:
        self._values.copy_(values, non_blocking=True)
        if self._arrived is not None:
            self._arrived.record()

    def read(self) -> list[float]:
        """The values of the last `start`, once they are there."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.tolist()
