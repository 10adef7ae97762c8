"""Mean losses between two log records."""

import pytest
import torch

from translate_ddp.runtime.distributed import World
from translate_ddp.training.meters import StepMeters


def add(meters: StepMeters, step: int, loss: float, nll: float, skipped: float = 0.0) -> None:
    sums = {"loss": torch.tensor(loss), "nll": torch.tensor(nll)}
    meters.add(step, sums, tokens=3, skipped=torch.tensor(skipped))


def means(meters: StepMeters) -> dict[str, float]:
    return meters.means(meters.totals())


def test_skipped_step_has_no_weight_in_the_means():
    meters = StepMeters(4, World())
    add(meters, 0, 6.0, 3.0)
    add(meters, 1, torch.nan, torch.inf, skipped=1.0)
    add(meters, 2, 9.0, 6.0)
    assert meters.take_skipped(0, 3) == [False, True, False]
    assert meters.take_skipped(0, 3) == [False, False, False]  # counted once
    assert means(meters) == pytest.approx({"loss": (6 + 9) / (3 + 3), "nll": (3 + 6) / (3 + 3)})


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(3, {"loss": 2.5, "nll": 1.5}), (4, {"loss": 3.0, "nll": 2.0})],  # of another: dropped
)
def test_restored_meters_have_the_same_means(interval: int, expected: dict[str, float]):
    meters, restored = StepMeters(3, World()), StepMeters(interval, World())
    add(meters, 0, 6.0, 3.0)
    restored.restore(meters.state(meters.totals()))
    add(restored, 1, 9.0, 6.0)
    assert means(restored) == expected


def test_restored_totals_are_counted_once_by_all_ranks():
    meters = StepMeters(3, World())
    add(meters, 0, 6.0, 3.0)
    state = meters.state(meters.totals())
    ranks = [StepMeters(3, World(rank=rank, size=2)) for rank in range(2)]
    for each in ranks:
        each.restore(state)
    assert float(sum(each.sums["loss"].sum() for each in ranks)) == 6.0
