"""Charts of the curves of runs: where their points and marks are, and what part they show."""

import json
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.charts import drawn, number, svg, texts
from tests.helpers.records import (
    PAUSE_SECONDS,
    RESUMED,
    START,
    STEPS,
    launch,
    time_at,
    write_events,
    write_metrics,
    write_run,
)
from translate_ddp.apps.reporting.axes import tick_texts, ticks
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.comparison import POINTS, render_comparison
from translate_ddp.apps.reporting.curves import (
    MAX_MARKS,
    TimeUnit,
    charts,
    few,
    marks,
    panels,
    visible_range,
)
from translate_ddp.apps.reporting.page import render
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.run_record import METRICS_FILE, Saved

LEFT, RIGHT = 52, 350  # the ends of the x axis
LATER = START + 100_000
NAN = math.nan


def charts_of(folder: Path, title: str) -> tuple[ET.Element, ET.Element]:
    """A chart of the run over steps, and over time."""
    record = read_run(folder)
    pairs = charts(record, Clock.of(record))
    [(over_steps, over_time)] = (pair for pair in pairs if f"<figcaption>{title}<" in pair[0])
    return svg(over_steps), svg(over_time)


def points_of(chart: ET.Element, line: int = 0) -> list[tuple[float, float]]:
    """The x of each point as the script shows it, and its place."""
    paths = [path for path in chart.iter("path") if "data-x" in path.attrib]
    shown = filter(None, paths[line].get("data-x", "").split("|"))
    places = [x for x, _ in drawn(chart, "line")[line]]
    return list(zip((float(x.replace(",", "")) for x in shown), places, strict=True))


def marks_of(chart: ET.Element, kind: str) -> dict[str, float]:
    """The place of each mark by its text."""
    return {
        path.findtext("title", "").removeprefix(f"{kind}: "): number(path, "data-at")
        for path in chart.iter("path")
        if path.get("class") == f"mark {kind}" and path.get("data-at")
    }


def test_points_and_marks_are_at_their_steps_and_at_their_time_of_training(tmp_path: Path):
    write_run(tmp_path, state="running")
    with (tmp_path / METRICS_FILE).open("a") as file:  # the run goes on after its validation
        file.write(json.dumps({"step": 2000, "time": time_at(2000), "train/lr": 1.0}) + "\n")
    hours = (time_at(2000) - START - PAUSE_SECONDS + 3) / 3600
    resumed = time_at(RESUMED * STEPS) + 3 - START  # the first launch ended so

    def hours_at(step: int, after: float) -> float:
        pause = PAUSE_SECONDS - 3 if step > RESUMED * STEPS else 0
        return (time_at(step) + after - START - pause) / 3600

    validated = [n * STEPS for n in range(1, 11)]
    for title in ("BLEU and chrF of validation", "Error rates of validation"):
        over_steps, over_time = charts_of(tmp_path, title)
        assert {"steps", "0", "2,000"} <= texts(over_steps).keys()
        assert {"hours of training", "0", "4"} <= texts(over_time).keys()
        for line in (0, 1):
            for step, (shown, place) in zip(validated, points_of(over_steps, line), strict=True):
                assert shown == step
                assert place == pytest.approx(LEFT + step / 2000 * (RIGHT - LEFT), abs=0.1)
            for step, (shown, place) in zip(validated, points_of(over_time, line), strict=True):
                time = hours_at(step, 2)
                assert shown == pytest.approx(time, rel=1e-3)
                assert place == pytest.approx(LEFT + time / hours * (RIGHT - LEFT), abs=0.1)
        places = marks_of(over_time, "saved")
        assert list(marks_of(over_steps, "saved")) == [f"step {step:,}" for step in validated]
        for step in validated:
            at = LEFT + hours_at(step, 3) / hours * (RIGHT - LEFT)
            assert places[f"step {step:,}"] == pytest.approx(at, abs=0.1)
        at = LEFT + resumed / 3600 / hours * (RIGHT - LEFT)
        assert marks_of(over_time, "resumed") == {"step 720": pytest.approx(at, abs=0.1)}
        at = LEFT + hours_at(520, 0) / hours * (RIGHT - LEFT)
        assert marks_of(over_time, "skipped") == {"2 until step 520": pytest.approx(at, abs=0.1)}


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(0, "seconds"), (179, "seconds"), (180, "minutes"), (10_799, "minutes"), (10_800, "hours")],
)
def test_the_time_axis_has_at_least_three_units(seconds: float, name: str):
    assert TimeUnit.for_length(seconds).label == f"{name} of training"


