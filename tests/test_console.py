"""What a run prints: validations, sample translations and messages, on any console."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.children import child, environment, run_child
from tests.helpers.runs import records
from translate_ddp.console import printable
from translate_ddp.training.logbook import Sample
from translate_ddp.training.sinks.console_sink import ConsoleSink


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
        "training loss 2.5 nats/token, 53,120 tokens/s\n"
    )


def test_validation_without_an_epoch_and_training_is_one_line(capsys: pytest.CaptureFixture[str]):
    ConsoleSink().log(300, {"validation/wer": 0.5})
    assert capsys.readouterr().out == "step 300: validation wer 0.5 edits/word\n"


def test_samples_are_aligned_cut_and_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
):
    ConsoleSink().samples(1, [Sample("a" * 200, "b" * 201, "\x1b[2JGood\nday")])
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


def test_closed_stdout_does_not_end_the_run(tmp_path: Path):
    # `train.py | head -1`: also the flush at exit must not turn the exit code into 120.
    script = """
        for step in range(3):
            logbook.message("nobody reads this")
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


def test_characters_that_the_console_lacks_are_escaped(tmp_path: Path):
    script = 'logbook.message("Grüße, мир")'
    more = {"PYTHONIOENCODING": "latin-1"}
    ended = run_child(child(tmp_path, script), environment(tmp_path, more))
    assert "Grüße, \\u043c\\u0438\\u0440".encode("latin-1") in ended.stdout
