"""What a run prints: validations, samples, messages and progress, on any console."""

import math
import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.children import child, environment, run_child, run_on_terminal
from tests.helpers.runs import records
from translate_ddp import console
from translate_ddp.console import counted, number, printable
from translate_ddp.training.logbook import ConsoleSink, Logbook, Sample


def test_validation_is_one_line_with_units_and_the_last_training_loss(
    capsys: pytest.CaptureFixture[str],
):
    console = ConsoleSink()
    console.log(280, {"train/loss": 3.5, "train/tokens_per_second": 53120.4, "epoch": 1.4})
    console.log(300, {"train/loss": 2.5, "train/lr": 0.001, "epoch": 1.5})
    assert capsys.readouterr().out == ""
    scores = {"loss": 0.41237, "BLEU": 92.1, "n": 12345}
    console.log(1300, {f"validation/{name}": v for name, v in scores.items()} | {"epoch": 2.0})
    assert capsys.readouterr().out == (
        "epoch 2, step 1,300: validation loss 0.4124 nats/token, BLEU 92.1, n 12,345; "
        "at step 300 training loss 2.5 nats/token, 53,120 tokens/s\n"
    )
    console.log(1400, {"train/loss": 2.0})
    console.log(1400, {"validation/loss": 1.0})
    assert capsys.readouterr().out == (
        "step 1,400: validation loss 1 nats/token; training loss 2 nats/token, 53,120 tokens/s\n"
    )


def test_samples_are_aligned_cut_and_cannot_control_a_terminal(capsys: pytest.CaptureFixture[str]):
    ConsoleSink().validated(1, [Sample("a" * 200, "b" * 201, "\x1b[2JGood\nday")])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "     SOURCE: " + "a" * 200,
        "     TARGET: " + "b" * 199 + "…",
        "  PREDICTED: \\x1b[2JGood\\nday",
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
def test_printable_escapes_what_could_control_a_terminal(text: str, shown: str):
    assert printable(text) == shown


THREE_STEPS = """
    for step in range(3):
        logbook.message("a message")
        logbook.log(step, {"validation/loss": 1.0})
"""


@pytest.mark.parametrize(
    ("is_full", "message"),
    [
        (True, b"Nothing more is printed to standard output: No space left on device.\n"),
        (False, b""),  # `train.py | head -1`: nor may the flush at exit make the exit code 120
    ],
)
def test_full_or_closed_stdout_does_not_end_the_run(tmp_path: Path, is_full: bool, message: bytes):
    read_end, write_end = os.pipe()
    os.close(read_end)
    stdout = os.open("/dev/full", os.O_WRONLY) if is_full else os.dup(write_end)
    os.close(write_end)
    ended = subprocess.run(
        child(tmp_path, THREE_STEPS),
        env=environment(tmp_path),
        stdout=stdout,
        stderr=subprocess.PIPE,
    )
    os.close(stdout)
    assert (ended.returncode, ended.stderr) == (0, message)
    assert len(records(tmp_path / "run")) == 3


def test_characters_that_the_console_lacks_are_escaped(tmp_path: Path):
    script = 'logbook.message("Grüße, мир")'
    more = {"PYTHONIOENCODING": "latin-1"}
    ended = run_child(child(tmp_path, script), environment(tmp_path, more))
    assert "Grüße, \\u043c\\u0438\\u0440".encode("latin-1") in ended.stdout


WITH_A_MESSAGE = """
    with logbook.progress("epoch 3", total=2) as progress:
        progress.text = "loss 2.5"
        progress.advance(1)
        logbook.message("a separate line")
        progress.advance(1)
"""


def final_lines(shown: str) -> list[str]:
    """The lines of a terminal as they remain: what was overwritten is gone."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in shown.split("\n")]


def test_progress_without_terminal_is_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(console, "LINE_SECONDS", 0)
    with Logbook().progress("epoch 3", total=4, initial=1) as progress:
        progress.text = "loss 2.346, 53,120 tokens/s"
        progress.advance(1, seconds_left=3723)
        progress.advance(2, seconds_left=0)
    assert capsys.readouterr() == (
        "epoch 3  25% 1/4\n"
        "epoch 3  50% 2/4, loss 2.346, 53,120 tokens/s, 1:02:03 left\n"
        "epoch 3 100% 4/4, loss 2.346, 53,120 tokens/s, 00:00 left\n",
        "",
    )


def test_progress_without_terminal_is_one_line_if_the_work_is_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(console, "LINE_SECONDS", 3600)
    with Logbook().progress("epoch 3", total=1000) as progress:
        for _ in range(1000):
            progress.advance()
    assert capsys.readouterr().out == "epoch 3 100% 1000/1000, 00:00 left\n"


def test_time_left_follows_the_pace_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    now = 1000.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with Logbook().progress("epoch 3", total=50, initial=10) as progress:
        now += 60.0  # for 10 of the 40 that were left
        progress.advance(10)
    assert capsys.readouterr().out == "epoch 3  40% 20/50, 03:00 left\n"


@pytest.mark.parametrize("rate", ["53,120", "2,453,120"])
def test_bar_with_a_long_label_fits_80_columns_and_shows_the_time_left(tmp_path: Path, rate: str):
    script = f"""
        with logbook.progress("epoch 12/36", total=1234, initial=1233) as progress:
            progress.text = "loss 2.345, {rate} tokens/s"
            progress.advance(1, seconds_left=5025)
    """
    code, shown = run_on_terminal(child(tmp_path, script), environment(tmp_path), columns=200)
    assert code == 0
    *_, last = filter(None, final_lines(shown))
    assert last.startswith("epoch 12/36 100%|█")
    assert last.endswith(f"█| 1234/1234, loss 2.345, {rate} tokens/s, 1:23:45 left")
    assert len(last) <= 80


@pytest.mark.parametrize("columns", [100, 30, 0])
def test_progress_fits_the_terminal_and_leaves_room_for_messages(tmp_path: Path, columns: int):
    command = child(tmp_path, WITH_A_MESSAGE)
    code, shown = run_on_terminal(command, environment(tmp_path), columns=columns)
    lines = final_lines(shown)
    assert code == 0 and "a separate line" in lines
    [last] = [line for line in lines if line.startswith("epoch 3 100%")]
    if columns:
        assert last.startswith("epoch 3 100%|")
        assert max(map(len, shown.replace("\r", "\n").split("\n"))) <= columns
    if columns == 100:
        assert last.startswith("epoch 3 100%|█") and "2/2, loss 2.5, " in last
    if not columns:  # containers open such terminals; tqdm would show nothing at all on them
        assert last == "epoch 3 100% 2/2, loss 2.5, 00:00 left"


def test_numbers_have_four_significant_digits_or_are_whole():
    shown = [number(value) for value in (0, 0.123456, 36.272, 1780, 12345.67, 71_200, math.nan)]
    assert shown == ["0", "0.1235", "36.27", "1,780", "12,346", "71,200", "nan"]


def test_counts_of_one_are_singular():
    shown = [counted(count, "pair") for count in (0, 1, 2, 1200)]
    assert shown == ["0 pairs", "1 pair", "2 pairs", "1,200 pairs"]
