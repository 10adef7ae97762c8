"""Time of training, time left and cost: the pauses between launches are left out."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.records import (
    PAUSE_SECONDS,
    START,
    hold,
    launch,
    time_at,
    write_events,
    write_metrics,
    write_run,
    write_status,
)
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.details import cost
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.apps.reporting.summary import Summary, summarize
from translate_ddp.run_record import End, Event, Notice, Saved

LATER = START + 100_000


def summary_of(folder: Path, now: float = LATER) -> Summary:
    record = read_run(folder)
    return summarize(record, Clock.of(record), now)


def points(*steps: int, every: float = 10.0, **values: Any) -> list[dict[str, Any]]:
    """Records of training at these steps, a step each `every` seconds from 0 s on."""
    return [
        {"step": s, "time": s * every, "train/loss": 1.0, "epoch": s / 10} | values for s in steps
    ]


def test_pauses_between_launches_are_not_training_time(tmp_path: Path):
    # 100 s, killed; a pause of 1,000 s; 50 s; a pause of 5 s after a recorded end; 20 s.
    metrics = [*points(5, 10), {"step": 12, "time": 1120.0, "train/loss": 1.0}]
    write_metrics(tmp_path, metrics)
    launches = [launch(0.0, 0), launch(1100.0, 10), launch(1155.0, 15)]
    write_events(tmp_path, [*launches, End(1150.0, 15, "preempted"), End(1175.0, 17, "failed")])
    clock = Clock.of(read_run(tmp_path))
    times = np.array([0.0, 50.0, 100.0, 1100.0, 1120.0, 1150.0, 1155.0, 1175.0])
    assert clock.seconds(times).tolist() == [0, 50, 100, 100, 120, 150, 150, 170]
    assert clock.of_launches(launches, 1175.0) == [100, 50, 20]


@pytest.mark.parametrize(
    "event",
    [Saved(160.0, 12, "a.pt", 1), Notice(160.0, 12, "text"), End(160.0, 12, "failed")],
    ids=lambda event: type(event).__name__,
)
def test_every_event_of_a_launch_shows_that_it_was_at_work(tmp_path: Path, event: Event):
    write_metrics(tmp_path, points(0, 5, 10))
    second = launch(1000.0, 12)
    write_events(tmp_path, [launch(0.0, 0), event, second, Notice(1000.0, 12, "at once")])
    assert Clock.of(read_run(tmp_path)).until(1010.0) == 170


def test_records_that_a_resumed_run_writes_again_were_work(tmp_path: Path):
    write_metrics(tmp_path, points(0, 5, 10))
    write_events(tmp_path, [launch(0.0, 0), launch(1000.0, 10, previous=160.0)])
    record = read_run(tmp_path)
    clock = Clock.of(record)
    assert clock.of_launches(record.launches, 1040.0) == [160, 40]


def test_a_launch_without_events_begins_at_its_first_record(tmp_path: Path):
    # As with --no_report.
    write_metrics(tmp_path, [*points(0, 5, 10), {"step": 12, "time": 1100.0, "train/loss": 1.0}])
    write_events(tmp_path, [launch(0.0, 0), End(103.0, 10, "preempted")])
    clock = Clock.of(read_run(tmp_path))
    assert clock.seconds(np.array([100.0, 1100.0, 1120.0])).tolist() == [100, 103, 123]


@pytest.mark.parametrize(
    ("state", "time", "expected"),
    [
        ("finished", datetime.fromtimestamp(160, UTC).isoformat(), 160),
        ("failed", datetime.fromtimestamp(50, UTC).isoformat(), 100),
        ("preempted", datetime.fromtimestamp(160, UTC).isoformat(), 160),
        ("finished", "0001-01-01T00:00:00", 100),
        ("finished", "9999-12-31T23:59:59+00:00", 100),
        ("finished", "soon", 100),
        ("finished", None, 100),
    ],
)
def test_the_time_of_status_ends_a_run(
    tmp_path: Path, state: str, time: str | None, expected: float
):
    write_metrics(tmp_path, points(0, 10))
    write_status(tmp_path, state, time=time)
    assert summary_of(tmp_path).elapsed_seconds == expected


def test_the_status_of_a_running_run_was_written_by_the_launch_that_follows(tmp_path: Path):
    write_metrics(tmp_path, points(0, 10))
    write_events(tmp_path, [launch(0.0, 0), launch(1000.0, 10)])
    write_status(tmp_path, "running", time=datetime.fromtimestamp(999, UTC).isoformat())
    hold(tmp_path)
    assert summary_of(tmp_path, 1030.0).elapsed_seconds == 130


def test_a_run_that_is_not_seen_to_work_has_the_time_of_its_record(tmp_path: Path):
    # On another machine, or on this one before it was started again.
    write_metrics(tmp_path, points(0, 10))
    write_events(tmp_path, [launch(0.0, 0)])
    write_status(tmp_path, "running")
    summary = summary_of(tmp_path, 1e6)
    assert summary.state == "running" and summary.elapsed_seconds == 100


def test_a_start_that_fails_before_it_trains_adds_no_time(tmp_path: Path):
    write_metrics(tmp_path, points(0, 10))
    write_events(tmp_path, [launch(0.0, 0)])  # killed
    write_status(tmp_path, "failed", time=datetime.fromtimestamp(9000, UTC).isoformat())
    assert summary_of(tmp_path).elapsed_seconds == 100


def test_a_run_without_times_has_taken_none(tmp_path: Path):
    # As with --no_report, before the first record.
    write_metrics(tmp_path, [])
    write_status(tmp_path, "running")
    hold(tmp_path)
    assert Clock.of(read_run(tmp_path)).until(5.0) == 0
    assert summary_of(tmp_path).elapsed_seconds == 0


def test_a_clock_that_was_set_back_gives_no_launch_negative_time(tmp_path: Path):
    write_metrics(tmp_path, points(*range(11)))
    write_events(tmp_path, [launch(0.0, 0), launch(90.0, 5), launch(50.0, 8)])
    record = read_run(tmp_path)
    assert [each.step for each in record.launches] == [0, 5, 8]  # as they were written
    # Before the launches at 50 s and 90 s, pauses of 10 s.
    assert Clock.of(record).of_launches(record.launches, 100.0) == [70, 0, 40]


def test_time_does_not_fall_when_the_clock_is_set_back(tmp_path: Path):
    times = [20.0, 10.0, 40.0, 30.0]
    write_metrics(tmp_path, [{"step": s, "time": t, "a": 1} for s, t in enumerate(times)])
    clock = Clock.of(read_run(tmp_path))
    assert clock.seconds(np.array(times)).tolist() == [10, 10, 30, 30] and clock.last == 40


def test_cost_is_the_time_of_all_launches_times_their_cores_or_gpus(tmp_path: Path):
    write_metrics(tmp_path, points(1))
    hour = 3600.0
    write_events(
        tmp_path,
        [
            launch(0.0, 0, world_size=2, threads=3, device="cpu"),
            End(hour, 5, "preempted"),
            launch(5 * hour, 5, world_size=8, threads=3, device="cuda"),
        ],
    )
    record = read_run(tmp_path)
    assert cost(record, Clock.of(record), 5.5 * hour) == "6 core hours and 4 GPU hours"


def test_the_time_left_follows_from_the_pace_of_this_launch(tmp_path: Path):
    # 10 s a step before the pause, 2 s after it; 60 of 100 steps are done.
    late = [{"step": s, "time": 5000 + 2.0 * s, "train/loss": 1.0} for s in (50, 60)]
    write_metrics(tmp_path, [*points(10, 20), *late])
    write_events(tmp_path, [launch(0.0, 0), launch(5000.0, 40, total_steps=100)])
    write_status(tmp_path, "running")
    summary = summary_of(tmp_path, 5130.0)
    assert summary.seconds_left == pytest.approx(80)
    write_status(tmp_path, "finished")
    assert summary_of(tmp_path).seconds_left is None


def test_no_time_left_is_stated_after_the_clock_was_set_back(tmp_path: Path):
    set_back = [{"step": s, "time": 5000 - 10.0 * s, "train/loss": 1.0} for s in (50, 60)]
    write_metrics(tmp_path, set_back)
    write_events(tmp_path, [launch(0.0, 40, total_steps=100)])
    write_status(tmp_path, "running")
    assert summary_of(tmp_path, 5130.0).seconds_left is None


def test_a_resumed_run_counts_the_time_of_both_launches(tmp_path: Path):
    write_run(tmp_path)
    # The last sign is the end, 4 s after the last step; the pause begins 3 s after a step.
    seconds = time_at(1800) + 4 - START - PAUSE_SECONDS + 3
    assert summary_of(tmp_path).elapsed_seconds == pytest.approx(seconds)
