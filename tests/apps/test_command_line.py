"""The command line of the commands: texts that look like flags, and switches."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from translate_ddp.apps.commands.command_line import parse
from translate_ddp.apps.commands.translate import TranslateConfig
from translate_ddp.errors import UserError
from translate_ddp.settings import Config


def translate(*arguments: str) -> TranslateConfig:
    return parse(TranslateConfig, arguments, "translate")


def test_all_arguments_after_two_dashes_are_texts():
    texts = ("a", "--help", "-h", "--no space? one", "--foo-bar", "--", "")
    config = translate("--beam_width", "3", "--n_best=2", "--", *texts)
    assert config.lines == texts
    assert (config.search.beam_width, config.search.n_best) == (3, 2)
    texts = ("-5 degrees", "- Hello", "---", "-", "a")
    assert translate(*texts, "--beam_width", "2").lines == texts


@pytest.mark.parametrize("flag", ["--beam_widht", "--Hello!", "-x", "--beam.width=4"])
def test_unknown_flag_is_an_error_among_texts(flag: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        translate("a", flag)
    assert flag in capsys.readouterr().err
    with pytest.raises(SystemExit):  # texts follow each other
        translate("a", "--beam_width", "4", flag.strip("-"))
    assert flag.strip("-") in capsys.readouterr().err


def test_value_of_a_flag_may_begin_with_a_dash_and_have_spaces():
    assert translate("--length_penalty", "-0.5", "a").search.length_penalty == -0.5
    assert translate("--input=my file.txt").input == "my file.txt"


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        ("--perturb=True", "--perturb, or --no_perturb for false"),
        ("--no-report=0", "--report, or --no_report for false"),
        ("--lr 0.1 --deterministic FALSE", "--deterministic, or --no_deterministic for false"),
        ("--local_rank=0", "use torchrun"),
        ("--local-rank 1", "use torchrun"),
    ],
)
def test_flags_of_other_programs_are_an_error_with_a_hint(flags: str, hint: str):
    with pytest.raises(UserError, match=hint):
        parse(Config, flags.split(), "train.py")


@pytest.mark.parametrize(
    ("flags", "markup"),
    [
        (["--input", "a.txt"], "text"),
        (["--input", "a.MD"], "markdown"),
        (["--input", "a.markdown", "--markup", "html"], "html"),
        (["--input", "a.txt", "--markup", "markdown"], "markdown"),
        (["--input", "a.html", "--markup", "html"], "html"),
    ],
)
def test_markup_is_that_of_the_flag_or_of_a_markdown_file(flags: list[str], markup: str):
    model: Any = SimpleNamespace(translate=lambda texts, **settings: [settings["markup"]])
    assert translate(*flags).compute(model, (0, ["a"])) == [markup]


def test_argument_that_names_a_file_is_an_error_that_names_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "a.txt"
    file.write_text("sun\n")
    with pytest.raises(SystemExit) as raised:
        translate("moon", str(file))
    assert raised.value.code == 2
    printed = "".join(capsys.readouterr().err.split())  # the box wraps lines
    assert f"--input{file}" in printed
    assert translate("a" * 5000, str(tmp_path)).lines[1] == str(tmp_path)  # a folder is a text
    (tmp_path / "any_step_00000009-0123abcd.pt").touch()  # but not a model
    with pytest.raises(SystemExit):
        translate(str(tmp_path), "moon")
    assert f"pass--model_folder{tmp_path}" in "".join(capsys.readouterr().err.split())


def test_unusable_command_line_of_other_ranks_prints_nothing(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(TranslateConfig, ["--beam_width", "0"], "translate", prints=False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["--version"], ["report", "--help"], ["inspect", "--help"]])
def test_commands_without_a_model_do_not_import_torch(words: list[str]):
    program = (
        "import atexit, sys\n"
        "from translate_ddp.__main__ import main\n"
        f"sys.argv[1:] = {words}\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "False", done.stderr
