"""Every rank enters every collective, in the same order: else some would wait for ever."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import processes, recorder
from tests.helpers.runs import checkpoints


@pytest.mark.slow
def test_ranks_of_two_nodes_make_the_same_calls_in_one_group(tiny_run: list[str], tmp_path: Path):
    disks = [tmp_path / "disk0", tmp_path / "disk1"]

    def calls(
        message: str,
        *flags: str,
        init_from: list[str] | None = None,
        train: Callable[[list[list[str]], str], None] = recorder.train,
    ) -> list[str]:
        """Of all four ranks of a run, which prints `message`; the nodes have separate disks."""
        words = [[*tiny_run, *flags, "--model_folder", str(disk)] for disk in disks]
        for each, file in zip(words, init_from or [], strict=False):
            each += ["--init_from", file]
        variables = {"LOCAL_WORLD_SIZE": "2"}
        job = processes.start(train, tmp_path, 4, variables, words, str(tmp_path))
        assert message in job.succeed()
        files = [tmp_path / f"calls-{rank}.json" for rank in range(4)]
        first, *others = [json.loads(file.read_text()) for file in files]
        for other in others:
            assert other == first
        assert first.count("group") == 1
        return first

    muon = ["--optimizer", "muon", "--batch_tokens", "400"]
    flags = "--max_steps 3 --save_every 2 --validate_on all".split()
    new = calls("starting from scratch", *muon, *flags)
    assert {call.split()[0] for call in new} >= {"broadcast", "allreduce", "allgather"}

    # Only the second node has the checkpoint.
    disks.reverse()
    resumed = calls("on node 1", *muon, "--max_steps", "6", "--gradient_compression", "bf16")
    assert any("bfloat16" in call for call in resumed if "allreduce" in call)
    file = disks[0] / checkpoints(disks[0])[0]
    disks[:] = [tmp_path / "new0", tmp_path / "new1"]
    files = [str(tmp_path / "none"), str(file)]
    calls("New run with the weights", "--max_steps", "3", init_from=files)

    disks[:] = [tmp_path / "gpu0", tmp_path / "gpu1"]
    flags = ["--batch_tokens", "400", "--save_every", "2"]
    calls("on request (SIGTERM), and saved", *flags, train=recorder.train_as_on_gpu)
