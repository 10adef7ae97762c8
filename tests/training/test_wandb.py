"""Weights & Biases receives what a run logs, and no secret; a failure costs one message at most."""

import hashlib
import json
import math
import shlex
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from tests.helpers.children import environment, run_child, run_on_terminal
from tests.helpers.runs import steps
from tests.helpers.wandb_server import WandbServer, stored_run, stored_steps, wandb_child
from translate_ddp.settings import WandbMode
from translate_ddp.training.state import LogOffset
from translate_ddp.training.trackers import resolve_mode

pytestmark = pytest.mark.timeout(60)
LOG_TWO_STEPS = """
    print("CANARY-console")
    logbook.log(10, {"train/loss": 2.5})
    logbook.log(20, {"train/loss": 1.5})
    logbook.log(20, {"validation/loss": float("nan")})
    logbook.validated(20, [Sample("Guten Tag", "Good day", "<b>Good</b>")])
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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("flag", "variables", "expected"),
    [
        ("auto", {}, "auto"),
        ("auto", {"WANDB_MODE": "offline"}, "offline"),
        ("auto", {"WANDB_MODE": "dryrun"}, "offline"),
        ("auto", {"WANDB_MODE": "online", "WANDB_DISABLED": "True"}, "disabled"),
        ("auto", {"WANDB_MODE": "online", "WANDB_DISABLED": "false"}, "online"),
        ("online", {"WANDB_MODE": "disabled", "WANDB_DISABLED": "1"}, "online"),
        ("disabled", {"WANDB_MODE": "online"}, "disabled"),
    ],
)
def test_flag_of_the_mode_overrides_the_environment(
    monkeypatch: pytest.MonkeyPatch, flag: WandbMode, variables: dict[str, str], expected: str
):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert resolve_mode(flag) == expected


@pytest.mark.slow
def test_resumed_run_has_the_same_id_and_variables_count_unless_a_flag_is_given(tmp_path: Path):
    (tmp_path / "run").mkdir()
    record = b'{"step": 10}\n'
    size = (tmp_path / "run" / "metrics.jsonl").write_bytes(record)
    offset = LogOffset(size, hashlib.sha256(record).hexdigest())
    variables = {"WANDB_PROJECT": "own", "WANDB_RUN_GROUP": "own", "WANDB_NAME": "first"}
    variables["WANDB_DIR"] = str(tmp_path / "other" / "run")
    command = wandb_child(tmp_path, LOG_ONE_STEP, run_id="abc1", offset=offset)
    output = run_child(command, environment(tmp_path, variables)).stdout.decode()
    assert f"`wandb sync {tmp_path}/other/run/wandb/offline-run-*-abc1`" in output
    stored = stored_run(tmp_path / "other", "offline-run-*-abc1")
    run = stored["run"][0]
    assert (run["run_id"], run["resume"]) == ("abc1", True)
    # The flag sets the group.
    assert (run["project"], run["run_group"], run["display_name"]) == ("own", "g1", "first")
    assert stored_steps(stored) == [20] and steps(tmp_path / "run") == [10, 20]


def test_disabled_wandb_is_not_imported(tmp_path: Path):
    command = wandb_child(tmp_path, 'print("wandb" in sys.modules)')
    ended = run_child(command, environment(tmp_path, {"WANDB_MODE": "disabled"}))
    assert ended.stdout == b"status: \nFalse\n"
    assert not (tmp_path / "run" / "wandb").exists()


LOG_TWO_SAMPLES = """
    for step in (10, 20):
        logbook.log(step, {"train/loss": 1.5})
        logbook.validated(step, [Sample("Guten Tag", "Good day", "Good")])
"""


@pytest.mark.slow
@pytest.mark.parametrize("wandb_server", ["hangs"], indirect=True)
def test_server_that_never_responds_gives_an_offline_run_and_one_message(
    tmp_path: Path, wandb_server: WandbServer
):
    command = wandb_child(tmp_path, LOG_ONE_STEP, bounds={"INIT_SECONDS": 1})
    output = run_child(command, environment(tmp_path, wandb_server.variables)).stdout.decode()
    assert wandb_server.received
    message, status = output.splitlines()
    assert message.startswith("W&B cannot go online") and "CANARY" not in message
    assert status.startswith("status: W&B offline, not connected; `wandb sync")
    stored = stored_run(tmp_path, "offline-run-*-r1")
    assert stored["history"][0]["item"]["train/loss"] == 1.5
    assert steps(tmp_path / "run") == [20]


@pytest.mark.slow
@pytest.mark.parametrize("wandb_server", ["shuts down after init"], indirect=True)
def test_server_lost_during_the_run_costs_one_message_and_no_record(
    tmp_path: Path, wandb_server: WandbServer
):
    script = """
        for step in range(10, 60, 10):
            logbook.log(step, {"train/loss": 1.5})
    """
    bounds = {"WANDB_UPLOAD_SECONDS": 0.5, "TEARDOWN_SECONDS": 0.5}
    command = wandb_child(tmp_path, script, bounds=bounds)
    output = run_child(command, environment(tmp_path, wandb_server.variables)).stdout.decode()
    status, message = output.splitlines()
    assert status.startswith("status: W&B online (")
    assert message.startswith("W&B stopped (TimeoutError: Timed out finishing run")
    assert f"`wandb sync {tmp_path}/run/wandb/run-*-r1` uploads its records" in message
    assert "CANARY" not in message
    assert steps(tmp_path / "run") == [10, 20, 30, 40, 50]
    assert stored_steps(stored_run(tmp_path, "run-*-r1")) == [10, 20, 30, 40, 50]


CONTINUE = 'urlopen(os.environ["WANDB_BASE_URL"] + "/continue")'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wandb_server", "end", "has_tables"),
    # Before it accepts a table, W&B itself waits for a response, up to a minute.
    [("hangs after init", CONTINUE, True), ("rejects keys", "", False)],
    indirect=["wandb_server"],
)
def test_server_that_hangs_for_a_while_or_rejects_tables_costs_no_scalar(
    tmp_path: Path, wandb_server: WandbServer, end: str, has_tables: bool
):
    command = wandb_child(tmp_path, dedent(LOG_TWO_SAMPLES) + end)
    output = run_child(command, environment(tmp_path, wandb_server.variables)).stdout.decode()
    assert output.count("W&B") == output.count("status: W&B online") == 1
    assert [item["train/loss"] for item in wandb_server.history] == [1.5, 1.5]
    tables = ["validation/samples" in item for item in wandb_server.history]
    assert tables == [has_tables] * 2


HANGING_WANDB = """
    Path("{0}/wandb.py").write_text("import time; time.sleep(3600)")
    sys.path.insert(0, "{0}")
    trackers.START_SECONDS = trackers.TEARDOWN_SECONDS = 0.1
