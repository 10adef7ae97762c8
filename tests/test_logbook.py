"""The logbook: what it writes and what it shows. For Weights & Biases see test_wandb.py."""

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.children import child, environment, on_terminal, records, run_child
from translate_ddp.errors import NotSaved
from translate_ddp.settings import LogbookConfig
from translate_ddp.training import logbook as logbook_module
from translate_ddp.training.logbook import Logbook, Prefix, Sample, printable

ROOT = Path(__file__).parent.parent
SILENT = LogbookConfig(wandb_mode="disabled")
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def no_wandb_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("NETRC", raising=False)


def open_logbook(
    folder: Path,
    config: LogbookConfig = SILENT,
    position: Prefix | None = None,
    active: bool = True,
) -> Logbook:
    return Logbook(config, folder, run_id="r1", about={}, position=position, active=active)


# metrics.jsonl


def test_every_record_is_a_line_on_disk_at_once(tmp_path: Path):
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


def test_a_disk_that_takes_half_a_record_has_it_whole_in_the_end(
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
        logbook.position()
    AlmostFull.room = 1000
    logbook.log(20, {"train/loss": 1.5})
    assert [record["step"] for record in records(tmp_path)] == [10, 20]
    assert logbook.position().size == (tmp_path / "metrics.jsonl").stat().st_size
    logbook.close()


def test_numbers_that_json_lacks_are_strings_that_float_reads(tmp_path: Path):
    with open_logbook(tmp_path) as logbook:
        logbook.log(1, {"a": float("nan"), "b": float("inf"), "c": float("-inf")})
    [record] = records(tmp_path)
    assert [record[name] for name in "abc"] == ["nan", "inf", "-inf"]


def test_a_resumed_run_drops_the_records_after_its_checkpoint(tmp_path: Path):
    with open_logbook(tmp_path) as logbook:
        logbook.log(10, {"train/loss": 2.5})
        position = logbook.position()
        logbook.log(20, {"train/loss": 1.5})
    with open_logbook(tmp_path, position=position) as logbook:
        logbook.log(15, {"train/loss": 2.0})
    assert [record["step"] for record in records(tmp_path)] == [10, 15]


@pytest.mark.parametrize("size", [5, 1000])
def test_a_file_that_is_not_the_checkpoints_loses_nothing_and_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
):
    # Another machine's, which rank 0 came to, or one copied while it was written: a line is torn.
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n{"step": 20}\n{"step": 2')
    with open_logbook(tmp_path, position=Prefix(size, "0" * 64)) as logbook:
        logbook.log(30, {"train/loss": 2.0})
    assert [record["step"] for record in records(tmp_path)] == [10, 20, 30]
    assert capsys.readouterr().out.count("nothing is cut off") == 1


def test_a_new_run_refuses_the_records_of_another(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n')
    with pytest.raises(AssertionError, match="another run"):
        open_logbook(tmp_path, position=None)
    assert records(tmp_path) == [{"step": 10}]


def test_an_inactive_logbook_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANDB_MODE", "offline")
    with open_logbook(tmp_path / "run", LogbookConfig(), active=False) as logbook:
        logbook.say("hello")
        logbook.log(1, {"validation/loss": 2.0})
        logbook.samples(1, [Sample("a", "b", "c")])
        with logbook.progress("work", total=1) as progress:
            progress.advance(loss=1.0)
        assert logbook.position() == Prefix(0, "")
        assert logbook.wandb_status == "disabled"
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr() == ("", "")


# The console


def test_validation_is_one_line_and_training_is_left_to_the_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with open_logbook(tmp_path) as logbook:
        logbook.log(300, {"train/loss": 2.5})
        logbook.log(
            300, {"validation/loss": 0.41237, "validation/BLEU": 92.1, "validation/n": 12345}
        )
    assert capsys.readouterr().out == "validation  step 300  loss 0.4124  BLEU 92.1  n 12,345\n"


def test_a_line_cannot_command_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with open_logbook(tmp_path) as logbook:
        logbook.say("from \x1b[2Jfile\nto file")
    assert capsys.readouterr().out == "from \\x1b[2Jfile\nto file\n"


def test_samples_stand_below_each_other_and_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with open_logbook(tmp_path) as logbook:
        logbook.samples(1, [Sample("Guten Tag", "Good\nday", "\x1b[2JGood day")])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "     SOURCE: Guten Tag",
        "     TARGET: Good\\nday",
        "  PREDICTED: \\x1b[2JGood day",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcödé, 日本語, 👩‍👩‍👧, \\x1b", "plain, ünïcödé, 日本語, 👩‍👩‍👧, \\x1b"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("bell\x07 rubout\x7f csi\x9b0m", "bell\\x07 rubout\\x7f csi\\x9b0m"),
        ("a\tb\r\nc\x00", "a\\tb\\r\\nc\\x00"),
        ("\u202eevil\u202c \u2066x\u2069", "\\u202eevil\\u202c \\u2066x\\u2069"),
        ("\u200e\u200f\u061c", "\\u200e\\u200f\\u061c"),
        ("one\u2028two\u2029three\x85", "one\\u2028two\\u2029three\\x85"),
        ("half a \ud83d pair", "half a \\ud83d pair"),
    ],
)
def test_printable_escapes_what_could_command_a_terminal(text: str, shown: str):
    assert printable(text) == shown


