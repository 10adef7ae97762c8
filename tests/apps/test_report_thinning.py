"""Thinning of curves: the drawn line stays close to what is left out."""

from collections.abc import Callable

import numpy as np
import pytest

from translate_ddp.apps.reporting.thinning import POINTS, thinned

X = np.arange(100_000.0)


def deviation(x: np.ndarray, y: np.ndarray) -> float:
    """The largest distance of a point from the line through the thinned points."""
    thin_x, thin_y = thinned(x, y)
    assert len(thin_x) <= POINTS
    return float(np.abs(y - np.interp(x, thin_x, thin_y)).max())


@pytest.mark.parametrize("count", [0, 1, 2, 3, POINTS])
def test_the_points_of_a_short_zigzag_all_stay(count: int):
    x = np.arange(float(count))
    y = x % 2 * (x + 1)
    thin_x, thin_y = thinned(x, y)
    assert thin_x.tolist() == x.tolist() and thin_y.tolist() == y.tolist()


def test_the_points_are_those_of_the_curve():
    curve = np.cos(X / 700) * X
    thin_x, thin_y = thinned(X, curve)
    assert thin_y.tolist() == curve[thin_x.astype(int)].tolist()


def test_a_smooth_curve_deviates_by_less_than_half_a_percent():
    loss = 8 * np.exp(-X / 2000) + 0.3 * np.sin(X / 3000)
    assert deviation(X, loss) < 0.005 * (loss.max() - loss.min())


@pytest.mark.parametrize(
    "curve", [lambda x: 1 / (x + 20), lambda x: np.exp(-x / 40), lambda x: (x / 300) ** 0.5]
)
def test_no_point_is_farther_than_a_thousandth_of_the_range_from_the_line(
    curve: Callable[[np.ndarray], np.ndarray],
):
    x = X[:8000]
    y = np.minimum(curve(x), 1)
    assert deviation(x, y) < 0.001 * (y.max() - y.min())


def test_the_shape_of_a_curve_stays_within_the_limits_of_its_chart():
    # Values beyond them are a million times as far from each other.
    x = X[:8000]
    y = 1 + np.exp(-x / 5) * 1e6 + np.exp(-x / 300)
    thin_x, thin_y = thinned(x, y, within=(1, 2))
    assert len(thin_x) <= POINTS and thin_y[0] == y[0]
    drawn = np.interp(x, thin_x, np.clip(thin_y, 1, 2))
    assert float(np.abs(np.clip(y, 1, 2) - drawn).max()) < 0.001


def test_every_one_of_a_hundred_spikes_stays():
    random = np.random.default_rng(0)
    spikes = 100 * random.choice(1000, 100, replace=False)
    norm = np.ones(len(X))
    norm[spikes] = random.uniform(5, 9, 100)
    thin_x, thin_y = thinned(X, norm)
    kept = dict(zip(thin_x.tolist(), thin_y.tolist(), strict=True))
    assert all(kept.get(place) == norm[place] for place in spikes.tolist())


def test_first_last_lowest_and_highest_of_noise_stay():
    noise = np.random.default_rng(1).normal(size=len(X))
    thin_x, thin_y = thinned(X, noise)
    places = {0, len(X) - 1, int(noise.argmin()), int(noise.argmax())}
    assert places <= set(thin_x.astype(int).tolist()) and len(thin_x) <= POINTS
    # The band of the noise looks as wide as it is, everywhere.
    for part in range(20):
        of_part = thin_y[(thin_x >= part * 5000) & (thin_x < (part + 1) * 5000)]
        assert of_part.max() > 2.5 and of_part.min() < -2.5


def test_values_that_are_not_finite_are_gaps():
    y = np.sin(X / 5000)
    y[40_000:50_000] = np.nan
    y[70_000] = np.inf
    thin_x, thin_y = thinned(X, y)
    gaps = thin_x[np.isnan(thin_y)].astype(int)
    assert len(gaps) == 2 and 40_000 <= gaps[0] < 50_000 and gaps[1] == 70_000
    assert {39_999, 50_000, 69_999, 70_001} <= set(thin_x.astype(int).tolist())
    assert not np.isinf(thin_y).any()


def test_a_curve_with_a_gap_at_every_second_point_stays_small():
    y = np.where(X % 2, np.nan, np.sin(X / 5000))
    thin_x, thin_y = thinned(X, y)
    assert len(thin_x) <= POINTS + 20 and np.isfinite(thin_y).sum() > 20
