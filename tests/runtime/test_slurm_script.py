"""launch/slurm.sh, with commands of Slurm that record their arguments."""

import os
import runpy
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing import SignalException

from tests.helpers.commands import ROOT

Script = Callable[..., list[str]]
STOPPED = SignalException("Process 7 got signal: 10", signal.SIGUSR1)
EARLIER = '{\n "state": "preempted",\n "pid": 1\n}\n'


@pytest.fixture
def slurm(tmp_path: Path) -> Script:
    """Runs the script and returns the commands that it has called; `srun` writes `state`."""

    def run(
        state: str, *flags: str, code: int = 1, saves: bool = False, **variables: str
    ) -> list[str]:
        folder, requests = tmp_path / "model", tmp_path / "requests"
        folder.mkdir()
        (folder / "STATUS.json").write_text(EARLIER)  # of an earlier start
        (folder / "tmodel_step_00000004-0123.pt").touch()
        content = EARLIER.replace("preempted", state).replace("1", "2")
        leave = f"printf '%s' '{content}' > {folder}/STATUS.json" if state else ":"
        if saves:
            leave += f"\ntouch {folder}/tmodel_step_00000008-4567.pt"
        note = f'printf "%s\\n" "$(basename $0) $*" >> {requests}'
        scripts = {
            "srun": f"#!/bin/sh\n{note}\n{leave}\nexit 1\n",
            "scontrol": f"#!/bin/sh\n{note}\nprintf 'gpu07\\ngpu08\\n'\n",
        }
        for name, text in scripts.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        variables |= {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SLURM_JOB_NODELIST": "gpu[07-08]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_GPUS_ON_NODE": "8",
            "SLURM_JOB_ID": "42",
        }
        words = ["bash", "launch/slurm.sh", "--preset", "base", *flags]
        done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, timeout=30)
        assert done.returncode == code, done.stderr
        return requests.read_text().splitlines()

    return run


def test_script_passes_the_cpus_of_the_job_to_srun(slurm: Script):
    requests = slurm("", SLURM_CPUS_PER_TASK="6")
    assert any(line.startswith("srun --cpus-per-task=6 ") for line in requests)


@pytest.mark.parametrize("state", ["preempted", "finished", "lost", "failed", "running", ""])
@pytest.mark.parametrize("saves", [False, True])
def test_job_is_queued_again_if_it_was_preempted_or_lost_a_process_after_it_had_saved(
    slurm: Script, tmp_path: Path, state: str, saves: bool
):
    # Without a state, STATUS.json is from an earlier start, which was preempted.
    again = state == "preempted" or (state == "lost" and saves)
    requests = slurm(
        state, f"--model_folder={tmp_path / 'model'}", code=0 if again else 1, saves=saves
    )
    assert ("scontrol requeue 42" in requests) == again


@pytest.mark.parametrize("error", [STOPPED, ValueError()])
def test_torchrun_ends_after_a_signal_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def fail() -> None:
        raise error

    monkeypatch.setattr("torch.distributed.run.main", fail)
    with pytest.raises(SystemExit if isinstance(error, SignalException) else ValueError) as raised:
        runpy.run_path(str(ROOT / "launch/torchrun.py"), run_name="__main__")
    if isinstance(raised.value, SystemExit):
        assert raised.value.code == "torchrun: Process 7 got signal: 10"
