"""The logbook: every sink receives what is logged, and other ranks than the first log nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from translate_ddp.training.logbook import Logbook, Sample
from translate_ddp.training.state import LogOffset

SAMPLE = Sample("Guten Tag", "Good day", "Good")


class ListSink:
    """A sink that is no subclass of anything."""

    def __init__(self, calls: list[tuple], status: str = "") -> None:
        self.calls = calls
        self.status = status

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self.calls.append(("log", self.status, step, scalars))

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        self.calls.append(("samples", self.status, step, rows))

    def close(self, seconds: float, failed: bool) -> None:
        self.calls.append(("close", self.status, seconds, failed))


def test_every_sink_receives_what_is_logged_in_order():
    calls: list[tuple] = []
    logbook = Logbook([ListSink(calls, "a file"), ListSink(calls), ListSink(calls, "a server")])
    assert logbook.status == "a file; a server"
    logbook.log(10, {"train/loss": 2.5})
    logbook.samples(20, [SAMPLE])
    logbook.close(5.0)
    statuses = ("a file", "", "a server")
    assert calls == [
        *[("log", status, 10, {"train/loss": 2.5}) for status in statuses],
        *[("samples", status, 20, [SAMPLE]) for status in statuses],
        *[("close", status, 5.0, False) for status in statuses],
    ]


def test_sinks_are_closed_once_and_know_whether_the_run_failed():
    calls: list[tuple] = []
    with Logbook([ListSink(calls)]) as logbook:
        logbook.close(5.0)
    with pytest.raises(ZeroDivisionError), Logbook([ListSink(calls)]):
        raise ZeroDivisionError
    assert calls == [("close", "", 5.0, False), ("close", "", float("inf"), True)]


def test_logbook_without_sinks_and_console_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    with Logbook(shown=False) as logbook:
        logbook.message("hello")
        logbook.log(1, {"validation/loss": 2.0})
        logbook.samples(1, [SAMPLE])
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
