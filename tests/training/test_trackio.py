"""trackio, an optional dependency, receives what a run logs: the tests read its SQLite database."""

import json
import sqlite3
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from config import parse
from tests.helpers import processes
from tests.helpers.children import child, environment, run_child
from tests.helpers.runs import records, steps

needs_trackio = pytest.mark.skipif(find_spec("trackio") is None, reason="trackio is not installed")
pytestmark = pytest.mark.timeout(120)
LOG_ONE_STEP = 'logbook.log(30, {"train/loss": 1.0})'


def trackio_environment(tmp_path: Path, **more: str) -> dict[str, str]:
    own = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    return environment(tmp_path, own | more)


def query(tmp_path: Path, columns: str, project: str = "p1") -> list[tuple]:
    """Rows of trackio's database in the order in which they were logged."""
    with closing(sqlite3.connect(tmp_path / "trackio" / f"{project}.db")) as database:
        return database.execute(f"select {columns} order by id").fetchall()


def points(tmp_path: Path, project: str = "p1") -> list[tuple[str, int, dict[str, Any]]]:
    """Run, step and values of every point in the database."""
    rows = query(tmp_path, "run_name, step, metrics from metrics", project)
    return [(name, step, json.loads(values)) for name, step, values in rows]


@needs_trackio
def test_trackio_stores_scalars_samples_and_configuration(tmp_path: Path):
    script = """
        print("status:", tracker.status)
        logbook.log(10, {"train/loss": 2.5, "epoch": 0.5})
        logbook.log(20, {"validation/loss": float("nan")})
        logbook.validated(20, [Sample("Guten Tag", "Good day", "<b>Good</b>")])
    """
    output = run_child(child(tmp_path, script, project="p1"), trackio_environment(tmp_path)).stdout
    assert b"status: trackio project p1\n" in output and b"trackio stopped" not in output
    first, second, (name, step, table) = points(tmp_path)
    assert first == ("r1", 10, {"train/loss": 2.5, "epoch": 0.5})
    assert second == ("r1", 20, {"validation/loss": "NaN"})
    assert (name, step) == ("r1", 20)
    row = {"source": "Guten Tag", "target": "Good day", "predicted": "<b>Good</b>"}
    assert table["validation/samples"]["_value"] == [row]
    [(config,)] = query(tmp_path, "config from configs")
    assert json.loads(config)["lr"] == 0.5


@needs_trackio
def test_resumed_run_continues_in_trackio_under_the_same_name(tmp_path: Path):
    for folder, step in ("first", 30), ("second", 40):
        script = f'logbook.log({step}, {{"train/loss": 1.0}})'
        run_child(child(tmp_path / folder, script, project="p1"), trackio_environment(tmp_path))
    assert [(name, step) for name, step, _ in points(tmp_path)] == [("r1", 30), ("r1", 40)]
    assert len(set(query(tmp_path, "run_id from metrics"))) == 1


def failures(output: bytes) -> list[str]:
    return [line for line in output.decode().splitlines() if line.startswith("trackio stopped")]


@pytest.mark.parametrize(
    ("failing", "body", "reason"),
    [
        ("init", "time.sleep(3600)", "TimeoutError: no result after 0.1 s"),
        ("log", "1 / 0", "ZeroDivisionError: division by zero"),
        ("finish", "1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_call_of_trackio_that_fails_costs_one_message(
    tmp_path: Path, failing: str, body: str, reason: str
):
    functions = {name: "pass" for name in ("init", "log", "finish")} | {failing: body}
    lines = [f"def {name}(*_, **__): {body}" for name, body in functions.items()]
    (tmp_path / "trackio.py").write_text("\n".join(["import time", *lines]))
    before = f"""
        import sys
        from translate_ddp.training import trackers
        sys.path.insert(0, {str(tmp_path)!r})
        trackers.START_SECONDS = {0.1 if failing == "init" else 60}
    """
    script = """
        for step in range(10, 60, 10):
            logbook.log(step, {"train/loss": 1.5})
        print(f"status: {tracker.status}.")
    """
    output = run_child(child(tmp_path, script, project="p1", before=before), environment(tmp_path))
    [message] = failures(output.stdout)
    assert message.startswith(f"trackio stopped ({reason})")
    assert failing != "init" or b"status: ." in output.stdout
    assert steps(tmp_path / "run") == [10, 20, 30, 40, 50]


@needs_trackio
def test_whole_run_logs_to_trackio_what_is_in_its_metrics_file(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--num_epochs", "1", "--trackio_project", "p2"]
    own = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    output = processes.train(flags, tmp_path / "output", size=2, **own).succeed()
    assert "trackio project p2" in output and "trackio stopped" not in output
    logged = [point for point in points(tmp_path, "p2") if "validation/samples" not in point[2]]
    assert [{"step": step} | values for _, step, values in logged] == [
        {name: value for name, value in record.items() if name != "time"}
        for record in records(tmp_path / "model")
    ]
    [(config,)] = query(tmp_path, "config from configs", "p2")
    assert json.loads(config)["world_size"] == 2


def test_trackio_that_is_not_installed_is_one_error_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "trackio", None)  # as if it were not installed
    with pytest.raises(SystemExit) as ended:
        parse(["--trackio_project", "p1"])
    assert ended.value.code == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert shown.count("Error parsing logbook: trackio_project needs trackio, which is not ") == 1
    assert "pip install -r requirements-trackio.txt" in shown
