"""Other systems than Linux, simulated: macOS trains on the CPU, Windows ends with a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.commands import ROOT, environment
from translate_ddp.runtime import cpus


@pytest.mark.parametrize("program", ["run_path('train.py'", "run_module('translate_ddp'"])
def test_windows_ends_with_a_message_that_names_wsl(program: str):
    lines = [
        "import runpy, signal, sys",
        "sys.platform = 'win32'",
        "sys.modules['fcntl'] = None",
        "del signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2",
        f"runpy.{program}, run_name='__main__')",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Windows is not supported") and "WSL" in done.stderr
    assert done.stderr.count("\n") == 1


def train_without_what_only_linux_has(flags: list[str]) -> None:
    sys.platform = "darwin"
    del os.sched_getaffinity
    processes.run_train(flags)


def test_macos_trains_on_the_cpu(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--max_steps", "2"]
    job = processes.start(train_without_what_only_linux_has, tmp_path, 2, None, flags)
    assert "Finished at epoch 1, step 2" in job.succeed()


def test_cores_without_an_affinity_mask_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(cpus, "cpu_quotas", lambda: [])
    assert cpus.usable_cores() == 6