def test_progress_off_a_terminal_is_whole_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logbook_module, "LINE_SECONDS", 0)
    with open_logbook(tmp_path) as logbook:
        with logbook.progress("epoch 3", total=4, done=1) as progress:
            progress.advance(1, loss=2.34567, tokens=53120)
            progress.advance(2)
    out, err = capsys.readouterr()
    first, last = out.splitlines()
    assert first.startswith("epoch 3:  50% 2/4 [") and "loss=2.346, tokens=53,120" in first
    assert last.startswith("epoch 3: 100% 4/4 [") and "loss=2.346, tokens=53,120" in last
    assert "\r" not in out and err == ""


def test_progress_off_a_terminal_is_one_line_if_the_work_is_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logbook_module, "LINE_SECONDS", 3600)
    with open_logbook(tmp_path) as logbook:
        with logbook.progress("epoch 3", total=1000) as progress:
            for _ in range(1000):
                progress.advance()
    assert capsys.readouterr().out.count("\n") == 1


# The console of a process of its own


BESIDE_A_LINE = """
    with logbook.progress("epoch 3", total=2, unit="sentence") as progress:
        progress.advance(1, loss=2.5)
        logbook.say("a line of its own")
        progress.advance(1)
"""


def test_progress_on_a_terminal_is_a_bar_that_makes_room_for_lines(tmp_path: Path):
    command = child(tmp_path, BESIDE_A_LINE)
    code, shown = on_terminal(command, environment(tmp_path), columns=100)
    assert code == 0
    final = [line.rpartition("\r")[2] for line in shown.replace("\r\n", "\n").split("\n")]
    assert "a line of its own" in final
    assert any("epoch 3: 100%|" in line and "loss=2.5" in line for line in final)


def test_progress_on_a_terminal_without_width_is_whole_lines(tmp_path: Path):
    # Containers open such terminals; tqdm would show nothing at all on them.
    command = child(tmp_path, BESIDE_A_LINE)
    code, shown = on_terminal(command, environment(tmp_path), columns=0)
    assert code == 0
    assert "epoch 3: 100% 2/2 [" in shown


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path):
    # `train.py | head -1`: also the flush at exit must not turn the exit code into 120.
    script = """
        for step in range(3):
            logbook.say("nobody reads this")
            logbook.log(step, {"validation/loss": 1.0})
    """
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ended = subprocess.run(
            child(tmp_path, script),
            env=environment(tmp_path),
            stdout=write_end,
            stderr=subprocess.PIPE,
        )
    finally:
        os.close(write_end)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert len(records(tmp_path / "run")) == 3


def test_a_console_with_few_characters_does_not_end_the_run(tmp_path: Path):
    script = 'logbook.say("Grüße, мир")'
    more = {"PYTHONIOENCODING": "latin-1"}
    ended = run_child(child(tmp_path, script), environment(tmp_path, more))
    assert "Grüße, \\u043c\\u0438\\u0440".encode("latin-1") in ended.stdout
