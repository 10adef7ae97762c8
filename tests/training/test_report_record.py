"""What whole runs record for their report: also killed, stopped, failed and resumed ones."""

import json
import platform
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from markupsafe import escape

from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import checkpoints, records, validations
from translate_ddp.run_record import RECORD_FILES, read_run
from translate_ddp.runtime.fault_injection import VARIABLE
from translate_ddp.training import report_sink
from translate_ddp.training import run as run_module
from translate_ddp.training.run_info import count_steps


def train(arguments: list[str]) -> None:
    """`train.py`, with a stand-in for the process that writes the page."""
    report_sink.MODULE = "tests.helpers.page_process"
    report_sink.REPORT_END_SECONDS = run_module.RECORD_SECONDS = processes.SECONDS
    report_sink.MAX_TOKENS = 1000  # a tiny model writes bytes that are no text, and many
    processes.run_train(arguments)


def start(run: Run, *flags: str, size: int = 1, fault: str = "") -> processes.Job:
    variables = {VARIABLE: fault} if fault else {}
    return processes.start(train, run.folder, size, variables, [*run.flags, "--report", *flags])


def train_with_page(arguments: list[str]) -> None:
    """`train.py`, which waits for its page as long as that takes."""
    report_sink.REPORT_END_SECONDS = processes.SECONDS
    processes.run_train(arguments)


def page(folder: Path) -> dict[str, Any]:
    """The last event on the page."""
    return json.loads((folder / "report.html").read_text().splitlines()[-1])


@pytest.mark.slow
def test_run_on_two_ranks_is_recorded_once(run: Run):
    output = start(run, size=2).succeed()
    run.assert_uninterrupted(2)
    assert f"report  {run.folder / 'report.html'}, from the first validation on\n" in output
    found, last = read_run(run.folder), records(run.folder)[-1]["step"]
    [launch], [end] = found.launches, found.ends
    assert (launch.step, launch.total_steps, launch.world_size) == (0, last, 2)
    assert [line[:6] for line in launch.ranks] == ["rank 0", "rank 1"]
    assert (launch.preset, launch.lang_src) == ("tiny", "en")
    assert [Path(name).name for name in launch.datasets] == ["train"]
    assert launch.changed["d_model"] == 16 and "model_folder" not in launch.changed
    assert (launch.device, launch.nodes, launch.previous, launch.num_epochs) == ("cpu", 1, 0, 2)
    assert (launch.torch, launch.python) == (torch.__version__, platform.python_version())
    assert f"{launch.parameters:,} parameters" in output and f"{launch.threads} thread" in output
    assert launch.model in output and f"{launch.padding:.1%}" in output
    assert found.validation and found.validation.bleu_signature.startswith("nrefs:1|")
    assert f"{launch.train_pairs:,} training and {launch.validation_pairs} validation" in output
    assert (end.state, end.step, page(run.folder)["state"]) == ("finished", last, "finished")

    assert set(checkpoints(run.folder)) <= {saved.name for saved in found.saved}
    sizes = {saved.name: saved.size for saved in found.saved}
    for name in checkpoints(run.folder):
        assert sizes[name] == (run.folder / name).stat().st_size
    assert [saved.step for saved in found.saved if saved.epoch == 2] == [last]

    assert found.validation is not None and found.validation.step == last
    assert len(found.validation.rows) == launch.validation_pairs
    assert len(found.samples) == len(validations(run.folder, "BLEU")) == 2
    first, second = ([row[:2] for row in sample.rows] for sample in found.samples)
    assert first == second and len(first) == 5
    assert len(found.validation.attention) == 3
    assert found.problems == []


def test_page_of_a_finished_run_has_its_state_and_its_sentences(run: Run):
    processes.start(train_with_page, run.folder, 1, {}, [*run.flags, "--report"]).succeed()
    html = (run.folder / "report.html").read_text()
    assert "<dd>finished</dd>" in html
    for source, reference, _ in read_run(run.folder).samples[-1].rows:
        assert str(escape(source)) in html and str(escape(reference)) in html


@pytest.mark.slow
def test_run_killed_at_a_record_ends_with_the_samples_of_an_undisturbed_one(run: Run):
    straight = run.copy("straight")
    start(straight).succeed()
    start(run, fault=faults.kill("record", time=6)).kill_rest()
    last = records(run.folder)[-1]["time"]
    start(run).succeed()
    run.assert_uninterrupted()
    found, expected = read_run(run.folder), read_run(straight.folder)
    first, second = found.launches
    assert first.step == 0 < second.step and second.previous == last
    assert found.samples == expected.samples and found.validation == expected.validation
    assert [end.state for end in found.ends] == ["finished"]
    assert found.problems == []


@pytest.mark.slow
def test_failure_of_a_rank_is_on_the_last_page(run: Run):
    # The watchdog thread of rank 0 ends its process.
    assert 1 in start(run, size=2, fault=faults.error("batch", time=5, rank=1)).wait()
    [end] = read_run(run.folder).ends
    assert end.state == "failed" and "Rank 1 failed at step 5" in end.reason
    assert page(run.folder) == {"event": "end", **asdict(end)}


def record_in(folder: Path) -> dict[str, bytes]:
    """The content of each file of the record, by its name."""
    return {path.name: path.read_bytes() for name in RECORD_FILES for path in folder.glob(name)}


@pytest.mark.slow
def test_new_run_and_run_that_goes_back_archive_the_record(run: Run):
    start(run).succeed()
    (run.folder / "events.out.tfevents.1").write_bytes(b"TensorBoard")
    before = record_in(run.folder)
    middle = read_run(run.folder).samples[0].step
    start(run, "--preload", "1", "--max_steps", str(middle + 1)).succeed()
    archive = run.folder / "earlier-001"
    assert record_in(archive) == before
    assert [sample.step for sample in read_run(run.folder).samples] == [middle, middle + 1]
    assert len(read_run(run.folder).launches) == 2

    before = record_in(run.folder)
    start(run, "--preload", "", "--max_steps", "2").succeed()
    archive = run.folder / "earlier-002"
    assert record_in(archive) == before
    assert [launch.step for launch in read_run(run.folder).launches] == [0]
    assert [sample.step for sample in read_run(run.folder).samples] == [2]


@pytest.mark.parametrize(
    ("epoch", "step_in_epoch", "global_step", "max_steps", "expected"),
    [(0, 0, 0, 0, 27), (0, 3, 3, 0, 27), (1, 4, 13, 0, 27), (3, 0, 23, 0, 23)]
    + [(1, 4, 30, 0, 44), (0, 0, 0, 10, 10), (1, 4, 12, 10, 12)],
)
def test_steps_of_a_run(
    epoch: int, step_in_epoch: int, global_step: int, max_steps: int, expected: int
):
    # Three epochs of 9 steps. Within epoch 2, 26 steps were done before it: 26 + 18.
    trainer: Any = SimpleNamespace(
        position=SimpleNamespace(epoch=epoch, step_in_epoch=step_in_epoch, global_step=global_step),
        config=SimpleNamespace(num_epochs=3, max_steps=max_steps),
        sampler=SimpleNamespace(plan=range(9)),
    )
    assert count_steps(trainer) == expected
