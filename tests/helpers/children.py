"""Code in a child process, with or without a terminal, without accounts and W&B settings."""

import errno
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from textwrap import dedent

from tests.helpers.commands import ROOT
from translate_ddp.training.state import LogOffset

IMPORTS = """
    from pathlib import Path
    from translate_ddp.settings import LogbookConfig
    from translate_ddp.training.logbook import ConsoleSink, JsonlSink, Logbook, Sample, Sink
    from translate_ddp.training.trackers import chosen_trackers
    from translate_ddp.training.state import LogOffset
"""


def child(
    tmp_path: Path,
    script: str,
    mode: str = "disabled",
    tensorboard: bool = False,
    before: str = "",
    run_id: str = "r1",
    offset: LogOffset | None = None,
    wandb_project: str = "",
) -> list[str]:
    """The command of a process that opens a logbook in `tmp_path / "run"`, then runs `script`.

    The logbook has the console, metrics.jsonl and the `tracker`: W&B in this mode, or TensorBoard.
    `before` runs before it is opened.
    """
    settings = f"wandb_mode={mode!r}, wandb_group='g1', tensorboard={tensorboard}"
    settings += f", wandb_project={wandb_project!r}"
    opening = f"""
        folder = Path({str(tmp_path / "run")!r})
        logbook = Logbook()
        logbook.sinks += [ConsoleSink(), JsonlSink(folder, {offset!r}, logbook.message)]
        settings, tracker = LogbookConfig({settings}), Sink()
        for kind in chosen_trackers(settings):
            tracker = kind(settings, folder, {run_id!r}, 0, {{"lr": 0.5}}, logbook.message)
            logbook.sinks.append(tracker)
    """
    parts = [IMPORTS, before, opening, script, "logbook.close()"]
    return [sys.executable, "-c", "\n".join(dedent(part) for part in parts)]


def environment(tmp_path: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """No settings of trackers, a home without an account, and no server unless a test starts it."""
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
    """Run the command. It must end with exit code 0 and print nothing on stderr."""
    ended = subprocess.run(command, env=environment, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b""), ended.stderr.decode()
    return ended


def run_on_terminal(
    command: list[str], environment: dict[str, str], columns: int = 100
) -> tuple[int, str]:
    """The exit code, and everything that was printed on a terminal without input."""
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
