"""Code in a child process, with a terminal or without, away from accounts and settings."""

import errno
import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from textwrap import dedent

from tests.helpers.commands import ROOT


def child(
    tmp_path: Path, script: str, mode: str = "disabled", before: str = "", **arguments: object
) -> list[str]:
    """The command of a process that opens a logbook in `tmp_path / "run"`, then does `script`.

    `before` comes before the opening.
    """
    arguments = {"run_id": "r1", "about": {"lr": 0.5}, "position": None} | arguments
    imports = """
        from pathlib import Path
        from translate_ddp.training.logbook import Logbook, LogbookConfig, Prefix, Sample
    """
    opening = f"""
        folder = Path({str(tmp_path / "run")!r})
        config = LogbookConfig(wandb_mode={mode!r}, wandb_group="g1")
        logbook = Logbook(config, folder, active=True, **{arguments!r})
    """
    parts = [imports, before, opening, script, "logbook.close()"]
    return [sys.executable, "-c", "\n".join(dedent(part) for part in parts)]


def environment(tmp_path: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """No W&B settings, a home without an account, and no server but one that a test starts."""
    prefixes = ("PYTHON", "WANDB_", "NETRC")
    others = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    ours = {
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
        "WANDB_BASE_URL": "http://127.0.0.1:9",
    }
    return others | ours | (more or {})


def run_child(
    command: list[str], environment: dict[str, str]
) -> "subprocess.CompletedProcess[bytes]":
    ended = subprocess.run(command, env=environment, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b""), ended.stderr.decode()
    return ended


def on_terminal(
    command: list[str], environment: dict[str, str], columns: int = 100
) -> tuple[int, str]:
    """The exit code and all that was shown on a terminal at which nobody sits."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (25, columns))
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = bytearray()
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError as error:  # how Linux reports that the other end is closed
        assert error.errno == errno.EIO
    finally:
        os.close(ours)
    return process.wait(), shown.decode()


def records(folder: Path) -> list[dict]:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]
