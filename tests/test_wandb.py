"""Whatever happens to Weights & Biases costs a run one warning at most, and never a number.

W&B runs in processes of their own, with a home without an account, and with the server below.
"""

import hashlib
import json
import math
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from translate_ddp.training.wandb_sink import Aside

from tests.helpers import processes
from tests.helpers.children import child, environment, on_terminal, records, run_child
from tests.helpers.runs import assert_same_state, metrics
from translate_ddp.training import wandb_sink
from translate_ddp.training.logbook import Prefix

KEY = "CANARYkey" * 5
pytestmark = pytest.mark.timeout(60)


class Server(ThreadingHTTPServer):
    """As much of W&B's server as a run needs; it keeps what it was sent.

    Its `fate`: it "answers", "knows nobody" whatever the key, is "silent", or as soon as it has
    accepted a run it "dies" or "falls silent". Asked for /speak it answers again.
    """

    daemon_threads = True

    def __init__(self, fate: str) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.fate = fate
        self.prints = threading.Event()
        if fate != "silent":
            self.prints.set()
        self.received: list[bytes] = []  # without the header that has to carry the key
        self.history: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def variables(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.server_port}"
        return {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY}

    def meet_fate(self) -> None:
        fate, self.fate = self.fate, self.fate.removeprefix("falls ")  # it falls only once
        if fate == "dies":
            self.shutdown()
            self.server_close()
        elif fate == "falls silent":
            self.prints.clear()

    def __exit__(self, *_: object) -> None:
        self.prints.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # of a client that left
            super().handle_error(request, client_address)


