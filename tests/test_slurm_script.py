"""The Slurm script: what it starts, and when it queues the job again."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.commands import ROOT

Start = Callable[..., list[str]]


@pytest.fixture
def slurm(tmp_path: Path) -> Start:
    """Runs the script. `srun` and `scontrol` record their arguments; `srun` writes `state`."""

    def run(state: str, *flags: str) -> list[str]:
        folder, requests = tmp_path / "model", tmp_path / "requests"
        folder.mkdir(exist_ok=True)
        (folder / "STATUS.json").write_text('{\n "state": "preempted",\n}')  # of an earlier start
        leave = (
            f"""printf '{{\\n "state": "{state}",\\n}}' > {folder}/STATUS.json""" if state else ""
        )
        note = f'printf "%s\\n" "$(basename $0) $*" >> {requests}'
        scripts = {
            "srun": f"#!/bin/sh\n{note}\nsleep 0.1\n{leave}\nexit 1\n",  # file clocks are coarse
            "scontrol": f"#!/bin/sh\n{note}\nprintf 'gpu07\\ngpu08\\n'\n",
        }
        for name, text in scripts.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        variables = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SLURM_JOB_NODELIST": "gpu[07-08]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_GPUS_ON_NODE": "8",
            "SLURM_JOB_ID": "42",
        }
        words = ["bash", "launch/slurm.sh", "--preset", "base", *flags]
        done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, timeout=30)
        assert done.returncode == 1  # that of srun
        return requests.read_text().splitlines()

    return run


def test_slurm_script_starts_torchrun_on_every_node(slurm: Start, tmp_path: Path):
    requests = slurm("finished", "--model_folder", str(tmp_path / "model"))
    (torchrun,) = [line for line in requests if line.startswith("srun ")]
    assert torchrun.startswith("srun torchrun ")
    assert torchrun.endswith(f"train.py --preset base --model_folder {tmp_path / 'model'}")
    words = torchrun.split()
    assert {"--nnodes=2", "--nproc-per-node=8", "--rdzv-endpoint=gpu07:29400"} <= set(words)
    assert "--signals-to-handle=SIGTERM,SIGINT,SIGUSR1" in words


@pytest.mark.parametrize("state", ["preempted", "finished", "failed", ""])
def test_slurm_script_requeues_the_job_if_and_only_if_this_start_was_preempted(
    slurm: Start, tmp_path: Path, state: str
):
    requests = slurm(state, f"--model_folder={tmp_path / 'model'}")
    assert ("scontrol requeue 42" in requests) == (state == "preempted")
