"""Flags shared by all ranks in every step: summed on the device, read by the host one step later.

If the host waited for the sum of the current step, the device would be idle until the next step is
launched. It reads the sum of the previous step, which is complete by then. So all ranks act on a
flag at the end of the same step, one step after the flag was set.
"""

import torch
from torch import Tensor

from translate_ddp.runtime.world import World

NUM_FLAGS = 3


class StepFlags:
    """Three flags per step: not finite, stop, save."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._sums = [Copy(world.device), Copy(world.device)]  # of this step and the one before
        self._shared = 0

    def share(self, not_finite: Tensor, stop: bool, save: bool) -> Tensor:
        """Sum the flags over all ranks; return the sum of `not_finite`, on the device."""
        of_host = [torch.full((), float(flag), device=self.world.device) for flag in (stop, save)]
        total = self.world.sum_(torch.stack([not_finite.float(), *of_host]))
        self._sums[self._shared % 2].start(total)
        self._shared += 1
        return total[0]

    def of_previous_step(self) -> tuple[bool, bool]:
        """Whether any rank requested a stop or a save in the step before the last one."""
        if self._shared < 2:
            return False, False
        _, stop, save = self._sums[self._shared % 2].read()
        return stop > 0, save > 0


class Copy:
    """A copy of values from the device to the host that blocks neither."""

    def __init__(self, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self._values = torch.zeros(NUM_FLAGS, pin_memory=is_cuda)
        self._arrived = torch.cuda.Event() if is_cuda else None

    def start(self, values: Tensor) -> None:
        self._values.copy_(values, non_blocking=True)
        if self._arrived is not None:
            self._arrived.record()

    def read(self) -> list[float]:
        """The values of the last `start`; waits for the copy."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.tolist()
