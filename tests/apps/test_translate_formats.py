"""What `translate` writes: text, jsonl, several translations, and a prompt on a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import processes
from tests.helpers.commands import ROOT, environment, run_translate_ddp, translate_ddp
from tests.helpers.nodes import state_of
from tests.helpers.processes import wait_until
from translate_ddp.apps.commands import translate
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.translator import Translator

LINES = ["sun moon river. fish wolf.", "", "- moon\ntree"]


def run(trained: Path, tmp_path: Path, *words: str) -> str:
    code, output = translate_ddp(tmp_path, "translate", "--model_folder", str(trained), *words)
    assert code == 0, output
    return output


def test_jsonl_has_the_log_probabilities_that_the_engine_computes(
    trained: Path, capsys: pytest.CaptureFixture[str], one_search: None
):
    settings = {"saved": translate.SavedModel(str(trained)), "search": NBestConfig(n_best=3)}
    translate.run(translate.TranslateConfig(tuple(LINES), format="jsonl", **settings))
    translator = Translator.open(str(trained))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["source"] for row in rows] == LINES
    assert [len(row["translations"]) for row in rows] == [3, 3, 3]
    empty = {"text": "", "score": 0.0, "warnings": [], "sentences": []}
    assert rows[1]["translations"] == [empty] * 3
    assert [len(rows[place]["translations"][0]["sentences"]) for place in (0, 2)] == [2, 3]
    assert rows[2]["translations"][0]["sentences"][0]["text"] == "-"
    for row in rows:
        for number, translation in enumerate(row["translations"]):
            for sentence in [each for each in translation["sentences"] if each["text"] != "-"]:
                source = translator.tokenizer.encode([sentence["source"]])
                (found,) = translator.engine.translate(source, NBestConfig(n_best=3))
                (expected,) = translator.engine.log_probs(source, [found[number].ids])
                assert sentence["log_probs"] == pytest.approx(expected.tolist(), abs=2e-6)
                assert "".join(sentence["tokens"]).strip() == sentence["text"]
            values = [p for each in translation["sentences"] for p in each["log_probs"]]
            assert translation["score"] == pytest.approx(np.mean(values or [0]), abs=2e-6)


def test_text_has_n_best_lines_for_each_text(trained: Path, tmp_path: Path):
    output = run(trained, tmp_path, *LINES, "--n_best", "2")
    found = Translator.open(str(trained)).translate(LINES, n_best=2)
    lines = [each.text.replace("\n", " ") for n_best in found for each in n_best]
    assert output.splitlines() == lines


def test_samples_depend_on_the_seed(trained: Path, tmp_path: Path):
    flags = ["--temperature", "1", "--seed"]
    one, again, other = (run(trained, tmp_path, *LINES, *flags, seed) for seed in "112")
    assert one == again != other
    sampled = Translator.open(str(trained)).translate(LINES, temperature=1, seed=1, n_best=1)
    assert one.splitlines() == [best.text.replace("\n", " ") for (best,) in sampled]


FOREIGN = "sun \x9b31m moon \u202efish"  # CSI and a right-to-left override


def run_on(terminal: str, words: tuple[str, ...]) -> None:
    descriptor = os.open(terminal, os.O_RDWR)
    for number in range(3):
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, "w" if number else "r", closefd=False) for number in range(3)
    )
    run_translate_ddp(words)


class Terminal:
    """The command on a terminal, of which `end` is the other end."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.end, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (25, 100))
        given = os.ttyname(self.theirs), ("translate", *words)
        self.job = processes.start(run_on, folder, 1, {"TERM": "dumb"}, *given)

    def read_until(self, text: str) -> str:
        """What the terminal shows up to and with `text`."""
        shown = b""
        while text not in shown.decode(errors="replace"):
            ready, _, _ = select.select([self.end], [], [], processes.SECONDS)
            assert ready, f"timeout: {shown!r}"
            shown += os.read(self.end, 4096)
        return shown.decode()

    def close(self) -> str:
        """What else it shows."""
        os.close(self.theirs)
        shown = ""
        with suppress(OSError), open(self.end, "rb", buffering=0) as file:
            while piece := file.read(4096):
                shown += piece.decode()
        return shown


@pytest.mark.slow
def test_terminal_shows_characters_escaped_that_could_control_it(trained: Path, tmp_path: Path):
    flags = ["--model_folder", str(trained), "--format", "jsonl", FOREIGN]
    terminal = Terminal(tmp_path, *flags)
    shown = terminal.read_until("]}\r\n")
    assert terminal.job.wait() == [0] and terminal.close() == ""
    assert r"sun \x9b31m moon \u202efish" in shown
    assert not set("\x9b\u202e") & set(shown)


