"""The logbook and its sinks; metrics.jsonl loses no record and continues after a resume."""

import io
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.runs import records, steps
from translate_ddp.errors import NotSaved
from translate_ddp.training import logbook as logbook_module
from translate_ddp.training.logbook import (
    JsonlSink,
    Logbook,
    Sample,
    Sink,
    choose_samples,
    shown_samples,
)
from translate_ddp.training.state import LogOffset

SAMPLE = Sample("Guten Tag", "Good day", "Good")


class ListSink(Sink):
    """Keeps every call."""

    def __init__(self, calls: list[tuple], status: str = "") -> None:
        self.calls = calls
        self.status = status

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self.calls.append(("log", self.status, step, scalars))

    def validated(self, step: int, samples: Sequence[Sample]) -> None:
        self.calls.append(("validated", self.status, step, samples))

    def message(self, text: str) -> None:
        self.calls.append(("message", self.status, text))

    def saved(self, step: int, path: Path, epoch: int | None) -> None:
        self.calls.append(("saved", self.status, step, path, epoch))

    def close(self, seconds: float, failed: bool) -> None:
        self.calls.append(("close", self.status, seconds, failed))


def test_every_sink_receives_what_is_logged_in_order():
    calls: list[tuple] = []
    logbook = Logbook([ListSink(calls, "a file"), ListSink(calls), ListSink(calls, "a server")])
    assert logbook.status == "a file; a server"
    logbook.log(10, {"train/loss": 2.5})
    logbook.validated(20, [SAMPLE])
    logbook.message("Skipped step 21")
    logbook.saved(22, Path("a.pt"), None)
    logbook.close(5.0)
    expected = [
        ("log", 10, {"train/loss": 2.5}),
        ("validated", 20, [SAMPLE]),
        ("message", "Skipped step 21"),
        ("saved", 22, Path("a.pt"), None),
        ("close", 5.0, False),
    ]
    statuses = ("a file", "", "a server")
    assert calls == [(name, status, *rest) for name, *rest in expected for status in statuses]


def test_samples_are_the_same_sentences_at_every_validation():
    assert choose_samples(3, 100) == choose_samples(3, 100)
    rows = choose_samples(3, 100)
    assert len(set(rows)) == 3 and set(rows) <= set(range(100)) and rows == sorted(rows)
    assert choose_samples(3, 2) == [0, 1]
    sentences = [SAMPLE._replace(source=str(row)) for row in range(100)]
    assert [int(sample.source) for sample in shown_samples(sentences)] == rows


def test_sinks_are_closed_once_and_know_whether_the_run_failed():
    calls: list[tuple] = []
    with Logbook([ListSink(calls)]) as logbook:
        logbook.close(5.0)
    with Logbook([ListSink(calls)]):
        pass
    with pytest.raises(ZeroDivisionError), Logbook([ListSink(calls)]) as logbook:
        raise ZeroDivisionError
    logbook.close(10.0, failed=True)  # by the end of the process, after its message
    expected = [(5.0, False), (float("inf"), False), (10.0, True)]
    assert calls == [("close", "", *arguments) for arguments in expected]


def test_logbook_without_sinks_and_console_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    with Logbook(shown=False) as logbook:
        logbook.message("hello")
        logbook.log(1, {"validation/loss": 2.0})
        logbook.validated(1, [SAMPLE])
        with logbook.progress("work", total=1) as progress:
            progress.text = "loss 1"
            progress.advance()
        assert logbook.offset() == LogOffset(0, "")
        assert logbook.status == ""
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


def test_message_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]):
    Logbook().message("from \x1b[2Jfile\nto file")
    assert capsys.readouterr().out == "from \\x1b[2Jfile\nto file\n"


def open_logbook(
    folder: Path, offset: LogOffset | None = None, message: Callable[[str], None] = print
) -> Logbook:
    sink = JsonlSink(folder, offset, message)
    logbook = Logbook([sink])
    logbook.offset = sink.offset
    return logbook


def test_every_record_is_written_at_once(tmp_path: Path):
    logbook = open_logbook(tmp_path)
    logbook.log(10, {"train/loss": 2.5, "train/sentences": 64})
    logbook.log(20, {"train/loss": 1.5})
    written = records(tmp_path)  # before close: a kill loses nothing
    logbook.close()
    times = [record.pop("time") for record in written]
    assert written == [
        {"step": 10, "train/loss": 2.5, "train/sentences": 64},
        {"step": 20, "train/loss": 1.5},
    ]
    assert all(isinstance(time, float) for time in times)


