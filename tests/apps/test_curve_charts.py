"""Charts of the curves of runs: where their points and marks are, and what part they show."""

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.charts import drawn, marks, svg, texts
from tests.helpers.records import (
    PAUSE_SECONDS,
    RESUMED,
    START,
    STEPS,
    launch,
    time_at,
    write_curve,
    write_events,
    write_run,
)
from translate_ddp.apps.reporting.curve_charts import (
    POINTS,
    curve_charts,
    panels,
    run_events,
    thin_series,
    visible_range,
)
from translate_ddp.apps.reporting.run_summary import summarize
from translate_ddp.apps.reporting.svg_charts import LEFT, RIGHT, WIDTH
from translate_ddp.run_record import METRICS_FILE, read_run

LENGTH = WIDTH - RIGHT - LEFT  # of the x axis
NAN = math.nan
X = np.arange(100_000.0)
GROUPS = ("validation", "validation_average")


def charts_of(folder: Path, title: str) -> tuple[ET.Element, ET.Element]:
    """A chart of the run over steps, and over time."""
    record = read_run(folder)
    pairs = curve_charts([summarize(record, 0.0)])
    [(over_steps, over_time)] = (pair for pair in pairs if f"<figcaption>{title}<" in pair[0])
    return svg(over_steps), svg(over_time)


def points_of(chart: ET.Element, line: int = 0) -> list[tuple[float, float]]:
    """The x of each point as its dot shows it, and its place."""
    group = chart.findall("svg/g")[line]
    titles = (path.findtext("title", "").split(" at ")[1] for path in group.findall("path")[1:])
    places = [x for x, _ in drawn(chart, "line")[line]]
    return list(zip((float(x.replace(",", "")) for x in titles), places, strict=True))


def test_points_and_marks_are_at_their_steps_and_at_their_time_of_training(tmp_path: Path):
    write_run(tmp_path, state="running")
    with (tmp_path / METRICS_FILE).open("a") as file:  # the run goes on after its validation
        file.write(json.dumps({"step": 2000, "time": time_at(2000), "train/lr": 1.0}) + "\n")

    def hours_at(step: int, after: float) -> float:
        pause = PAUSE_SECONDS - 3 if step > RESUMED * STEPS else 0
        return (time_at(step) + after - START - pause) / 3600

    hours = hours_at(2000, 0)
    validated = [n * STEPS for n in range(1, 11)]
    for title in ("BLEU and chrF of validation", "Error rates of validation"):
        over_steps, over_time = charts_of(tmp_path, title)
        assert {"steps", "0", "2,000"} <= texts(over_steps).keys()
        assert {"hours of training", "0", "4"} <= texts(over_time).keys()
        for line in (0, 1):
            for step, (shown, place) in zip(validated, points_of(over_steps, line), strict=True):
                assert shown == step
                assert place == pytest.approx(LEFT + step / 2000 * LENGTH, abs=0.1)
            for step, (shown, place) in zip(validated, points_of(over_time, line), strict=True):
                time = hours_at(step, 2)
                assert shown == pytest.approx(time, rel=1e-3)
                assert place == pytest.approx(LEFT + time / hours * LENGTH, abs=0.1)
        # The first launch ended 3 s after its last step.
        at = LEFT + hours_at(RESUMED * STEPS, 3) / hours * LENGTH
        assert marks(over_time, "resumed") == {"step 720": pytest.approx(at, abs=0.1)}
        at = LEFT + hours_at(520, 0) / hours * LENGTH
        assert marks(over_time, "skipped") == {"2 until step 520": pytest.approx(at, abs=0.1)}


def test_launches_from_a_checkpoint_and_skipped_steps_are_marked(tmp_path: Path):
    skipped = {1: 3.0, 10: 3.0, 20: 3.0, 30: 5.0, 50: 6.0}
    write_curve(tmp_path, "train/skipped_steps", skipped)
    write_events(tmp_path, [launch(0.0, 0), launch(15.0, 10), launch(32.0, 25)])
    assert run_events(read_run(tmp_path)) == [
        (10, 15.0, "resumed", "step 10"),
        (25, 32.0, "resumed", "step 25"),
        (1, 1.0, "skipped", "3 until step 1"),
        (30, 30.0, "skipped", "2 until step 30"),
        (50, 50.0, "skipped", "1 until step 50"),
    ]


@pytest.mark.parametrize(
    ("curves", "from_zero", "expected"),
    [
        ([[9, 2, 1, 1, 2]], False, (1, 2)),
        ([[NAN, 9, *[2, 1] * 9]], True, (0, 2)),  # the first tenth is two values
        ([[30, 5, 4], [9, 2, 1], [NAN], []], False, (1, 5)),
        ([[30, 5, 4], [3]], False, (3, 5)),  # one validation so far
        ([[9, 2, 1], [8, 8]], False, (1, 9)),  # the second one needs the height
        ([[3.1, 2, 1]], False, (1, 2)),
        ([[2.9, 2, 1]], False, (1, 2.9)),  # less than half of the height
        ([[2, 1, 2, 1, 50]], True, (0, 50)),  # it diverges
        ([[9, 1, 1]], False, (1, 9)),  # no height would be left
        ([[NAN], []], False, (0, 0)),
    ],
)
def test_a_first_tenth_that_would_flatten_the_rest_is_not_shown(
    curves: list[list[float]], from_zero: bool, expected: tuple[float, float]
):
    assert visible_range([np.array(curve, dtype=float) for curve in curves], from_zero) == expected


def test_the_chosen_metric_of_many_directions_has_charts_with_the_mean_in_each():
    pairs = [f"en-x{number}" for number in range(9)]
    names = [f"{group}/{pair}chrf" for pair in ["", *(f"{p}/" for p in pairs)] for group in GROUPS]
    first, second, *others = panels([*names, "validation/en-x0/BLEU"], metric="chrf")
    assert {first.title, second.title} == {"chrF of validation, by direction"}
    shown = [{**each.names} for each in (first, second)]
    assert [each.pop("validation/chrf") for each in shown] == ["mean", "mean"]
    assert shown[0] | shown[1] == {f"validation/{pair}/chrf": pair for pair in pairs}
    assert [len(each) for each in shown] == [5, 4]
    assert [panel.title for panel in others] == ["BLEU and chrF of validation"]


def thinned(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    series = thin_series("a", X[: len(y)], y)
    assert len(series.x) <= POINTS + 2
    return np.array(series.x), np.array(series.y)


def test_first_last_lowest_and_highest_of_noise_stay():
    noise = np.random.default_rng(1).normal(size=len(X))
    x, y = thinned(noise)
    places = {0, len(X) - 1, int(noise.argmin()), int(noise.argmax())}
    assert places <= set(x.astype(int).tolist())
    # The band of the noise looks as wide as it is, everywhere.
    for part in range(20):
        of_part = y[(x >= part * 5000) & (x < (part + 1) * 5000)]
        assert of_part.max() > 2.5 and of_part.min() < -2.5


def test_long_stretches_of_values_that_are_not_finite_are_gaps():
    y = np.sin(X / 5000)
    y[40_000:50_000] = np.nan
    x, shown = thinned(y)
    gap = x[np.isnan(shown)]
    assert len(gap) and gap.min() >= 40_000 and gap.max() < 50_000
    assert np.isfinite(shown).sum() > 300
