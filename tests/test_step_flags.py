"""Flags that all ranks act on at the end of the same step."""

from pathlib import Path
from typing import ClassVar

import torch

from tests.helpers import processes
from translate_ddp.runtime.distributed import open_world
from translate_ddp.settings import DistributedConfig
from translate_ddp.training.step_flags import Copy, StepFlags


def raise_flags_at_different_steps() -> None:
    with open_world(DistributedConfig()) as world:
        flags = StepFlags(world)
        seen = []
        for step in range(6):
            not_finite = torch.tensor(world.rank == 1 and step == 4)
            total = flags.share(not_finite, world.rank == 1 and step == 2, step == 3)
            assert (float(total) > 0) == (step == 4)  # known on the device at once
            seen.append(flags.of_previous_step())
        nothing = (False, False)
        assert seen == [nothing] * 3 + [(True, False), (False, True), nothing]


def test_flag_of_one_rank_is_read_by_all_one_step_later(tmp_path: Path):
    processes.start(raise_flags_at_different_steps, tmp_path, 2).succeed()


def test_save_by_time_is_requested_once(tiny_run: list[str], tmp_path: Path):
    # A save is always due: requested in one step, done at the end of the next, due again.
    flags = ["--save_every", "0", "--save_every_minutes", "1e-9", "--keep_last", "0"]
    processes.train([*tiny_run, *flags, "--max_steps", "9"], tmp_path, 2).succeed()
    names = [path.name for path in (tmp_path / "model").glob("tmodel_step_*")]
    assert sorted(int(name[12:20]) for name in names) == [2, 4, 6, 8, 9]


class LateEvent:
    """A device whose copy has arrived only once the host has waited for it."""

    copies: ClassVar[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        for host, values in self.copies:
            host.data.copy_(values)


def test_values_are_read_after_the_copy_has_arrived():
    copy = Copy(torch.device("cpu"))
    copy._arrived = LateEvent()  # pyright: ignore[reportAttributeAccessIssue]
    LateEvent.copies.append((copy._values, torch.tensor([0.0, 1.0, 0.0])))
    assert copy.read() == [0.0, 1.0, 0.0]
