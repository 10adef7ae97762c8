"""Random numbers from keys."""

import numpy as np

from translate_ddp.data.mix import hashes, uniform


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