def test_runs_are_compared_over_their_own_time_of_training(tmp_path: Path):
    for name, first, every in (("one", 1000.0, 30), ("two", 5e8, 60)):
        lines = [
            {"step": n, "time": first + n * every, "train/lr": 1.0 + n} for n in range(0, 11, 2)
        ]
        write_metrics(tmp_path / name, lines)
    write_metrics(tmp_path / "three", [{"step": 1, "time": 7.0, "train/nll": 1.0}])
    found = [read_run(tmp_path / name) for name in ("three", "one", "two")]
    [over_steps, over_time] = (
        svg(figure)
        for figure in re.findall("<figure.*?</figure>", render_comparison(found, LATER), re.S)
        if "<figcaption>Learning rate" in figure
    )
    middle = (LEFT + RIGHT) / 2
    assert points_of(over_steps, 0) == points_of(over_time, 0) == []
    assert [x for x, _ in points_of(over_steps, 1)] == [0, 2, 4, 6, 8, 10]
    assert [x for x, _ in points_of(over_time, 1)] == [0, 1, 2, 3, 4, 5]
    assert [x for x, _ in points_of(over_time, 2)] == [0, 2, 4, 6, 8, 10]
    assert [points_of(over_time, line)[-1][1] for line in (1, 2)] == [middle, RIGHT]
    # The first run has no points, and its colour stays free.
    lines = [group.get("class") for group in over_time.iter("g") if group.find("title") is not None]
    assert lines == ["color-0", "color-1", "color-2"] and "minutes of training" in texts(over_time)


def test_all_lines_of_a_comparison_have_a_limited_number_of_points(tmp_path: Path):
    for number_ in range(8):
        noise = np.random.default_rng(number_).normal(size=3000).tolist()
        lines = [{"step": n, "time": n, "train/nll": value} for n, value in enumerate(noise)]
        write_metrics(tmp_path / str(number_), lines)
    found = [read_run(folder) for folder in sorted(tmp_path.iterdir())]
    figures = re.findall("<figure.*?</figure>", render_comparison(found, LATER), re.S)
    for figure in figures:
        counts = [len(points_of(svg(figure), line)) for line in range(8)]
        assert min(counts) > 150 and sum(counts) <= POINTS


def test_marks_show_what_is_part_of_the_run(tmp_path: Path):
    skipped = [(1, 3), (10, 3), (20, 3), (30, 5), (50, 6)]
    write_metrics(
        tmp_path, [{"step": s, "time": 10.0 * s, "train/skipped_steps": n} for s, n in skipped]
    )
    events = [
        launch(0.0, 0),
        Saved(101.0, 10, "a.pt", 1, 1),
        Saved(201.0, 20, "b.pt", 1, 2),  # the second launch goes back to step 10
        launch(250.0, 10),
        Saved(260.0, 25, "c.pt", 1, 2),
        launch(300.0, 25),
    ]
    write_events(tmp_path, events)
    found = marks(read_run(tmp_path), lambda step, time: step + time / 1000)
    assert [(mark.kind, mark.text, round(mark.x, 3)) for mark in found] == [
        ("resumed", "step 10", 10.25),
        ("resumed", "step 25", 25.3),
        ("skipped", "3 until step 1", 1.01),
        ("skipped", "2 until step 30", 30.3),
        ("skipped", "1 until step 50", 50.5),
        ("saved", "step 10", 10.101),
        ("saved", "step 25", 25.26),
    ]


def test_many_marks_are_few_with_the_first_and_the_last(tmp_path: Path):
    assert few(range(9), 3) == [0, 4, 8] and few("ab", 3) == ["a", "b"] and few([], 3) == []
    steps = range(1, 301)
    lines = [{"step": s, "time": 9.0, "train/skipped_steps": s} for s in steps]
    write_metrics(tmp_path, lines)
    write_events(
        tmp_path, [*(Saved(9.0, s, "", 1) for s in steps), *(launch(9.0, s) for s in steps)]
    )
    found = [mark.x for mark in marks(read_run(tmp_path), lambda step, _: step)]
    assert len(found) == 3 * MAX_MARKS
    assert found[::MAX_MARKS] == [1] * 3 and found[MAX_MARKS - 1 :: MAX_MARKS] == [300] * 3


