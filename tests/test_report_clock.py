"""Time of training, time left and cost: the pauses between launches are left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.records import (
    PAUSE_SECONDS,
    START,
    launch,
    time_at,
    write_events,
    write_metrics,
    write_run,
    write_status,
)
from translate_ddp.reporting.clock import Clock
from translate_ddp.reporting.details import cost
from translate_ddp.reporting.reading import read_run
from translate_ddp.reporting.summary import Summary, summarize
from translate_ddp.run_record import End

LATER = START + 100_000


def summary_of(folder: Path, now: float = LATER) -> Summary:
    return summarize(read_run(folder), now)


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


def test_time_does_not_fall_when_the_clock_is_set_back(tmp_path: Path):
    write_metrics(tmp_path, points(1, 2, 3))
    clock = Clock.of(read_run(tmp_path))
    assert clock.seconds(np.array([10.0, 30.0, 20.0])).tolist() == [0, 20, 20]


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


def test_a_resumed_run_counts_the_time_of_both_launches(tmp_path: Path):
    write_run(tmp_path)
    # The last sign is the end, 4 s after the last step; the pause begins 3 s after a step.
    seconds = time_at(1800) + 4 - START - PAUSE_SECONDS + 3
    assert summary_of(tmp_path).elapsed_seconds == pytest.approx(seconds)
