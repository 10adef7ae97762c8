"""What a run has done: steps, speed, its best epoch, launches, checkpoints and notices."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.pages import section, tables
from tests.helpers.records import (
    hold,
    launch,
    write_events,
    write_lines,
    write_metrics,
    write_run,
    write_status,
)
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.details import MAX_NOTICES, MAX_ROWS, cost, launches
from translate_ddp.apps.reporting.page import render
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.apps.reporting.summary import Summary, summarize
from translate_ddp.run_record import End, Event, Notice, SampleRows, Saved, TextRow

LATER = 1e6
DAY = 86_400.0
NAN = float("nan")


def summary_of(folder: Path, now: float = LATER) -> Summary:
    record = read_run(folder)
    return summarize(record, Clock.of(record), now)


def tables_of(folder: Path, name: str) -> list[list[list[str]]]:
    found = section(render(read_run(folder), LATER), name)
    assert found is not None
    return tables(found)


def write_curve(folder: Path, name: str, values: dict[int, float], first: float = 0.0) -> None:
    """The values at their steps, one each second from the first."""
    known = {step: value if np.isfinite(value) else str(value) for step, value in values.items()}
    write_metrics(folder, [{"step": s, "time": first + s, name: v} for s, v in known.items()])


@pytest.mark.parametrize(
    ("scores", "ends", "metric", "expected"),
    [
        ({1: 30, 2: 20, 3: 25, 4: 22}, [2, 4], "BLEU", (22, 4)),  # ends of epochs only
        ({1: 20, 2: 30, 3: 25, 4: 22}, [], "BLEU", (30, 2)),
        ({1: 30, 2: 20, 3: 25, 4: 22}, [2, 4], "cer", (20, 2)),
        ({2: 21, 4: 22, 6: 22, 8: 3}, [2, 4, 6, 8], "BLEU", (22, 4)),  # the first of equal ones
        ({2: 5, 4: 3, 6: 3, 8: 4}, [2, 4, 6, 8], "loss", (3, 4)),
        ({1: 20, 2: NAN, 3: 30, 4: NAN}, [2, 4], "BLEU", (30, 3)),
        ({1: 30, 2: NAN, 4: 7}, [2, 4], "BLEU", (7, 4)),
        ({2: float("inf"), 4: 7}, [2, 4], "BLEU", (7, 4)),
        ({2: NAN}, [2], "BLEU", None),
    ],
)
def test_the_best_score_is_that_of_the_best_epoch(
    tmp_path: Path,
    scores: dict[int, float],
    ends: list[int],
    metric: str,
    expected: tuple[float, int] | None,
):
    write_curve(tmp_path, f"validation/{metric}", scores)
    saved = [
        Saved(float(s), s, f"{s}.pt", 1, ends.index(s) + 1 if s in ends else None) for s in scores
    ]
    write_events(tmp_path, [launch(0.0, 0, best_metric=metric), *saved])
    summary = summary_of(tmp_path)
    found = summary.best and (summary.best.value, summary.best.step)
    assert found == expected
    assert summary.last and summary.last.step == max(scores)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_epochs": 10}, 100),
        ({"num_epochs": 10, "max_steps": 50}, 50),
        ({"num_epochs": 10, "max_steps": 500}, 100),
        ({"max_steps": 50}, 50),
        ({"num_epochs": "many"}, 0),
        ({}, 0),
    ],
)
def test_the_steps_of_a_run_of_an_earlier_version_follow_from_its_settings(
    tmp_path: Path, settings: dict[str, Any], expected: int
):
    write_metrics(tmp_path, [{"step": 20, "time": 1.0, "epoch": 2.0}])
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    assert summary_of(tmp_path).total_steps == expected
    write_events(tmp_path, [launch(0.0, 0, total_steps=77)])
    assert summary_of(tmp_path).total_steps == 77


def test_after_all_epochs_the_steps_of_a_run_are_no_longer_an_estimate(tmp_path: Path):
    write_events(tmp_path, [launch(0.0, 0, total_steps=103, num_epochs=10)])
    for step, total in ((90, 103), (100, 100)):
        write_metrics(tmp_path, [{"step": step, "time": 1.0, "epoch": step / 10}])
        assert summary_of(tmp_path).total_steps == total


def test_the_speed_is_the_median_of_the_last_twenty_records_of_the_last_launch(tmp_path: Path):
    values = {step: 900.0 for step in range(1, 101)} | {step: 9.0 for step in range(101, 106)}
    values |= {106 + n: 300 - float(n) for n in range(18)} | {124: 9000, 125: NAN}
    write_curve(tmp_path, "train/tokens_per_second", values)
    begun = [launch(0.0, 0), launch(100.5, 100)]
    write_events(tmp_path, begun)
    assert summary_of(tmp_path).tokens_per_second == 292  # of 300 to 283 and 9000
    write_events(tmp_path, [*begun, launch(119.5, 119)])
    assert summary_of(tmp_path).tokens_per_second == 285  # of 286 to 283 and 9000
    write_events(tmp_path, [*begun, launch(200.0, 125)])  # without a record yet
    assert summary_of(tmp_path).tokens_per_second == 292


def test_steps_that_are_not_logged_are_known_from_checkpoints_and_ends(tmp_path: Path):
    write_metrics(tmp_path, [{"step": 100, "time": 100.0, "train/loss": 1.0, "epoch": 2.0}])
    first = [launch(0.0, 0), Saved(102.0, 103, "a.pt", 1), End(105.0, 150, "failed")]
    write_events(tmp_path, first)
    summary = summary_of(tmp_path)
    assert (summary.step, summary.epoch) == (150, 3.0)
    write_events(tmp_path, [*first, launch(200.0, 103)])
    assert summary_of(tmp_path).step == 103  # the later ones of the first launch are undone
    write_events(tmp_path, [*first, launch(200.0, 103), Saved(203.0, 106, "b.pt", 1)])
    assert summary_of(tmp_path).step == 106


def test_each_launch_has_its_own_last_end(tmp_path: Path):
    write_metrics(tmp_path, [])
    write_status(tmp_path, "finished")
    events: list[Event] = [
        launch(0.0, 0, device=""),
        End(60.0, 5, "preempted", "SIGTERM"),
        End(60.0, 5, "failed", "the disk is full"),
        launch(1000.0, 5, device="cuda", world_size=16, nodes=2),
        launch(2000.0, 6, device="cuda", world_size=1),
        End(2060.0, 8, "finished"),
        launch(DAY, 8),
    ]
    write_events(tmp_path, events)
    [shown, *_] = tables_of(tmp_path, "history")
    killed = "without a record: killed, or its machine was lost"
    assert shown[1:] == [
        ["1970-01-01 00:00", "0", "2", "1 min 0 s", "failed: the disk is full"],
        ["1970-01-01 00:16", "5", "16 on 2 nodes × GPU", "0 s", killed],
        ["1970-01-01 00:33", "6", "1 × GPU", "1 min 0 s", "finished"],
        ["1970-01-02 00:00", "8", "2 × CPU", "0 s", "finished"],  # the state of the run
    ]


def test_launches_are_in_the_order_of_the_file_and_the_last_ones_are_shown(tmp_path: Path):
    write_metrics(tmp_path, [])
    count = MAX_ROWS + 10
    begun = [launch(1000.0 * n, n, lang_src=str(n)) for n in range(count)]
    begun[-1] = launch(5.0, count - 1, lang_src="of the last")  # the clock was set back
    write_events(tmp_path, begun)
    assert summary_of(tmp_path).languages[0] == "of the last"
    [shown, *_] = tables_of(tmp_path, "history")
    assert [row[1] for row in shown[1:]] == [str(n) for n in range(10, count)]
    record = read_run(tmp_path)
    assert len(launches(record, Clock.of(record), LATER, "failed").rows) == MAX_ROWS


def test_equal_notices_are_shown_once_in_the_order_of_their_last_times(tmp_path: Path):
    write_metrics(tmp_path, [])
    texts = ["a", "b", "a", "c\nd", "b", "b"]
    write_events(tmp_path, [Notice(60.0 * n, n, text) for n, text in enumerate(texts)])
    [shown] = tables_of(tmp_path, "history")
    assert shown[1:] == [
        ["1970-01-01 00:02", "2", "a"],
        ["1970-01-01 00:03", "3", "c d"],
        ["1970-01-01 00:05", "5", "b"],
    ]


def test_of_many_notices_the_last_ones_are_shown(tmp_path: Path):
    write_metrics(tmp_path, [])
    count = MAX_NOTICES + 30
    write_events(tmp_path, [Notice(float(n), n, f"{n % count}") for n in range(count + 5)])
    [shown] = tables_of(tmp_path, "history")
    assert [row[2] for row in shown[1:]] == [str(n % count) for n in range(35, count + 5)]
    html = render(read_run(tmp_path), LATER)
    assert f"The last {MAX_NOTICES} of {count} notices." in html
    assert f"<summary>{MAX_NOTICES} notices</summary>" in html


def test_checkpoints_within_an_epoch_are_never_the_best(tmp_path: Path):
    write_curve(tmp_path, "validation/BLEU", {10: 30.0, 20: 30.0, 30: 20.0})
    write_events(tmp_path, [launch(0.0, 0)])
    for name in ("epoch_0001_step_00000010", "step_00000010", "step_00000020", "step_00000030"):
        (tmp_path / f"m_{name}-0123abcd.pt").write_bytes(b"x")
    (tmp_path / "other.pt").touch()
    [shown] = tables_of(tmp_path, "checkpoints")
    assert [row[:2] + row[3:4] for row in shown[1:]] == [
        ["", "30", "20.00"],
        ["", "20", "30.00"],
        ["1", "10", "30.00 (best)"],
        ["", "10", "30.00"],
    ]


def test_of_many_checkpoints_the_newest_are_shown(tmp_path: Path):
    write_metrics(tmp_path, [])
    for step in range(MAX_ROWS + 7):
        (tmp_path / f"m_step_{step:08}-0123abcd.pt").touch()
    write_events(tmp_path, [launch(0.0, 0), *(Saved(1.0, 1, f"{n}.pt", 1) for n in range(1200))])
    found = section(render(read_run(tmp_path), LATER), "checkpoints")
    assert found is not None
    [shown] = tables(found)
    assert [row[1] for row in shown[1:]] == [str(n) for n in range(MAX_ROWS + 6, 6, -1)]
    line = "The newest 50 of 57. 1,200 others are no longer in the folder."
    assert found.findtext("p") == line


def test_cost_is_that_of_all_launches_up_to_now_while_the_run_goes_on(tmp_path: Path):
    write_metrics(tmp_path, [{"step": 1, "time": 3600.0, "train/loss": 1.0}])
    write_events(tmp_path, [launch(0.0, 0, world_size=1, threads=2)])
    write_status(tmp_path, "running")
    hold(tmp_path)
    shown = render(read_run(tmp_path), 2 * 3600.0)
    assert "Cost: 4 core hours." in shown and "<dd>2 h 0 min</dd>" in shown
    write_status(tmp_path, "failed")
    shown = render(read_run(tmp_path), 2 * 3600.0)
    assert "Cost: 2 core hours." in shown and "<dd>1 h 0 min</dd>" in shown
    write_events(tmp_path, [])
    record = read_run(tmp_path)
    assert cost(record, Clock.of(record), 5.0) == ""


def write_samples(folder: Path, *validations: list[TextRow]) -> None:
    samples = [SampleRows(10 * n, rows) for n, rows in enumerate(validations, 1)]
    write_lines(folder / "samples.jsonl", list(map(vars, samples)))


def test_equal_translations_are_one_version_before_few_are_chosen(tmp_path: Path):
    write_run(tmp_path, 1)
    texts = ["a"] * 30 + [*"bcdefgh"] + ["a"] * 2
    write_samples(tmp_path, *([("s", "r", text)] for text in texts))
    [shown] = tables_of(tmp_path, "sentences")
    assert [text for _, text in shown[2:]] == [*"abcdefgha"]
    write_samples(tmp_path, *([("s", "r", text)] for text in "abcdefghijklmnopqrst"))
    [shown] = tables_of(tmp_path, "sentences")
    assert len(shown) == 12 and (shown[2][1], shown[-1][1]) == ("a", "t")


def test_a_sentence_that_is_twice_in_the_samples_has_one_translation_of_each_validation(
    tmp_path: Path,
):
    write_run(tmp_path, 1)
    twice = [("s", "r", "a"), ("s", "other", "x"), ("s", "r", "b")]
    write_samples(tmp_path, twice, [("s", "r", "c"), ("s", "r", "d")])
    found = tables_of(tmp_path, "sentences")
    assert [[text for _, text in table[1:]] for table in found] == [["r", "a", "c"]] * 2
    write_samples(tmp_path, twice, [("new", "r", "d")], twice)
    found = tables_of(tmp_path, "sentences")
    assert [text for _, text in found[1][1:]] == ["other", "x"]
