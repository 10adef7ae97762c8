"""The pairs that an epoch draws from several datasets, by their weights, and random numbers."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from translate_ddp.data.dataset import ParallelDataset, Ragged, TrainingPairs
from translate_ddp.data.mix import MIX_SALT, Block, Mix, hashes, uniform
from translate_ddp.data.plan import Plan, StepSampler, plan_epoch
from translate_ddp.errors import UserError
from translate_ddp.settings import BatchConfig

SIZES = [70, 51, 33]
BATCHES = BatchConfig(batch_tokens=200, seq_len=40)


def mix_of(*weights: float, sizes: list[int] = SIZES) -> Mix:
    return Mix.of(weights, blocks_of(sizes))


def blocks_of(sizes: Sequence[int]) -> list[Block]:
    """A dataset of each size, in one direction."""
    return [Block(0, dataset, size) for dataset, size in enumerate(sizes)]


def training_pairs() -> TrainingPairs:
    random = np.random.default_rng(0)
    sides = ([[5] * n for n in random.integers(1, 40, sum(SIZES))] for _ in range(2))
    return TrainingPairs(ParallelDataset(*map(Ragged.of, sides)), seed=3)


def sampler(mix: Mix | None, epoch: int = 0) -> StepSampler:
    found = StepSampler(training_pairs(), BATCHES, mix=mix)
    found.set_epoch(epoch)
    return found


def assert_same_plan(one: Plan, other: Plan) -> None:
    for name, array in vars(one).items():
        assert np.array_equal(array, vars(other)[name]), name
        assert array.dtype == vars(other)[name].dtype, name


@pytest.mark.parametrize("weights", [(2.5, 1.0, 0.0), (0.3, 0.0, 7.1), (0.01, 3.0, 0.5)])
def test_weighted_epoch_has_the_rows_with_the_smallest_hashes_once_more(weights: tuple[float, ...]):
    seed, epoch = 5, 2
    expected: Counter[int] = Counter()
    bounds = pairwise(np.cumsum([0, *SIZES]).tolist())
    for weight, size, (start, end) in zip(weights, SIZES, bounds, strict=True):
        order = sorted(
            range(start, end), key=lambda row: (int(hashes(MIX_SALT, seed, epoch, row)), row)
        )
        for copy in range(round(weight * size)):
            expected[order[copy % size]] += 1
    rows = mix_of(*weights).draw(seed, epoch)
    assert Counter(rows.tolist()) == expected
    counts = tuple(round(w * n) for w, n in zip(weights, SIZES, strict=True))
    assert mix_of(*weights).counts == counts


def test_partial_draws_differ_between_epochs_and_seeds_and_repeat():
    mix = mix_of(0.5, 0.5, 0.5)
    draws = [mix.draw(seed, epoch).tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert mix.draw(0, 0).tolist() == draws[0]


@pytest.mark.parametrize("epoch", [0, 3])
@pytest.mark.parametrize("weights", [(), (1.0, 1.0, 1.0)])
def test_plan_with_all_weights_1_is_that_without_weights(weights: tuple[float, ...], epoch: int):
    expected = plan_epoch(sampler(None, epoch).lengths, BATCHES, seed=3, epoch=epoch, world_size=1)
    assert_same_plan(sampler(mix_of(*weights), epoch).plan, expected)
    assert_same_plan(sampler(None, epoch).plan, expected)


def test_plan_of_a_weighted_epoch_has_the_drawn_rows_in_steps_of_the_usual_size():
    mix = mix_of(2.5, 0.0, 1.3)
    found = sampler(mix, epoch=1)
    plan, lengths = found.plan, found.lengths
    assert sorted(plan.rows.tolist()) == mix.draw(3, 1).tolist()
    planned = np.concatenate([plan[step] for step in range(len(plan))])
    assert sorted(planned.tolist()) == mix.draw(3, 1).tolist()
    for step in range(len(plan)):
        sizes = [len(rows) * lengths.longest_side[rows].max() for rows in plan.buckets(step)]
        assert sum(sizes) <= BATCHES.batch_tokens


def test_all_directions_of_a_dataset_have_its_weight():
    blocks = [Block(0, 0, 10), Block(0, 1, 8), Block(1, 0, 9), Block(2, 1, 6)]
    mix = Mix.of((2.0, 0.5), blocks)
    assert mix.counts == (20, 4, 18, 3)


@pytest.mark.parametrize("temperature", [1.0, 1.5, 5.0])
def test_directions_have_pairs_in_proportion_to_a_power_of_their_size(temperature: float):
    sizes = [4000, 2000, 2500]  # the last two are two datasets of one direction
    blocks = [Block(0, 0, sizes[0]), Block(1, 0, sizes[1]), Block(1, 1, sizes[2])]
    counts = Mix.of((), blocks, temperature).counts
    first, second = 4000 ** (1 / temperature), 4500 ** (1 / temperature)
    expected = [8500 * first / (first + second), 8500 * second / (first + second)]
    assert [counts[0], counts[1] + counts[2]] == pytest.approx(expected, abs=1)
    assert counts[1] / counts[2] == pytest.approx(2000 / 2500, rel=0.01)


def test_no_pair_is_drawn_more_than_20_times_and_others_get_the_rest():
    sizes = [100_000, 50, 50_000]
    blocks = [Block(number, 0, size) for number, size in enumerate(sizes)]
    mix = Mix.of((), blocks, temperature=100)
    repeats = np.split(np.bincount(mix.draw(0, 0), minlength=sum(sizes)), np.cumsum(sizes)[:-1])
    assert (repeats[1] == 20).all()
    assert sum(map(np.sum, repeats)) == sum(sizes)
    assert [each.max() for each in repeats] == [1, 20, 2]


def test_directions_of_one_size_are_drawn_once_at_any_temperature():
    blocks = [Block(0, 0, 70), Block(1, 0, 70)]
    assert Mix.of((), blocks, 5.0).draws_all_once


def test_weights_that_draw_no_pair_are_an_error():
    with pytest.raises(UserError, match=r"With dataset_weight 0.001 0, .* 70 \+ 51 training pairs"):
        mix_of(0.001, 0.0, sizes=SIZES[:2])


# --- the random numbers ---


def test_one_key_gives_the_published_values_of_splitmix64():
    # The first output of the reference implementation with the seeds 0 and 1234567.
    assert [int(bits) for bits in hashes(np.array([0, 1234567]))] == [
        0xE220A8397B1DCDAF,
        6457827717110365317,
    ]


def test_each_key_and_their_order_have_an_effect():
    keys = [(1, 2, 3), (1, 3, 2), (1, 2, 4), (0, 2, 3), (1, 2)]
    assert len({int(hashes(*key)) for key in keys}) == len(keys)
    assert hashes(1, np.array([[2], [3]]), np.arange(4)).tolist() == [
        [int(hashes(1, row, column)) for column in range(4)] for row in (2, 3)
    ]


def test_numbers_are_uniform_and_neighbours_are_independent():
    draws = uniform(7, np.arange(100_000))
    counts, _ = np.histogram(draws, bins=50, range=(0, 1))
    assert counts.sum() == 100_000
    assert ((counts - 2000) ** 2 / 2000).sum() < 100  # chi squared, 49 degrees: 1 in 10**5
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.015
