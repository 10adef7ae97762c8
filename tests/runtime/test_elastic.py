"""A run whose number of nodes changes while torchrun keeps it going."""

import shutil
from pathlib import Path

from tests.helpers.nodes import Agent, resume, state_of, two_nodes
from tests.helpers.processes import wait_until
from tests.helpers.runs import assert_same_run


def are_stopped(agents: list[Agent]) -> bool:
    return all(state_of(agent.rank()) == "T" for agent in agents)


def test_remaining_node_continues_like_one_process_from_the_same_checkpoint(
    tiny_run: list[str], tmp_path: Path
):
    folder, copy = tmp_path / "model", tmp_path / "copy"
    with two_nodes() as nodes:
        agents = nodes.torchrun(
            [tiny_run] * 2,
            tmp_path,
            nnodes="1:2",
            options=["--max-restarts=3"],
            TRANSLATE_DDP_FAULT="batch:6=stop",
        )
        wait_until(lambda: are_stopped(agents), lambda: agents[0].text)
        shutil.copytree(folder, copy)
        agents[1].kill(with_rank=True)
        resume(agents[0].rank())
        assert agents[0].wait() == 0, agents[0].text
        assert "ranks  1" in agents[0].text and agents[0].text.count("Resuming from") == 1

        output = nodes.train([[*tiny_run, "--model_folder", str(copy)]], tmp_path).succeed()
        assert "Resuming from" in output
    assert_same_run(folder, copy)
