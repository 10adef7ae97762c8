"""A server that implements as much of W&B as a run needs, and the runs that W&B stores."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import pytest

from tests.helpers.children import child

KEY = "CANARYkey" * 5
Behavior = Literal["works", "rejects keys", "hangs", "hangs after init", "shuts down after init"]


class WandbServer(ThreadingHTTPServer):
    """Keeps what it receives. A POST to /continue ends a hang."""

    daemon_threads = True

    def __init__(self, behavior: Behavior) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behavior = behavior
        self.responds = threading.Event()
        if behavior != "hangs":
            self.responds.set()
        self.received: list[bytes] = []  # without the header that has to carry the key
        self.history: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def variables(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.server_port}"
        return {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY}

    def after_init(self) -> None:
        if self.behavior == "shuts down after init":
            self.close()
        elif self.behavior == "hangs after init":
            self.behavior = "works"  # it hangs only once
            self.responds.clear()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.responds.set()
        self.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # of a client that has ended
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    server: WandbServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        del self.headers["Authorization"]
        self.server.received.append(f"{self.requestline}\n{self.headers}".encode() + body)
        if self.path == "/continue":
            self.server.responds.set()
        self.server.responds.wait()
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
            self.server.after_init()
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
            data = {"viewer": None if self.server.behavior == "rejects keys" else account}
        else:
            return {"errors": [{"message": f"unknown operation {operation}"}]}
        return {"data": data}

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def wandb_server(request: pytest.FixtureRequest) -> Iterator[WandbServer]:
    """A server that works, or has the behavior that is the fixture's parameter."""
    with WandbServer(getattr(request, "param", "works")) as server:
        yield server


PREAMBLE = """
    import gc, logging, os, subprocess, sys, time
    from contextlib import suppress
    from urllib.request import urlopen
    from translate_ddp.training import trackers

    def fill(folder):
        with suppress(OSError), open(f"{folder}/filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
"""


def wandb_child(
    tmp_path: Path,
    script: str,
    mode: str = "auto",
    before: str = "",
    bounds: dict[str, float] | None = None,
    **arguments: Any,
) -> list[str]:
    """A child that logs to W&B and prints its status; `bounds` replace constants of the sink."""
    set_bounds = f"vars(trackers).update({bounds or {}!r})"
    before = "\n".join(dedent(part) for part in (PREAMBLE, set_bounds, before))
    script = f'print("status:", tracker.status)\n{dedent(script)}'
    return child(tmp_path, script, mode=mode, before=before, **arguments)


def stored_run(tmp_path: Path, pattern: str) -> dict[str, list[dict[str, Any]]]:
    """The only W&B run of that name in `tmp_path / "run"`, read by W&B's tool: records by type."""
    [folder] = tmp_path.glob(f"run/wandb/{pattern}")
    return read_stored_run(folder)


def read_stored_run(folder: Path) -> dict[str, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(folder)]
    ended = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for line in ended.stdout.splitlines():
        record = json.loads(line)
        found.setdefault(record["type"], []).append(record[record["type"]])
    return found


def stored_steps(stored: dict[str, list[dict[str, Any]]]) -> list[int]:
    """The global steps of the points of that run."""
    return [record["item"]["global_step"] for record in stored["history"]]