def test_record_of_which_a_full_disk_took_half_is_completed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    class AlmostFull(io.FileIO):
        room = 20

        def write(self, data: Any, /) -> int:
            return super().write(bytes(data)[: self.room])

    monkeypatch.setattr(logbook_module.io, "FileIO", AlmostFull)
    logbook = open_logbook(tmp_path)
    logbook.log(10, {"train/loss": 2.5})
    assert "No space left on device" in capsys.readouterr().out
    with pytest.raises(NotSaved, match="No space left on device"):
        logbook.offset()
    AlmostFull.room = 1000
    logbook.log(20, {"train/loss": 1.5})
    assert steps(tmp_path) == [10, 20]
    assert logbook.offset().size == (tmp_path / "metrics.jsonl").stat().st_size
    logbook.close()


@pytest.mark.parametrize("size", [5, 1000])
def test_nothing_is_cut_off_a_file_that_is_not_the_one_of_the_checkpoint(tmp_path: Path, size: int):
    # It is from another machine's disk, or was copied while it was written: half a line.
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n{"step": 20}\n{"step": 2')
    messages: list[str] = []
    with open_logbook(tmp_path, LogOffset(size, "0" * 64), messages.append) as logbook:
        logbook.log(30, {"train/loss": 2.0})
    assert steps(tmp_path) == [10, 20, 30]
    [message] = messages
    assert "nothing is removed" in message


@pytest.mark.parametrize(
    "lose",
    [
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("old.jsonl")),
        lambda path: shutil.rmtree(path.parent),
        lambda path: path.rename(path.with_name("old.jsonl")).with_name(path.name).touch(),
    ],
)
def test_a_file_that_is_deleted_moved_or_replaced_is_written_again(
    tmp_path: Path, lose: Callable[[Path], object]
):
    messages: list[str] = []
    sink = JsonlSink(tmp_path / "model", None, messages.append)
    for step in (1, 2):
        sink.log(step, {"train/loss": 2.5})
    lose(sink.path)
    sink.log(3, {"train/loss": 1.5})
    sink.log(4, {"train/loss": 1.0})
    assert messages == [f"{sink.path} was deleted, moved or replaced: it was written again."]
    assert steps(sink.path.parent) == [1, 2, 3, 4]
    lose(sink.path)
    assert sink.offset().is_in(sink.path.read_bytes()) and len(messages) == 2
    sink.close(1.0, failed=False)
    assert steps(sink.path.parent) == [1, 2, 3, 4]


def test_new_run_does_not_append_to_the_records_of_another(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n')
    with pytest.raises(AssertionError, match="another run"):
        open_logbook(tmp_path)
    assert records(tmp_path) == [{"step": 10}]


def test_numbers_that_json_lacks_are_recorded_as_strings(tmp_path: Path):
    sink = JsonlSink(tmp_path, None, print)
    for value in (2.5, float("inf"), float("nan")):
        sink.log(10, {"train/loss": value})
    sink.close(1.0, failed=False)
    assert [record["train/loss"] for record in records(tmp_path)] == [2.5, "inf", "nan"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b'{"step": 1, "time": 5.5}\n', 5.5),
        (b'{"step": 1, "time": 5.5}\n{"step": 2, "time": 7.5}\n', 7.5),
        (b'{"step": 1, "time": 5.5}\n{"step": 2, "time": 7.5}', 5.5),
        (b'{"step": 1, "time": 5.5}\n\xff\n', 0),
        (b'{"step": 1}\n', 0),
        (b'{"step": 1, "time": null}\n', 0),
        (b"[1]\n", 0),
        (b"damaged", 0),
    ],
)
def test_the_last_time_is_that_of_the_last_complete_line(content: bytes, expected: float):
    assert logbook_module.last_time(content) == expected


def test_a_resumed_run_knows_the_time_of_a_record_that_it_removes(tmp_path: Path):
    first = JsonlSink(tmp_path, None, print)
    assert first.last_time == 0
    first.log(1, {"a": 1.0})
    offset = first.offset()
    first.log(2, {"a": 2.0})
    first.close(1.0, failed=True)
    time = float(records(tmp_path)[-1]["time"])
    resumed = JsonlSink(tmp_path, offset, print)
    assert resumed.last_time == time and steps(tmp_path) == [1]
    resumed.close(1.0, failed=False)
