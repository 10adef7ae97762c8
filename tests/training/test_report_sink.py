"""The record of a run: what the sink writes is what is read; its process never delays a run."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.nodes import state_of
from tests.helpers.page_process import UNKNOWN
from tests.helpers.processes import SECONDS, wait_until
from translate_ddp.run_record import Attention, End, LaunchFacts, Notice, Saved, read_run
from translate_ddp.training import report_sink
from translate_ddp.training.logbook import Logbook, Sample
from translate_ddp.training.report_sink import ReportSink

ROWS = [
    Sample(f"source {n} <b>", f"reference {n} \u202e\u2028", f"prediction {n} \ud800\n")
    for n in range(9)
]
SCORES = {"validation/loss": 2.5, "epoch": 1.0}
LONGEST = report_sink.REPORT_END_SECONDS


def attend(row: int, predicted: str) -> Attention | None:
    return Attention([str(row)], [predicted], [[1.0]]) if row % 2 else None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run with metrics; the process of the page is a stand-in."""
    monkeypatch.setattr(report_sink, "MODULE", "tests.helpers.page_process")
    monkeypatch.setattr(report_sink, "REPORT_END_SECONDS", SECONDS)
    monkeypatch.setattr(report_sink, "KILL_SECONDS", SECONDS)
    (tmp_path / "metrics.jsonl").touch()
    (tmp_path / "STATUS.json").write_text('{"state": "failed", "reason": "The disk is full."}')
    return tmp_path


OpenLogbook = Callable[..., Logbook]


@pytest.fixture
def open_logbook(folder: Path, capsys: pytest.CaptureFixture[str]) -> OpenLogbook:
    def open_at(step: int = 0, **facts: Any) -> Logbook:
        logbook = Logbook()
        launch = LaunchFacts(1.5, step, lang_tgt="it", **facts)
        logbook.sinks.append(ReportSink(folder, launch, lambda: 7, attend, logbook.message))
        return logbook

    return open_at


def processes(folder: Path) -> list[int]:
    """The ids of the processes that have begun to write a page."""
    path = folder / "processes"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def samples_of(folder: Path) -> list[tuple[int, str]]:
    """Step and first translation of each line."""
    lines = map(json.loads, (folder / "samples.jsonl").read_text().splitlines())
    return [(line["step"], line["rows"][0][2]) for line in lines]


def test_record_has_a_signature_for_each_tokenizer_of_bleu(folder: Path, open_logbook: OpenLogbook):
    logbook = open_logbook(targets=["it", "de", "zh"])
    logbook.validated(8, ROWS)
    logbook.close()
    found = read_run(folder).validation
    assert found is not None
    tokenizers = [
        line.partition("|tok:")[2].split("|")[0] for line in found.bleu_signature.split("\n")
    ]
    assert tokenizers == ["13a", "zh"]


def test_record_is_read_as_it_was_written(folder: Path, open_logbook: OpenLogbook):
    logbook = open_logbook(ranks=["rank 0  vm: cpu"], dropped={"duplicate": 3})
    logbook.message("Skipped <b>\nstep 3")
    (folder / "a.pt").write_bytes(bytes(17))
    logbook.saved(8, folder / "a.pt", 1)
    logbook.validated(8, ROWS)
    logbook.log(8, SCORES)
    logbook.close()
    found = read_run(folder)
    assert found.problems == []
    assert found.launches == [
        LaunchFacts(1.5, 0, lang_tgt="it", ranks=["rank 0  vm: cpu"], dropped={"duplicate": 3})
    ]
    [notice], [saved], [end] = found.notices, found.saved, found.ends
    assert notice == Notice(notice.time, 7, "Skipped <b>\nstep 3")
    assert saved == Saved(saved.time, 8, "a.pt", 17, 1)
    assert end == End(end.time, 7, "failed", "The disk is full.")
    assert 1.7e9 < notice.time <= saved.time <= end.time
    assert found.validation is not None
    assert [tuple(row) for row in found.validation.rows] == ROWS
    [sample] = found.samples
    chosen = [ROWS.index(Sample(*row)) for row in sample.rows]
    assert sample.step == found.validation.step == 8
    assert len(set(chosen)) == 5
    odd = [row for row in chosen if row % 2][:3]
    assert found.validation.attention == [
        Attention([str(row)], [ROWS[row].predicted], [[1.0]]) for row in odd
    ]


def test_resumed_run_replaces_what_it_writes_again(folder: Path, open_logbook: OpenLogbook):
    first = open_logbook()
    for step in (10, 20, 30):
        first.validated(step, ROWS)
    second = open_logbook(step=20)  # the first was killed
    rows = [row._replace(predicted="again") for row in ROWS]
    for step in (20, 25):
        second.validated(step, rows)
    found = read_run(folder)
    assert [each.step for each in found.samples] == [10, 20, 25] and len(found.launches) == 2
    assert [each.rows[0][2] == "again" for each in found.samples] == [False, True, True]
    assert found.validation is not None and found.validation.step == 25


def test_half_line_of_a_killed_run_costs_no_other_line(folder: Path, open_logbook: OpenLogbook):
    for name in ("events.jsonl", "samples.jsonl"):
        (folder / name).write_text('{"event": "launch", "time": 1.0, "st')
    open_logbook().validated(5, ROWS)
    assert [launch.time for launch in read_run(folder).launches] == [1.5]
    assert [sample.step for sample in read_run(folder).samples] == [5]


