"""metrics.jsonl: no record is lost, and a resumed run continues the file of its checkpoint."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.runs import records, steps
from translate_ddp.errors import NotSaved
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.sinks import jsonl_sink
from translate_ddp.training.sinks.jsonl_sink import JsonlSink
from translate_ddp.training.state import LogOffset


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

    monkeypatch.setattr(jsonl_sink.io, "FileIO", AlmostFull)
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
    # It is that of another machine's disk, or was copied while it was written: half a line.
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n{"step": 20}\n{"step": 2')
    messages: list[str] = []
    with open_logbook(tmp_path, LogOffset(size, "0" * 64), messages.append) as logbook:
        logbook.log(30, {"train/loss": 2.0})
    assert steps(tmp_path) == [10, 20, 30]
    [message] = messages
    assert "nothing is removed" in message


def test_new_run_does_not_append_to_the_records_of_another(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n')
    with pytest.raises(AssertionError, match="another run"):
        open_logbook(tmp_path)
    assert records(tmp_path) == [{"step": 10}]


def test_records_up_to_a_step_are_read_as_they_were_logged(tmp_path: Path):
    logged = [
        (10, {"train/loss": 2.5, "epoch": 0.5}),
        (20, {"train/loss": float("inf"), "train/nll": float("-inf"), "epoch": 1.0}),
        (20, {"validation/loss": 1.5, "epoch": 1.0}),
        (30, {"train/loss": float("nan")}),
    ]
    sink = JsonlSink(tmp_path, None, print)
    for step, scalars in logged:
        sink.log(step, scalars)
    sink.close(1.0, failed=False)
    assert sink.records(last_step=20) == logged[:3]
    numbers = [records(tmp_path)[n]["train/loss"] for n in (0, 1, 3)]
    assert numbers == [2.5, "inf", "nan"]  # JSON lacks the others
