"""The image, and pods as Kubeflow's controller starts them; neither needs a cluster."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import faults
from tests.helpers import processes
from tests.helpers.commands import ROOT, TORCHRUN, environment
from tests.helpers.nodes import Agent, Nodes, resume, two_nodes, wait_until_stopped
from tests.helpers.runs import assert_same_run, status
from translate_ddp.runtime.fault_injection import VARIABLE

PORT = "29400"  # of Kubeflow's controller


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", (ROOT / "launch" / "Dockerfile").read_text(), re.M)


def trainjob() -> dict[str, Any]:
    _, job = yaml.safe_load_all((ROOT / "launch" / "trainjob.yaml").read_text())
    return job["spec"]


@pytest.mark.slow
def test_files_that_the_image_copies_suffice_for_its_command(tiny_run: list[str], tmp_path: Path):
    for words in instructions("COPY"):
        *patterns, target = words.split()
        for source in (path for pattern in patterns for path in ROOT.glob(pattern)):
            path = tmp_path / target / ("" if source.is_dir() else source.name)
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, path)
    (command,) = instructions("CMD")
    program, *words = json.loads(command)  # in the exec form, so that signals reach torchrun
    assert program == "torchrun" and int(instructions("USER")[-1]) > 0
    done = subprocess.run(
        [*TORCHRUN, *words, *tiny_run, "--max_steps", "2"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "Finished at epoch 1, step 2" in done.stdout, done.stderr


def start_pods(nodes: Nodes, flags: list[str], folder: Path, **environ: str) -> list[Agent]:
    """The command of the TrainJob on both nodes, with what its controller sets for two pods."""
    trainer = trainjob()["trainer"]
    program, *words = trainer["command"]
    assert program == "torchrun"
    own = [word for word in trainer["args"] if word.startswith("--preempted")]
    environ |= {variable["name"]: variable["value"] for variable in trainer["env"]} | {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": nodes.addresses[0],
        "PET_MASTER_PORT": PORT if nodes.are_linked else str(processes.free_port()),
    }
    command = [sys.executable, "-m", "torch.distributed.run", *words, *own, *flags]
    return [
        nodes.start_agent(node, command, folder, PET_NODE_RANK=str(node), **environ)
        for node in range(trainer["numNodes"])
    ]


@pytest.mark.slow
def test_pods_save_when_one_is_evicted_and_continue_when_all_are_started_again(
    tiny_run: list[str], undisturbed: Path, tmp_path: Path
):
    with two_nodes() as nodes:
        pods = start_pods(nodes, tiny_run, tmp_path, **{VARIABLE: faults.stop_after_save()})
        ranks = [pod.rank() for pod in pods]
        wait_until_stopped(*ranks)
        pods[1].process.send_signal(signal.SIGTERM)
        resume(*ranks)
        # A pod whose command ends with 0 is complete: Kubernetes would not start it again.
        assert [pod.wait() for pod in pods] == [1, 1], pods[0].text
        left = status(tmp_path / "model")
        assert (left["state"], left["reason"]) == ("preempted", "SIGTERM"), pods[0].text
        assert (tmp_path / "model" / left["checkpoint"]).exists()

        again = nodes.train([tiny_run] * 2, tmp_path).succeed()
        assert again.count("Resuming from") == 1
    assert_same_run(tmp_path / "model", undisturbed)
