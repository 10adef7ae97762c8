"""torchrun on one node and on two: a run that it disturbs ends like any other."""

import shutil
from pathlib import Path

import pytest

from tests import faults
from tests.helpers.commands import TORCHRUN, background
from tests.helpers.faults import Run
from tests.helpers.nodes import resume, state_of, two_nodes, wait_until_stopped
from tests.helpers.options import slow
from tests.helpers.processes import SECONDS, children_of, wait_until
from tests.helpers.runs import assert_same_run
from translate_ddp.runtime.fault_injection import VARIABLE


@pytest.mark.slow
def test_run_whose_torchrun_was_killed_continues_like_an_uninterrupted_one(run: Run):
    words = [*TORCHRUN, "--nproc_per_node=2", "train.py", *run.flags]
    job = background(words, **{VARIABLE: faults.stop_after_save()})
    wait_until(lambda: job.poll() is not None or len(children_of(job.pid)) == 2)
    ranks = children_of(job.pid)
    wait_until_stopped(*ranks)
    job.kill()
    resume(*ranks)
    output, _ = job.communicate(timeout=SECONDS)
    wait_until(lambda: all(state_of(rank) in "Z-" for rank in ranks))
    reason = f"torchrun (process {job.pid}) has exited"
    assert (run.status["state"], run.status["reason"]) == ("preempted", reason), output
    place = f"epoch {run.status['epoch']}, step {run.status['step']}"
    assert f"Stopped at {place}, on request ({reason}), and saved, after " in output
    assert ". The same command resumes from the last checkpoint.\n" in output
    run.start(size=2).succeed()
    run.assert_uninterrupted(2)


@pytest.mark.parametrize("ranks", [1, *slow(2)])
def test_run_that_torchrun_restarted_ends_like_an_uninterrupted_one(run: Run, ranks: int):
    # A restart resumes from the latest checkpoint, whatever --preload is. And torchrun's store
    # still holds the results of the first start, which must not be read again.
    words = [*TORCHRUN, f"--nproc_per_node={ranks}", "--max-restarts=1", "train.py", *run.flags]
    job = background(
        [*words, "--preload", ""], **{VARIABLE: faults.kill("gradients", time=7, rank=ranks - 1)}
    )
    output, _ = job.communicate(timeout=SECONDS)
    assert job.returncode == 0 and output.count("Resuming from") == 1, output
    assert not list(run.folder.glob("earlier-*"))
    run.assert_uninterrupted(ranks)


@pytest.mark.slow
def test_remaining_node_continues_like_one_process_from_the_same_checkpoint(
    tiny_run: list[str], tmp_path: Path
):
    folder, copy = tmp_path / "model", tmp_path / "copy"
    with two_nodes() as nodes:
        fault = faults.stop_after_save()
        agents = nodes.torchrun(tiny_run, tmp_path, TRANSLATE_DDP_FAULT=fault)
        wait_until(lambda: all(state_of(a.rank()) == "T" for a in agents), lambda: agents[0].text)
        shutil.copytree(folder, copy)
        agents[1].kill()
        resume(agents[0].rank())
        assert agents[0].wait() == 0, agents[0].text
        assert "ranks  1" in agents[0].text and agents[0].text.count("Resuming from") == 1

        output = nodes.train([[*tiny_run, "--model_folder", str(copy)]], tmp_path).succeed()
        assert "Resuming from" in output
    assert_same_run(folder, copy)
