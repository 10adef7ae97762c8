"""Two torchrun agents with a fixed master address, on this machine."""

from pathlib import Path

import pytest

from tests.helpers.commands import TORCHRUN, background, command
from tests.helpers.processes import SECONDS, free_port
from tests.helpers.runs import assert_same_state, metrics


# Nodes need not start equally many processes.
@pytest.mark.parametrize("processes", [(1, 1), (2, 1)])
def test_static_launch_on_two_nodes_gives_same_weights_as_one_torchrun(
    processes: tuple[int, int], tiny_run: list[str], tmp_path: Path
):
    flags = [*tiny_run, "--num_epochs", "1"]
    # The last bits of a sum depend on the number of threads, by default a share of the node's.
    environment = {"OMP_NUM_THREADS": "1"}
    master = ["--nnodes=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    agents = [
        background(
            [
                *(*TORCHRUN, *master, f"--node_rank={node}", f"--nproc_per_node={count}"),
                *("train.py", *flags, "--model_folder", str(tmp_path / "static")),
            ],
            **environment,
        )
        for node, count in enumerate(processes)
    ]
    outputs = [agent.communicate(timeout=SECONDS)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], outputs
    assert f"ranks  {sum(processes)}, backend gloo" in outputs[0]
    assert "Finished at epoch 1" in outputs[0] and "Finished" not in outputs[1]

    usual = [*TORCHRUN, f"--nproc_per_node={sum(processes)}", "train.py", *flags]
    done = command(*usual, "--model_folder", str(tmp_path / "usual"), **environment)
    assert done.returncode == 0, done.stderr
    assert_same_state(tmp_path / "static", tmp_path / "usual")
    assert metrics(tmp_path / "static") == metrics(tmp_path / "usual")
