"""The benchmarks' command lines, their shared parts, and the formulas behind their figures."""

import importlib
import json
import pkgutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import benchmarks
from benchmarks import common, rounds
from benchmarks.common import Failed
from benchmarks.gpu.case import Setup
from benchmarks.gpu.correctness import compared
from benchmarks.gpu.traces import covered
from benchmarks.gpu.training import one_micro_batch
from benchmarks.random_pairs import EQUAL, random_pairs
from benchmarks.report import Row, write_report
from benchmarks.training import best_peer
from benchmarks.workbench import open_training
from translate_ddp.data.dataset import Lengths
from translate_ddp.runtime.world import World

COMMANDS = "gpu.__main__ training decoding demo serving languages preparation".split()
PEERS = ("ctranslate2", "eole", "pyonmttok", "transformers")


def test_every_module_without_a_peer_imports():
    found = pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    for name in (module.name for module in found):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert error.name is not None and error.name.partition(".")[0] in PEERS, name


@pytest.mark.parametrize("name", COMMANDS)
def test_command_prints_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for peer in PEERS:
        monkeypatch.setitem(sys.modules, peer, None)  # importing it would fail
    monkeypatch.setattr(sys, "argv", ["benchmark", "--help"])
    with pytest.raises(SystemExit) as exit_code:
        importlib.import_module(f"benchmarks.{name}").main()
    assert exit_code.value.code == 0
    assert "--results" in capsys.readouterr().out


def test_results_path_that_is_a_file_gives_one_message_and_exit_code_2(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("")
    command = [sys.executable, "-m", "benchmarks.gpu", "--cpu", "--results", str(file)]
    done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"error: Cannot write to {file}: File exists. Choose another folder.\n"


def test_rounds_are_interleaved_and_a_failed_contestant_is_not_repeated():
    calls: list[str] = []

    def measure(name: str, turn: int) -> dict[str, Any]:
        calls.append(f"{name}{turn}")
        if name == "b":
            raise Failed("no result")
        return {"seconds": len(calls)}

    outcomes = rounds.interleave({name: partial(measure, name) for name in "abc"}, 3)
    assert calls == ["a0", "b0", "c0", "a1", "c1", "a2", "c2"]
    assert outcomes["b"].failure == "no result" and not outcomes["b"].rounds
    assert outcomes["a"].all("seconds") == [1, 4, 6]
    found = rounds.rows(outcomes, "seconds", "s", lambda name, _: {"label": name})
    assert found[0] == Row("a", {"s": 4, "least to most": "1 to 6", "label": "a"})
    assert found[1] == Row("b", failure="no result")


def test_result_of_a_contestant_is_the_last_line_of_its_output():
    program = "print('warm-up'); print('{\"seconds\": 2}\\n\\n')"
    found = rounds.run_once([sys.executable, "-c", program], timeout=60)
    assert found["seconds"] == 2 and found["peak_rss_mib"] >= 0


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('out of paper')", "out of paper"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('done')", "not a JSON object"),
        ("import time; time.sleep(60)", "longer than 1 s"),
    ],
)
def test_contestant_without_result_fails_with_a_reason(program: str, reason: str):
    with pytest.raises(Failed, match=reason):
        rounds.run_once([sys.executable, "-c", program], timeout=1 if "sleep" in program else 60)


def test_report_is_written_as_json_and_markdown(tmp_path: Path):
    rows = [Row("a", {"x": 1.0}), Row("b", failure="reason")]
    write_report("r", "Title", rows, facts={"cpu": "c"}, raw=[1], folder=tmp_path)
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["rows"][0] == {"label": "a", "values": {"x": 1.0}, "failure": ""}
    assert content["facts"] == {"cpu": "c"} and content["raw"] == [1]
    text = (tmp_path / "r.md").read_text()
    assert "| a | 1 |" in text and "b failed: reason" in text and "Measured on: cpu: c." in text


def test_best_peer_of_bf16_may_be_in_fp32():
    ours, fp32, bf16 = "translate_ddp, bf16, 1 x 2", "p, fp32, 1 x 2", "p, bf16, 1 x 2"
    assert best_peer(ours, {ours: 9.0, fp32: 5.0, bf16: 4.0}) == 5.0
    assert best_peer("translate_ddp, fp32, 1 x 2", {ours: 9.0, bf16: 4.0}) is None


@pytest.mark.slow
def test_one_micro_batch_has_exactly_these_target_positions(tmp_path: Path):
    setup = Setup(cpu=True, deadline=0, folder=tmp_path)
    flags = setup.flags("base", batch_tokens=816, max_tokens=816)
    data = random_pairs(2_000, 500, EQUAL)
    with open_training(flags, data, World()) as training:
        rows = next(one_micro_batch(training))
    lengths = Lengths.of(data.train.take(rows))
    assert lengths.target.sum() == lengths.source.sum() == len(rows) * lengths.longest_side.max()
    assert lengths.target.sum() == 816


def test_losses_unlike_those_of_a_cpu_are_a_failure():
    of_cpu = [8.0, 7.0, 5.0]
    found = compared([8.0, 7.0007, 5.0], of_cpu, is_exact=False)
    assert found.values["largest difference"] == "1.0e-04"
    compared([8.0, 7.0006, 5.0], of_cpu, is_exact=True)
    for wrong in (7.0008, float("nan")):
        with pytest.raises(ValueError, match="losses differ"):
            compared([8.0, wrong, 5.0], of_cpu, is_exact=True)


def test_busy_time_counts_overlapping_kernels_once():
    assert covered([(5, 6), (0, 2), (1, 3), (1.5, 2)]) == 4