def test_unwritable_file_is_one_message_and_the_others_are_written(
    folder: Path, open_logbook: OpenLogbook, capsys: pytest.CaptureFixture[str]
):
    (folder / "events.jsonl").mkdir()
    logbook = open_logbook()
    for step in (10, 20):
        logbook.validated(step, ROWS)
        logbook.saved(step, folder / "STATUS.json", None)
        logbook.message("Skipped step 3")
    assert [step for step, _ in samples_of(folder)] == [10, 20]
    output = capsys.readouterr().out
    assert output.count("Could not write the record of the report") == 1
    assert f"to {folder}: Is a directory. Training continues" in output


def test_error_of_any_kind_in_the_record_is_one_message(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    def fail(row: int, predicted: str) -> Attention | None:
        raise ArithmeticError("no attention")

    logbook = Logbook()
    logbook.sinks.append(ReportSink(folder, LaunchFacts(1.5, 0), lambda: 7, fail, logbook.message))
    for step in (10, 20):
        logbook.validated(step, ROWS)
    logbook.close()
    output = capsys.readouterr().out
    assert output.count("Could not write the record of the report") == 1
    assert "ArithmeticError('no attention'). Training continues" in output
    assert len(read_run(folder).ends) == 1


def test_page_is_written_at_low_priority_after_scores_and_at_normal_priority_at_the_end(
    folder: Path, open_logbook: OpenLogbook
):
    logbook = open_logbook()
    logbook.log(5, {"train/loss": 3.0})
    logbook.validated(8, ROWS)
    assert processes(folder) == []  # the scores are not in metrics.jsonl yet
    logbook.log(8, SCORES)
    page = folder / "report.html"
    wait_until(page.exists)
    logbook.close()
    assert '"event": "end"' in page.read_text()
    lines = (folder / "processes").read_text().splitlines()
    first, second = (list(map(int, line.split())) for line in lines)
    # Niceness of the session and in it; a session of its own; killed first when memory lacks; one
    # thread of each library.
    here = os.nice(0)
    assert first[1] in (19, UNKNOWN) and second[1] in (0, UNKNOWN)
    assert first[2:] == [min(19, here + 19), first[0], 1000, 1, 1]
    assert second[2:] == [here, second[0], 1000, 1, 1]


def test_file_named_as_a_module_in_the_current_folder_is_not_run(
    folder: Path, open_logbook: OpenLogbook, monkeypatch: pytest.MonkeyPatch
):
    for name in ("signal", "contextlib", "pathlib", "numpy"):
        (folder / f"{name}.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(folder)
    open_logbook().close()
    assert '"event": "end"' in (folder / "report.html").read_text()


@pytest.mark.parametrize(("seconds", "most"), [(0.1, 3600.0), (3600.0, 0.1)])
def test_end_of_a_run_waits_as_long_as_it_may_and_no_longer_than_ten_seconds(
    folder: Path,
    open_logbook: OpenLogbook,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seconds: float,
    most: float,
):
    assert LONGEST == 10
    monkeypatch.setattr(report_sink, "REPORT_END_SECONDS", most)
    monkeypatch.setattr(report_sink, "PAGE_SECONDS", 20)  # then it ends by itself: "failed"
    (folder / "hang").touch()
    open_logbook().close(seconds=seconds)
    assert "report.html was not written: it took too long." in capsys.readouterr().out


def test_process_that_hangs_delays_no_validation_and_ends_with_the_run(
    folder: Path, open_logbook: OpenLogbook, capsys: pytest.CaptureFixture[str]
):
    (folder / "hang").touch()
    logbook = open_logbook()
    logbook.log(8, SCORES)
    wait_until(lambda: processes(folder))
    [sink] = logbook.sinks
    assert isinstance(sink, ReportSink)
    first = sink._process
    logbook.log(16, SCORES)  # while the first one hangs: no second one
    assert sink._process is first and capsys.readouterr().out == ""
    logbook.close(seconds=0.1)
    wait_until(lambda: all(state_of(process) in "Z-" for process in processes(folder)))
    message = f"{folder}/report.html was not written: it took too long. To write it: "
    assert capsys.readouterr().out == f"{message}translate-ddp report {folder}\n"


def test_page_of_the_end_does_not_wait_for_that_of_a_validation(
    folder: Path, open_logbook: OpenLogbook
):
    (folder / "hang").touch()
    logbook = open_logbook()
    logbook.log(8, SCORES)
    wait_until(lambda: processes(folder))
    (folder / "hang").unlink()
    logbook.close()
    assert '"event": "end"' in (folder / "report.html").read_text()


def test_process_that_hangs_is_ended_without_the_run(
    folder: Path, open_logbook: OpenLogbook, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report_sink, "PAGE_SECONDS", 1)
    (folder / "hang").touch()
    logbook = open_logbook()
    logbook.log(8, SCORES)
    [sink] = logbook.sinks
    assert isinstance(sink, ReportSink) and sink._process is not None
    assert sink._process.wait() == -signal.SIGALRM


def test_process_that_fails_is_one_message(
    folder: Path, open_logbook: OpenLogbook, capsys: pytest.CaptureFixture[str]
):
    (folder / "fail").touch()
    logbook = open_logbook()
    for count in (1, 2):
        logbook.log(8, SCORES)
        wait_until(lambda count=count: len(processes(folder)) == count)
        wait_until(lambda: state_of(processes(folder)[-1]) in "Z-")
    logbook.close()
    output = capsys.readouterr().out
    assert output.count("report.html was not written: its process failed.") == 1
    assert len(output.splitlines()) == 1