"""


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (HANGING_WANDB, "TimeoutError: no result after 0.1 s)"),
        ("Path('{0}/run').mkdir(); Path('{0}/run/wandb').touch()", "FileExistsError"),
        # W&B itself prints a traceback for each line that its log cannot take.
        ("fill('{0}/run/wandb')", "OSError: [Errno 28]"),
    ],
)
def test_wandb_that_does_not_start_costs_one_message(tmp_path: Path, before: str, reason: str):
    command = wandb_child(tmp_path, LOG_ONE_STEP, before=before.format(tmp_path))
    if "fill" in before:
        command = on_small_disk(tmp_path / "run" / "wandb", command)
    output = run_child(command, environment(tmp_path)).stdout.decode()
    message, status = output.splitlines()
    assert message.startswith(f"W&B stopped ({reason}") and status == "status: "
    assert steps(tmp_path / "run") == [20]


@pytest.mark.slow
def test_killed_wandb_process_costs_one_message_and_nothing_that_was_stored(tmp_path: Path):
    # On a terminal, where W&B would ask for a key. By default it writes to disk every 15 s, and its
    # exit hook prints a traceback.
    script = """
        logbook.log(10, {"train/loss": 2.5})
        logbook.log(20, {"train/loss": 1.5})  # now W&B writes step 10
        [file] = folder.glob("wandb/offline-run-*/*.wandb")
        deadline = time.monotonic() + 120
        while b"train/loss" not in file.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        [process] = [found for found in gc.get_objects() if type(found) is subprocess.Popen]
        process.kill()
        for step in range(30, 80, 10):
            logbook.log(step, {"train/loss": 1.5})
            time.sleep(0.1)
        logbook.validated(80, [Sample("Guten Tag", "Good day", "Good")])
    """
    command = wandb_child(tmp_path, script, mode="online")
    code, output = run_on_terminal(command, environment(tmp_path))
    status, *lines = output.splitlines()
    assert code == 0 and status.startswith("status: W&B offline, no API key")
    messages = [line for line in lines if "W&B" in line]
    assert len(messages) == 1 and messages[0].startswith("W&B stopped (")
    assert steps(tmp_path / "run") == list(range(10, 80, 10))
    assert stored_steps(stored_run(tmp_path, "offline-run-*-r1")) == [10]


@pytest.mark.slow
def test_folder_that_fills_during_the_run_costs_one_message_at_once(tmp_path: Path):
    # W&B itself drops what it cannot write, without an error.
    folder = tmp_path / "run" / "wandb"
    script = """
        fill(folder / "wandb")
        logging.getLogger("wandb").warning("x" * 10_000)
        deadline = time.monotonic() + 120
        while tracker.status and time.monotonic() < deadline:
            logbook.log(10, {"train/loss": 1.5})
            time.sleep(0.1)
        logbook.log(20, {"train/loss": 1.5})
        print("status:", tracker.status)
    """
    command = on_small_disk(folder, wandb_child(tmp_path, script))
    output = run_child(command, environment(tmp_path)).stdout.decode()
    before, message, after = output.splitlines()
    assert before.startswith("status: W&B offline")
    assert message.startswith("W&B stopped (OSError: [Errno 28]")
    assert after == "status: "
    assert set(steps(tmp_path / "run")) == {10, 20}


def on_small_disk(folder: Path, command: list[str]) -> list[str]:
    """The command in a mount namespace of its own, where the folder has room for 300 kB."""
    folder.mkdir(parents=True)
    enter = ["unshare", "--map-root-user", "--mount"]
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    try:
        subprocess.run([*enter, *mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no mount namespace: {error}")
    return [*enter, "sh", "-c", f'{shlex.join(mount)} && exec "$@"', "sh", *command]
