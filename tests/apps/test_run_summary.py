"""The main facts of a run: time, pace, state, steps, speed and best score."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.records import (
    hold,
    launch,
    write_curve,
    write_events,
    write_metrics,
    write_status,
)
from translate_ddp.apps.reporting.run_summary import Clock, Summary, run_state, summarize
from translate_ddp.run_record import End, Event, Notice, Saved, read_run
from translate_ddp.runtime.run_folder import RunFolder

LATER = 1e6
NAN = float("nan")


def summary_of(folder: Path, now: float = LATER) -> Summary:
    return summarize(read_run(folder), now)


def points(*steps: int, every: float = 10.0, **values: Any) -> list[dict[str, Any]]:
    """Records of training at these steps, a step each `every` seconds from 0 s on."""
    return [
        {"step": s, "time": s * every, "train/loss": 1.0, "epoch": s / 10} | values for s in steps
    ]


# --- time ---


def test_pauses_between_launches_are_not_training_time(tmp_path: Path):
    # 100 s, killed; a pause of 1,000 s; 50 s; a pause of 5 s after a recorded end; 20 s.
    metrics = [*points(5, 10), {"step": 12, "time": 1120.0, "train/loss": 1.0}]
    write_metrics(tmp_path, metrics)
    launches = [launch(0.0, 0), launch(1100.0, 10), launch(1155.0, 15)]
    write_events(tmp_path, [*launches, End(1150.0, 15, "preempted"), End(1175.0, 17, "failed")])
    clock = Clock.of(read_run(tmp_path))
    times = np.array([0.0, 50.0, 100.0, 1100.0, 1120.0, 1150.0, 1155.0, 1175.0])
    assert clock.seconds(times).tolist() == [0, 50, 100, 100, 120, 150, 150, 170]
    assert clock.of_launches == [100, 50, 20] and clock.total == 170


@pytest.mark.parametrize(
    "event",
    [Saved(160.0, 12, "a.pt", 1), Notice(160.0, 12, "text"), End(160.0, 12, "failed")],
    ids=lambda event: type(event).__name__,
)
def test_every_event_of_a_launch_shows_that_it_was_at_work(tmp_path: Path, event: Event):
    write_metrics(tmp_path, points(0, 5, 10))
    second = launch(1000.0, 12)
    write_events(tmp_path, [launch(0.0, 0), event, second, Notice(1010.0, 12, "later")])
    assert Clock.of(read_run(tmp_path)).of_launches == [160, 10]


def test_records_that_a_resumed_run_writes_again_were_work(tmp_path: Path):
    write_metrics(tmp_path, points(0, 5, 10))
    write_events(tmp_path, [launch(0.0, 0), launch(1000.0, 10, previous=160.0)])
    assert Clock.of(read_run(tmp_path), now=1040.0).of_launches == [160, 40]


def test_a_run_at_work_has_worked_until_now(tmp_path: Path):
    write_metrics(tmp_path, points(0, 10))
    write_events(tmp_path, [launch(0.0, 0), launch(1000.0, 10)])
    write_status(tmp_path, "running")
    # On another machine, or on this one before it was started again.
    assert summary_of(tmp_path, 1030.0).clock.total == 100
    hold(tmp_path)
    assert summary_of(tmp_path, 1030.0).clock.total == 130


def test_a_run_without_events_has_the_time_of_its_records(tmp_path: Path):
    write_status(tmp_path, "running")
    write_metrics(tmp_path, [])
    hold(tmp_path)
    assert summary_of(tmp_path, 5.0).clock.total == 0
    write_metrics(tmp_path, points(2, 10))
    assert summary_of(tmp_path, 150.0).clock.total == 130


def test_a_clock_that_was_set_back_gives_no_launch_negative_time(tmp_path: Path):
    write_metrics(tmp_path, points(*range(11)))
    write_events(tmp_path, [launch(0.0, 0), launch(90.0, 5), launch(50.0, 8)])
    clock = Clock.of(read_run(tmp_path))
    assert min(clock.of_launches) >= 0 and clock.total <= 100


def test_the_time_left_follows_from_the_pace_of_this_launch(tmp_path: Path):
    # 10 s a step before the pause, 2 s after it; 60 of 100 steps are done.
    late = [{"step": s, "time": 5000 + 2.0 * s, "train/loss": 1.0} for s in (50, 60)]
    write_metrics(tmp_path, [*points(10, 20), *late])
    write_events(tmp_path, [launch(0.0, 0), launch(5000.0, 40, total_steps=100)])
    write_status(tmp_path, "running")
    assert summary_of(tmp_path, 5130.0).seconds_left == pytest.approx(80)
    write_status(tmp_path, "finished")
    assert summary_of(tmp_path).seconds_left is None


# --- state, steps, speed ---


def test_a_running_run_whose_process_is_gone_was_killed(tmp_path: Path):
    status = {"state": "running"}
    tmp_path.joinpath("metrics.jsonl").touch()
    # Copied from another machine, whose processes are unknown.
    assert run_state(tmp_path, status) == "running"
    lock = (
        "import sys; from translate_ddp.runtime.run_folder import RunFolder; "
        f"RunFolder({str(tmp_path)!r}, 'a').lock(0)"
    )
    subprocess.run([sys.executable, "-c", lock], check=True)
    assert run_state(tmp_path, status) == "killed"
    (tmp_path / ".holder").write_text(json.dumps({"kernel": "of another machine"}))
    assert run_state(tmp_path, status) == "running"
    RunFolder(str(tmp_path), "b").lock(0)  # by this process until it ends
    assert run_state(tmp_path, status) == "running"


def test_a_run_without_events_has_the_languages_and_the_metric_of_its_settings(tmp_path: Path):
    write_metrics(tmp_path, [{"step": 20, "time": 1.0, "validation/cer": 0.25}])
    settings = {"lang_src": "en", "lang_tgt": "it", "dataset": ["demo"], "best_metric": "cer"}
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    summary = summary_of(tmp_path)
    found = summary.launch
    assert (found.lang_src, found.lang_tgt, found.datasets) == ("en", "it", ["demo"])
    assert summary.best and summary.best.value == 0.25


def test_after_all_epochs_the_steps_of_a_run_are_no_longer_an_estimate(tmp_path: Path):
    write_events(tmp_path, [launch(0.0, 0, total_steps=103, num_epochs=10)])
    for step, total in ((90, 103), (100, 100)):
        write_metrics(tmp_path, [{"step": step, "time": 1.0, "epoch": step / 10}])
        assert summary_of(tmp_path).total_steps == total


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


def test_the_speed_is_the_median_of_the_last_twenty_records_of_the_last_launch(tmp_path: Path):
    values = {step: 900.0 for step in range(1, 101)} | {step: 9.0 for step in range(101, 106)}
    values |= {106 + n: 300 - float(n) for n in range(19)} | {125: 9000, 126: NAN}
    write_curve(tmp_path, "train/tokens_per_second", values)
    begun = [launch(0.0, 0), launch(100.5, 100)]
    write_events(tmp_path, begun)
    assert summary_of(tmp_path).tokens_per_second == 291.5  # of 300 to 282 and 9000
    write_events(tmp_path, [*begun, launch(119.5, 119)])
    assert summary_of(tmp_path).tokens_per_second == 284.5  # of 286 to 282 and 9000
    write_events(tmp_path, [*begun, launch(200.0, 125)])
    assert summary_of(tmp_path).tokens_per_second is None  # without a record yet


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