def test_pipe_receives_the_text_as_it_is(trained: Path, tmp_path: Path):
    output = run(trained, tmp_path, "--format", "jsonl", FOREIGN)
    assert json.loads(output)["source"] == FOREIGN


def test_line_breaks_of_a_model_do_not_break_the_line(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    translator = Translator.open(str(trained))
    decode = lambda rows: ["sun\nmoon\r\n\x85tree\u2028"] * len(rows)  # noqa: E731
    monkeypatch.setattr(translator.tokenizer, "decode", decode)
    assert translator.translate(["fish", "wolf"]) == ["sun moon tree"] * 2
    ((best,),) = translator.translate(["fish"], n_best=1)
    assert best.text == "sun moon tree"
    kept = translator.translate(["1\u2028\u2029 2\r\n\x85 3"])  # has no letters
    assert translate.as_lines(kept) == ["1  2  3"]


def test_rows_without_a_text_are_counted(trained: Path, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"en": "sun"}\n{"en": null}\n{"en": "sun"}\n')
    output = run(trained, tmp_path, "--input", str(tmp_path / "a.jsonl"))
    assert "a.jsonl without a text: 1. Their translations are empty." in output
    *_, first, second, third = output.split("\n")[:-1]
    assert second == "" != first == third


INPUT = b"\xef\xbb\xbfsun\r\n\r\nfish 1\xc2\xb2"


def translations(trained: Path) -> str:
    """Of INPUT."""
    found = Translator.open(str(trained)).translate(["sun", "", "fish 1\u00b2"])
    return "".join(f"{line}\n" for line in found)


def test_standard_input_and_output_have_names_and_are_utf8(trained: Path, tmp_path: Path):
    command = [sys.executable, "-m", "translate_ddp", "translate", "--model_folder", str(trained)]
    variables = environment() | {"PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0"}
    words = [*command, "--input", "-", "--output", "-"]
    done = subprocess.run(words, cwd=tmp_path, env=variables, input=INPUT, capture_output=True)
    assert (done.stdout.decode(), done.stderr) == (translations(trained), b"")
    assert list(tmp_path.iterdir()) == []


def run_with_input(data: bytes, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    os.dup2(reader, 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    run_translate_ddp(words)


@pytest.mark.slow
def test_standard_input_is_read_where_it_is_named_and_where_nothing_else_is(
    trained: Path, tmp_path: Path
):
    command = ("translate", "--model_folder", str(trained))
    for flags in (("--input", "/dev/stdin"), ("--output", "-"), ()):
        job = processes.start(run_with_input, tmp_path, 1, None, INPUT, (*command, *flags))
        assert job.succeed() == translations(trained)
    job = processes.start(run_with_input, tmp_path, 1, None, b"sun\ncaf\xe9\n", command)
    text = job.fail()
    assert text.startswith("error: ") and "1 of 2 lines is not UTF-8, first line 2" in text


@pytest.mark.parametrize("command", ["validate", "translate"])
def test_other_outputs_have_the_name_of_a_file(trained: Path, tmp_path: Path, command: str):
    words = [command, "--model_folder", str(trained)]
    output = "./-" if command == "translate" else "-"
    words += ["--output", output] + (["--input", __file__] if command == "translate" else [])
    code, output = translate_ddp(tmp_path, *words)
    assert code == 2 and "--output - is no file: pass" in output


@pytest.mark.slow
def test_terminal_shows_a_prompt_and_ctrl_d_ends_it(trained: Path, tmp_path: Path):
    terminal = Terminal(tmp_path, "--model_folder", str(trained))
    assert "Type a text in en. Ctrl-D ends." in terminal.read_until("en-it> ")
    for text in ("sun moon river", "fish"):
        os.write(terminal.end, f"{text}\n".encode())
        (translation,) = Translator.open(str(trained)).translate([text])
        assert translation in terminal.read_until("en-it> ").splitlines()
    os.write(terminal.end, b"\x04")
    assert terminal.job.wait() == [0]
    terminal.close()


@pytest.mark.slow
def test_ctrl_c_ends_the_prompt_without_a_traceback(trained: Path, tmp_path: Path):
    terminal = Terminal(tmp_path, "--model_folder", str(trained))
    terminal.read_until("en-it> ")
    # Python handles a signal between its prompt and the read after the next line.
    wait_until(lambda: state_of(terminal.job.ranks[0].pid) == "S")
    terminal.job.signal(signal.SIGINT)
    assert terminal.job.wait() == [130] and terminal.close().strip() == ""
