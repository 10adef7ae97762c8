"""Ranks that were started with different settings."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.nodes import two_nodes
from tests.helpers.processes import run_train, start
from tests.helpers.runs import checkpoints
from translate_ddp.console import rank_names
from translate_ddp.errors import UserError
from translate_ddp.modeling import kernels
from translate_ddp.settings import Config
from translate_ddp.training.identity import (
    check_same_settings,
    describe_differences,
    without_path,
)


def test_difference_names_setting_values_and_ranks():
    found = [{"lr": lr, "seed": 0} for lr in (0.1, 0.1, 0.2, 0.1)]
    assert describe_differences(found) == ["lr: 0.1 on ranks 0, 1, 3; 0.2 on rank 2"]
    found = [{"seed": seed} for seed in (0, *[1] * 127)]
    assert describe_differences(found) == ["seed: 0 on rank 0; 1 on ranks 1 to 127"]
    assert describe_differences(found[1:]) == []


def test_nodes_with_different_flags_train_nothing(tiny_run: list[str], tmp_path: Path):
    others = [*tiny_run, "--batch_tokens", "120", "--dropout", "0.5"]
    with two_nodes() as nodes:
        output = nodes.train([tiny_run, others], tmp_path).fail()
    assert output.count("error: ") == 1, output
    assert "batch_tokens: " in output and "120 on rank 1" in output
    assert "dropout: 0.1 on rank 0; 0.5 on rank 1" in output
    assert not checkpoints(tmp_path / "model")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_ranks_with_another_version_of_a_library_are_an_error(
    library: str, monkeypatch: pytest.MonkeyPatch
):
    class Ranks:
        found: list[Any] = []

        def gather(self, values: Any) -> list[Any]:
            self.found.append(values)
            return self.found

    ranks: Any = Ranks()
    check_same_settings(Config(), ranks)
    monkeypatch.setattr(f"{library}.__version__", "1.0")
    with pytest.raises(UserError, match=r"version of \w+: .* on rank 0; 1\.0 on rank 1"):
        check_same_settings(Config(), ranks)


def test_preload_may_differ_in_the_path_only():
    given = "", "latest", "3", "best", "weights/tmodel.pt", "disk0/tmodel.pt", "/disk1/other.pt"
    assert [*map(without_path, given)] == ["''", "latest", "3", "best", *["a file"] * 3]


def train_with_bf16_on_rank_0(flags: list[str]) -> None:
    kernels.has_bf16 = lambda device: os.environ["RANK"] == "0"
    run_train(flags)


def test_ranks_of_different_processors_train_together_in_fp32(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--precision", "auto", "--optimizer", "muon", "--max_steps", "2"]
    flags += ["--model_folder", str(tmp_path / "model")]
    output = start(train_with_bf16_on_rank_0, tmp_path, 2, None, flags).succeed()
    assert "layers compute in fp32" in output
    assert "Not all ranks have bf16, so all of them compute in fp32." in output


def test_names_of_ranks():
    assert rank_names([3]) == "rank 3"
    assert rank_names([1, 2]) == "ranks 1, 2"
    assert rank_names([1, 2, 3]) == "ranks 1 to 3"
    assert rank_names(list(range(0, 80, 2))).endswith("28, 30 and others")
