"""Weights & Biases receives what a run logs, and no secret."""

import hashlib
import json
import math
from pathlib import Path

import pytest

from tests.helpers.children import environment, run_child, run_on_terminal
from tests.helpers.runs import steps
from tests.helpers.wandb_server import WandbServer, stored_run, stored_steps, wandb_child
from translate_ddp.training.state import LogOffset

pytestmark = pytest.mark.timeout(60)
LOG_TWO_STEPS = """
    print("CANARY-console")
    logbook.log(10, {"train/loss": 2.5})
    logbook.log(20, {"train/loss": 1.5})
    logbook.log(20, {"validation/loss": float("nan")})
    logbook.samples(20, [Sample("Guten Tag", "Good day", "<b>Good</b>")])
"""
LOG_ONE_STEP = 'logbook.log(20, {"train/loss": 1.5})'


def run_with_canaries(tmp_path: Path, variables: dict[str, str]) -> str:
    """Its output. Its arguments, environment, home and own path contain the word CANARY."""
    home = tmp_path / "CANARY-home"
    home.mkdir()
    python, _, program = wandb_child(tmp_path, LOG_TWO_STEPS)
    script = home / "train.py"
    script.write_text(program)
    command = [python, str(script), "--token=CANARY-argument"]
    variables = variables | {"SECRET": "CANARY-environment", "HOME": str(home)}
    output = run_child(command, environment(tmp_path, variables)).stdout.decode()
    assert list(home.iterdir()) == [script]
    return output.replace("CANARY-console", "")


def files_with_canary(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if b"CANARY" in path.read_bytes()]


def test_offline_run_stores_what_was_logged_and_no_secret(tmp_path: Path):
    output = run_with_canaries(tmp_path, {})
    assert "status: W&B offline, no API key" in output
    assert f"`wandb sync {tmp_path}/run/wandb/offline-run-*-r1`" in output

    stored = stored_run(tmp_path, "offline-run-*-r1")
    run = stored["run"][0]
    assert (run["run_id"], run["project"], run["run_group"]) == ("r1", "translate_ddp", "g1")
    assert run["config"]["update"]["lr"] == 0.5
    assert "host" not in run
    assert {"glob_name": "*", "step_metric": "global_step"}.items() <= stored["metric"][1].items()
    first, second = [record["item"] for record in stored["history"]]
    assert (first["_step"], first["global_step"], first["train/loss"]) == (10, 10, 2.5)
    assert (second["_step"], second["global_step"], second["train/loss"]) == (20, 20, 1.5)
    assert second["validation/loss"] == "NaN"
    [table] = tmp_path.glob(
        "run/wandb/offline-run-*-r1/files/media/table/validation/samples_20_*.table.json"
    )
    assert json.loads(table.read_text())["data"] == [["Guten Tag", "Good day", "<b>Good</b>"]]
    assert files_with_canary(tmp_path / "run") == []


def test_online_run_sends_what_was_logged_and_no_secret(tmp_path: Path, wandb_server: WandbServer):
    output = run_with_canaries(tmp_path, wandb_server.variables)
    assert "status: W&B online (" in output and output.count("W&B") == 1
    first, second = wandb_server.history
    assert (first["_step"], first["global_step"], first["train/loss"]) == (10, 10, 2.5)
    assert (second["_step"], second["global_step"], second["train/loss"]) == (20, 20, 1.5)
    assert math.isnan(second["validation/loss"])
    [table] = [data for name, data in wandb_server.files.items() if name.endswith(".table.json")]
    assert json.loads(table)["data"] == [["Guten Tag", "Good day", "<b>Good</b>"]]
    assert [request for request in wandb_server.received if b"CANARY" in request] == []
    assert files_with_canary(tmp_path / "run") == []
    assert "CANARY" not in output


def test_resumed_run_continues_under_the_same_id_after_its_history(tmp_path: Path):
    (tmp_path / "run").mkdir()
    record = b'{"step": 10}\n'
    size = (tmp_path / "run" / "metrics.jsonl").write_bytes(record)
    offset = LogOffset(size, hashlib.sha256(record).hexdigest())
    history = [(5, {"train/loss": 3.5}), (10, {"train/loss": 2.5})]
    command = wandb_child(tmp_path, LOG_ONE_STEP, run_id="abc1", offset=offset, history=history)
    run_child(command, environment(tmp_path))
    stored = stored_run(tmp_path, "offline-run-*")
    assert (stored["run"][0]["run_id"], stored["run"][0]["resume"]) == ("abc1", True)
    assert stored_steps(stored) == [5, 10, 20]
    assert steps(tmp_path / "run") == [10, 20]


def test_no_prompt_for_a_key_on_a_terminal(tmp_path: Path):
    command = wandb_child(tmp_path, LOG_ONE_STEP, mode="online")
    code, shown = run_on_terminal(command, environment(tmp_path))
    assert code == 0
    [line] = shown.splitlines()
    assert line.startswith("status: W&B offline, no API key")
    assert steps(tmp_path / "run") == [20]


def test_environment_overrides_the_mode_and_disabled_does_not_import_wandb(tmp_path: Path):
    command = wandb_child(tmp_path, 'print("wandb" in sys.modules)', mode="online")
    ended = run_child(command, environment(tmp_path, {"WANDB_MODE": "disabled"}))
    assert ended.stdout == b"status: \nFalse\n"
    assert not (tmp_path / "run" / "wandb").exists()