class Exchange(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        del self.headers["Authorization"]
        self.server.received.append(f"{self.requestline}\n{self.headers}".encode() + body)
        if self.path == "/speak":
            self.server.prints.set()
        self.server.prints.wait()
        operation, answer = "", {}
        if self.path == "/graphql":
            request = json.loads(body)
            operation = request.get("operationName") or request["query"]
            answer = self.graphql(operation, request.get("variables", {}))
        elif self.path.endswith("/file_stream"):
            history = json.loads(body).get("files", {}).get("wandb-history.jsonl", {})
            self.server.history += [json.loads(line) for line in history.get("content", [])]
        elif self.command == "PUT":
            self.server.files[self.path.removeprefix("/upload/")] = body
        if operation == "UpsertBucket":
            self.server.meet_fate()
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST

    def graphql(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        owner = {"id": "1", "name": "somebody"}
        if operation == "UpsertBucket":
            project = {"id": "2", "name": variables["project"], "entity": owner}
            bucket = {"id": "3", "name": variables["name"], "displayName": "", "project": project}
            data = {"upsertBucket": {"bucket": bucket | {"historyLineCount": 0}, "inserted": True}}
        elif operation == "CreateRunFiles":
            url = f"http://127.0.0.1:{self.server.server_port}/upload/"
            files = [{"name": name, "uploadUrl": url + name} for name in variables["files"]]
            data = {"createRunFiles": {"runID": "3", "uploadHeaders": [], "files": files}}
        elif operation == "RunResumeStatus":
            data = {"model": None}
        elif operation == "Viewer":
            account = owner | {"entity": "somebody", "flags": "{}", "teams": {"edges": []}}
            data = {"viewer": None if self.server.fate == "knows nobody" else account}
        else:
            return {"errors": [{"message": "this server knows nothing of that"}]}
        return {"data": data}

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that answers, or has the fate that the test names as the fixture's parameter."""
    with Server(getattr(request, "param", "answers")) as server:
        yield server


PREAMBLE = """
    import gc, logging, os, subprocess, sys, time
    from contextlib import suppress
    from urllib.request import urlopen
    from translate_ddp.training import wandb_sink

    def fill(folder):
        with suppress(OSError), open(f"{folder}/filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
"""


def wandb_child(
    tmp_path: Path, script: str, mode: str = "auto", before: str = "", **bounds: float
) -> list[str]:
    """A process with a logbook for W&B; `bounds` are those of the sink, in seconds."""
    bounds_set = f"vars(wandb_sink).update({bounds!r})"
    status = 'print("status:", logbook.wandb_status)'
    before = "\n".join(dedent(part) for part in (PREAMBLE, bounds_set, before))
    return child(tmp_path, f"{status}\n{dedent(script)}", mode, before)


def inspect(folder: Path) -> dict[str, list[dict]]:
    """A W&B run as W&B's own tool reads it: its records by type."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(folder)]
    ended = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, list[dict]] = {}
    for line in ended.stdout.splitlines():
        record = json.loads(line)
        found.setdefault(record["type"], []).append(record[record["type"]])
    return found


def files_with_canary(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if b"CANARY" in path.read_bytes()]


def steps(folder: Path) -> list[int]:
    return [record["step"] for record in records(folder)]


# A W&B that is well

A_RUN = """
    print("CANARY-console")
    logbook.log(10, {"train/loss": 2.5})
    logbook.log(20, {"train/loss": 1.5})
    logbook.log(20, {"validation/loss": float("nan")})
    logbook.samples(20, [Sample("Guten Tag", "Good day", "<b>Good</b>")])
"""


def a_run_among_secrets(tmp_path: Path, variables: dict[str, str]) -> str:
    """What it printed. There are canaries in its arguments, environment, home and own path."""
    home = tmp_path / "CANARY-home"
    home.mkdir()
    python, _, program = wandb_child(tmp_path, A_RUN)
    script = home / "train.py"
    script.write_text(program)
    command = [python, str(script), "--token=CANARY-argument"]
    variables = variables | {"SECRET": "CANARY-environment", "HOME": str(home)}
    output = run_child(command, environment(tmp_path, variables)).stdout.decode()
    assert list(home.iterdir()) == [script]
    return output.replace("CANARY-console", "")


def test_an_offline_run_holds_what_was_logged_and_no_secret(tmp_path: Path):
    output = a_run_among_secrets(tmp_path, {})
    assert "status: offline, no API key" in output
    assert f"`wandb sync {tmp_path}/run/wandb/offline-run-*-r1`" in output

    [folder] = tmp_path.glob("run/wandb/offline-run-*-r1")
    found = inspect(folder)
    run = found["run"][0]
    assert (run["run_id"], run["project"], run["run_group"]) == ("r1", "translate_ddp", "g1")
    assert run["config"]["update"]["lr"] == 0.5
    assert "host" not in run
    assert {"glob_name": "*", "step_metric": "global_step"}.items() <= found["metric"][1].items()
    first, second = [record["item"] for record in found["history"]]
    assert (first["_step"], first["global_step"], first["train/loss"]) == (10, 10, 2.5)
    assert (second["_step"], second["global_step"], second["train/loss"]) == (20, 20, 1.5)
    assert second["validation/loss"] == "NaN"
    [table] = folder.glob("files/media/table/validation/samples_20_*.table.json")
    assert json.loads(table.read_text())["data"] == [["Guten Tag", "Good day", "<b>Good</b>"]]
    assert files_with_canary(tmp_path / "run") == []


def test_an_online_run_reaches_the_server_with_what_was_logged_and_no_secret(
    tmp_path: Path, server: Server
):
    output = a_run_among_secrets(tmp_path, server.variables)
    assert "status: online (" in output and "W&B" not in output
    first, second = server.history
    assert (first["_step"], first["global_step"], first["train/loss"]) == (10, 10, 2.5)
    assert (second["_step"], second["global_step"], second["train/loss"]) == (20, 20, 1.5)
    assert math.isnan(second["validation/loss"])
    [table] = [data for name, data in server.files.items() if name.endswith(".table.json")]
    assert json.loads(table)["data"] == [["Guten Tag", "Good day", "<b>Good</b>"]]
    assert [request for request in server.received if b"CANARY" in request] == []
    assert files_with_canary(tmp_path / "run") == []
    assert "CANARY" not in output


def test_a_resumed_run_goes_on_under_the_same_id(tmp_path: Path):
    (tmp_path / "run").mkdir()
    record = b'{"step": 10}\n'
    size = (tmp_path / "run" / "metrics.jsonl").write_bytes(record)
    position = Prefix(size, hashlib.sha256(record).hexdigest())
    script = 'logbook.log(20, {"train/loss": 1.5})'
    command = child(tmp_path, script, "auto", run_id="abc123", position=position)
    run_child(command, environment(tmp_path))
    [folder] = tmp_path.glob("run/wandb/offline-run-*")
    run = inspect(folder)["run"][0]
    assert (run["run_id"], run["resume"]) == ("abc123", True)
    assert steps(tmp_path / "run") == [10, 20]


def test_nobody_is_asked_for_a_key_on_a_terminal(tmp_path: Path):
    script = 'logbook.log(10, {"train/loss": 2.5})'
    code, shown = on_terminal(wandb_child(tmp_path, script, mode="online"), environment(tmp_path))
    assert code == 0
    [line] = shown.splitlines()
    assert line.startswith("status: offline, no API key")
    assert steps(tmp_path / "run") == [10]


def test_wandb_mode_in_the_environment_wins_and_disabled_does_not_import_it(tmp_path: Path):
    script = 'print("wandb" in sys.modules)'
    command = wandb_child(tmp_path, script, mode="online")
    ended = run_child(command, environment(tmp_path, {"WANDB_MODE": "disabled"}))
    assert ended.stdout == b"status: disabled\nFalse\n"
    assert not (tmp_path / "run" / "wandb").exists()


# Servers that fail


def test_a_server_out_of_reach_leaves_an_offline_run_and_one_warning(tmp_path: Path):
    assert_offline_after_one_warning(tmp_path, {"WANDB_API_KEY": KEY})


@pytest.mark.parametrize("server", ["silent"], indirect=True)
def test_a_server_that_never_answers_leaves_an_offline_run_and_one_warning(
    tmp_path: Path, server: Server
):
    assert_offline_after_one_warning(tmp_path, server.variables)
    assert server.received


def assert_offline_after_one_warning(tmp_path: Path, variables: dict[str, str]) -> None:
    command = wandb_child(tmp_path, 'logbook.log(10, {"train/loss": 2.5})', INIT_SECONDS=1)
    output = run_child(command, environment(tmp_path, variables)).stdout.decode()
    warning, status = output.splitlines()
    assert warning.startswith("W&B cannot go online") and "CANARY" not in warning
    assert status.startswith("status: offline, not connected; `wandb sync")
    [folder] = tmp_path.glob("run/wandb/offline-run-*-r1")
    assert inspect(folder)["history"][0]["item"]["train/loss"] == 2.5
    assert steps(tmp_path / "run") == [10]


@pytest.mark.parametrize(
    ("server", "upload_seconds", "end", "reason"),
    [
        ("dies", 0.5, "logbook.close()", "Timed out finishing run"),
        ("falls silent", 24, "logbook.close(seconds=0.5)", "no end after 0.5 s"),
    ],
    indirect=["server"],
)
def test_a_server_that_is_lost_midway_costs_one_warning_and_no_record(
    tmp_path: Path, server: Server, upload_seconds: float, end: str, reason: str
):
    script = f"""
        for step in range(10, 60, 10):
            logbook.log(step, {{"train/loss": 1.5}})
        {end}
    """
    command = wandb_child(tmp_path, script, UPLOAD_SECONDS=upload_seconds, TEARDOWN_SECONDS=0.5)
    output = run_child(command, environment(tmp_path, server.variables)).stdout.decode()
    status, warning = output.splitlines()
    assert status.startswith("status: online (")
    assert warning.startswith(f"W&B stopped (TimeoutError: {reason}")
    assert f"`wandb sync {tmp_path}/run/wandb/run-*-r1` uploads what it has" in warning
    assert "CANARY" not in warning
    assert steps(tmp_path / "run") == [10, 20, 30, 40, 50]
    [folder] = tmp_path.glob("run/wandb/run-*-r1")
    logged = [record["item"]["global_step"] for record in inspect(folder)["history"]]
    assert logged == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("server", ["falls silent"], indirect=True)
def test_no_call_waits_for_a_server_that_falls_silent_for_a_while(tmp_path: Path, server: Server):
    # Before it accepts a table, W&B itself waits for an answer, up to a minute.
    script = """
        for step in (10, 20):
            logbook.log(step, {"train/loss": 1.5})
            logbook.samples(step, [Sample("Guten Tag", "Good day", "Good")])
        urlopen(os.environ["WANDB_BASE_URL"] + "/speak")
    """
    command = wandb_child(tmp_path, script)
    output = run_child(command, environment(tmp_path, server.variables)).stdout.decode()
    assert "W&B" not in output
    assert [item["global_step"] for item in server.history] == [10, 20]
    assert all("validation/samples" in item for item in server.history)


@pytest.mark.parametrize("server", ["knows nobody"], indirect=True)
def test_a_table_that_the_server_refuses_costs_nothing_else(tmp_path: Path, server: Server):
    script = """
        for step in (10, 20):
            logbook.log(step, {"train/loss": 1.5})
            logbook.samples(step, [Sample("Guten Tag", "Good day", "Good")])
    """
    command = wandb_child(tmp_path, script)
    output = run_child(command, environment(tmp_path, server.variables)).stdout.decode()
    assert "W&B" not in output
    assert [item["train/loss"] for item in server.history] == [1.5, 1.5]
    assert not any("validation/samples" in item for item in server.history)


# Other troubles


def test_a_wandb_that_does_not_start_costs_one_warning(tmp_path: Path):
    (tmp_path / "wandb.py").write_text("import time; time.sleep(3600)")
    command = wandb_child(
        tmp_path,
        'logbook.log(10, {"train/loss": 2.5})',
        before=f"sys.path.insert(0, {str(tmp_path)!r})",
        START_SECONDS=0.1,
        TEARDOWN_SECONDS=0.1,
    )
    output = run_child(command, environment(tmp_path)).stdout.decode()
    warning, status = output.splitlines()
    assert warning.startswith("W&B stopped (TimeoutError: no end after 0.1 s)")
    assert status == "status: stopped after an error"
    assert steps(tmp_path / "run") == [10]


def test_a_killed_wandb_process_costs_one_warning_and_nothing_recorded(tmp_path: Path):
    # Left alone, W&B writes to disk every 15 s, and its exit hook prints a traceback.
    script = """
        logbook.log(10, {"train/loss": 2.5})
        logbook.log(20, {"train/loss": 1.5})  # W&B closes the books of step 10
        [file] = folder.glob("wandb/offline-run-*/*.wandb")
        patience = time.monotonic() + 10
        while b"train/loss" not in file.read_bytes() and time.monotonic() < patience:
            time.sleep(0.01)
        [process] = [found for found in gc.get_objects() if type(found) is subprocess.Popen]
        process.kill()
        for step in range(30, 80, 10):
            logbook.log(step, {"train/loss": 1.5})
            time.sleep(0.1)
        logbook.samples(80, [Sample("Guten Tag", "Good day", "Good")])
    """
    output = run_child(wandb_child(tmp_path, script), environment(tmp_path)).stdout.decode()
    assert output.count("W&B") == output.count("W&B stopped (") == 1
    assert steps(tmp_path / "run") == list(range(10, 80, 10))
    [folder] = tmp_path.glob("run/wandb/offline-run-*-r1")
    assert [record["item"]["global_step"] for record in inspect(folder)["history"]] == [10]


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "wandb").write_text("a file in its place")
    command = wandb_child(tmp_path, 'logbook.log(10, {"train/loss": 2.5})')
    output = run_child(command, environment(tmp_path)).stdout.decode()
    warning, status = output.splitlines()
    assert warning.startswith("W&B stopped (FileExistsError")
    assert status == "status: stopped after an error"
    assert steps(tmp_path / "run") == [10]


def test_a_folder_that_is_full_from_the_start_costs_one_warning(tmp_path: Path):
    # W&B itself prints a traceback for each line that its log cannot take.
    folder = tmp_path / "run" / "wandb"
    script = 'logbook.log(10, {"train/loss": 2.5})'
    command = wandb_child(tmp_path, script, before=f"fill({str(folder)!r})")
    output = run_child(on_small_disk(folder, command), environment(tmp_path)).stdout.decode()
    warning, status = output.splitlines()
    assert warning.startswith("W&B stopped (OSError: [Errno 28]")
    assert status == "status: stopped after an error"
    assert steps(tmp_path / "run") == [10]


def test_a_folder_that_fills_midway_costs_one_warning_at_once(tmp_path: Path):
    # W&B itself drops what it cannot write, and tells nobody.
    folder = tmp_path / "run" / "wandb"
    script = """
        fill(folder / "wandb")
        logging.getLogger("wandb").warning("x" * 10_000)
        patience = time.monotonic() + 10
        while logbook.wandb_status.startswith("offline") and time.monotonic() < patience:
            logbook.log(10, {"train/loss": 1.5})
            time.sleep(0.1)
        logbook.log(20, {"train/loss": 1.5})
        print("status:", logbook.wandb_status)
    """
    command = on_small_disk(folder, wandb_child(tmp_path, script))
    output = run_child(command, environment(tmp_path)).stdout.decode()
    before, warning, after = output.splitlines()
    assert before.startswith("status: offline")
    assert warning.startswith("W&B stopped (OSError: [Errno 28]")
    assert after == "status: stopped after an error"
    assert set(steps(tmp_path / "run")) == {10, 20}


def on_small_disk(folder: Path, command: list[str]) -> list[str]:
    """The command in a mount namespace of its own, where the folder has room for 300 kB."""
    folder.mkdir(parents=True)
    enter = ["unshare", "--map-root-user", "--mount"]
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    try:
        subprocess.run([*enter, *mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no mount namespace here: {error}")
    return [*enter, "sh", "-c", f'{shlex.join(mount)} && exec "$@"', "sh", *command]


# A whole run


def train(arguments: list[str], bounds: dict[str, float]) -> None:
    for name, seconds in bounds.items():
        setattr(wandb_sink, name, seconds)
    processes.run_train(arguments)


@pytest.mark.timeout(180)
def test_a_server_that_fails_changes_no_number_of_a_run(tiny_run: list[str], tmp_path: Path):
    def begin(name: str, variables: dict[str, str], **bounds: float) -> processes.Job:
        flags = [*tiny_run, "--num_epochs", "1", "--model_folder", str(tmp_path / name)]
        return processes.start(train, tmp_path / f"{name}-said", 1, variables, flags, bounds)

    with Server("silent") as silent, Server("dies") as dying:
        online = {"WANDB_MODE": "online", "HOME": str(tmp_path)}
        undisturbed = begin("undisturbed", {})
        disturbed = {
            "silent": begin("silent", online | silent.variables, INIT_SECONDS=1),
            "dies": begin("dies", online | dying.variables, END_SECONDS=1, TEARDOWN_SECONDS=0.5),
        }
        assert "W&B stopped" not in undisturbed.succeed()
        said = {name: job.succeed() for name, job in disturbed.items()}
    for name, warning in [("silent", "W&B cannot go online ("), ("dies", "W&B stopped (")]:
        warnings = said[name].count("W&B cannot") + said[name].count("W&B stopped")
        assert warnings == said[name].count(warning) == 1
        assert_same_state(tmp_path / "undisturbed", tmp_path / name)
        assert metrics(tmp_path / "undisturbed") == metrics(tmp_path / name)


# The thread of its own


def test_work_that_does_not_end_is_left_behind():
    release = threading.Event()
    aside = Aside()
    aside.soon(release.wait)
    with pytest.raises(TimeoutError, match="no end after"):
        aside.within(0.01, lambda: "an end")
    release.set()


def test_work_that_fails_in_time_fails_as_itself_and_is_the_last():
    aside = Aside()
    with pytest.raises(ZeroDivisionError):
        aside.within(60, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        aside.within(60, lambda: 1)