@pytest.mark.parametrize(
    ("curves", "from_zero", "expected"),
    [
        ([[9, 2, 1, 1, 2, 1, 2]], False, (1, 2)),
        ([[9, 2, 1, 1, 2, 1, 2]], True, (0, 2)),
        ([[NAN, 9, 2, NAN, 1, 1, math.inf, 2, 1, 2]], False, (1, 2)),
        ([[9, 50, 2, 1, 1, 2, 1, 2, 1, 2, 1, 2]], False, (1, 2)),
        ([[0, 0, 41, 42, 41, 42, 41, 42, 41, 42]], False, (41, 42)),
        ([[9, 2, 1, 1, 2, 1, 2], [30, 5, 4, 5, 4, 5]], False, (1, 5)),  # of both curves
        ([[30, 5, 4, 5, 4, 5], [9, 2, 1, 1, 2, 1, 2], [NAN]], False, (1, 5)),
        ([[9, 2, 1, 1, 2, 1, 2], [8, 8]], False, None),  # the second one is not far out
        ([[5.5, 2, 1, 1, 2, 1, 2]], False, (1, 2)),
        ([[4.9, 2, 1, 1, 2, 1, 2]], False, None),  # not far out
        ([[20, 2, 1, 1, 2, 1, 2], [12, 11, 12, 11]], False, None),  # less than half of the height
        ([[23, 2, 1, 1, 2, 1, 2], [12, 11, 12, 11]], False, (1, 12)),
        ([[9, 1, 1, 1, 1, 1]], False, None),  # no height would be left
        ([[9, 1, 1, 1, 1, 1]], True, (0, 1)),
        ([[2, 1, 1, 2, 1, 1, 2, 1, 2, 50]], False, None),  # it diverges
        ([[99, 2, 1, 2, 1, 2, 1, 2, 1, 2, 40]], False, (1, 40)),
        ([[1, 1, 1, 1, 1, 0]], False, None),
        ([[5]], False, None),
        ([[NAN], []], False, None),
        ([], False, None),
    ],
)
def test_the_first_values_that_are_far_out_are_not_shown(
    curves: list[list[float]], from_zero: bool, expected: tuple[float, float] | None
):
    assert visible_range([np.array(curve, dtype=float) for curve in curves], from_zero) == expected


def test_a_chart_of_a_run_that_diverges_shows_its_first_usual_and_its_last_values(tmp_path: Path):
    losses = [60, *[2 + n % 3 for n in range(30)], NAN, 20]
    lines = [
        {"step": n, "time": 10.0 * n, "train/nll": "nan" if loss != loss else loss}
        for n, loss in enumerate(losses)
    ]
    write_metrics(tmp_path, lines)
    for chart in charts_of(tmp_path, "Loss, in nats per token"):
        [window] = chart.findall("svg")
        _, top, _, height = map(float, window.get("viewBox", "").split())
        first, *shown = (y for _, y in drawn(chart, "line")[0])
        assert first < top and all(top < y < top + height for y in shown)
        assert shown[-1] == min(shown) and "up to 60" in texts(chart)
        desc = chart.findtext("desc", "")
        assert "training: 60 at 0, 20 at" in desc and "; minimum 2, maximum 60." in desc
    assert "NaN" not in (html := render(read_run(tmp_path), LATER)) and 'd="mnan' not in html


def test_a_chart_without_the_first_values_has_the_shape_of_the_others(tmp_path: Path):
    steps = np.arange(8000.0)
    values = 1.5 - np.tanh((steps - 4010) / 8) / 2
    values[0] = 1e6
    found = zip(steps.tolist(), values.tolist(), strict=True)
    write_metrics(tmp_path, [{"step": s, "time": s, "train/nll": v} for s, v in found])
    chart, _ = charts_of(tmp_path, "Loss, in nats per token")
    [line] = (path for path in chart.iter("path") if "data-x" in path.attrib)
    x, y = (
        [float(part.replace(",", "")) for part in line.get(name, "").split("|")]
        for name in ("data-x", "data-y")
    )
    assert np.abs(np.interp(steps[9:], x[1:], y[1:]) - values[9:]).max() < 0.005


def test_curves_of_other_names_have_a_limited_number_of_charts():
    others = [f"probe/{number}" for number in range(20)]
    names = ["epoch", *others, "train/skipped_steps", "train/lr"]
    assert [panel.title for panel in panels(names)] == ["Learning rate", *others[:12]]
    assert [panel.title for panel in panels(names, 4)] == ["Learning rate", *others[:4]]


@pytest.mark.parametrize(
    ("low", "high"), [(41.0, 41.03), (1.41234, 1.41239), (12_340, 12_345), (0, 1), (-3e-7, 5e-7)]
)
def test_ticks_of_a_narrow_range_have_different_texts_close_to_their_values(
    low: float, high: float
):
    values = ticks(low, high)
    shown = tick_texts(values)
    assert len(set(shown)) == len(shown) == len(values)
    for text, value in zip(shown, values, strict=True):
        read = float(text.replace(",", "").replace("k", "e3"))
        assert read == pytest.approx(value, abs=(high - low) / 20)
