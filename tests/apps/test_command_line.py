"""The command line of the commands: texts that look like flags, and flags given twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from translate_ddp.apps.commands.command_line import flag_kinds, parse_with_texts, separate
from translate_ddp.apps.commands.translate import TranslateConfig
from translate_ddp.apps.commands.validate import ValidateConfig
from translate_ddp.errors import UserError


def translate(*arguments: str) -> TranslateConfig:
    return parse_with_texts(TranslateConfig, arguments, "translate")


def test_texts_may_begin_with_a_dash_and_keep_their_order():
    texts = ("-5 degrees", "a", "- Hello", "--- a", "-", "-x", "--no space? one", "")
    config = translate("--beam_width", "3", *texts, "--n_best=2", "b")
    assert config.lines == (*texts, "b")
    assert (config.search.beam_width, config.search.n_best) == (3, 2)


def test_text_of_dashes_and_other_signs_keeps_its_place():
    texts = ("Good morning!", "---", "-5", "--", "----", "--5", "--=x", "---=3", "Where is it?")
    config = translate("--beam_width", "3", *texts, "--")
    assert config.lines == (*texts, "--") and config.search.beam_width == 3
    assert translate("---", "--reverse", "--beam_width=2", "--é", "a").lines == ("---", "--é", "a")


def test_all_arguments_after_two_dashes_are_texts():
    assert translate("a", "--", "--help", "--", "-h").lines == ("a", "--help", "--", "-h")
    assert translate("--n_best=2", "--", "--foo-bar", "--").lines == ("--foo-bar", "--")


@pytest.mark.parametrize("flag", ["--beam_widht", "--Hello!", "--beam.width=4"])
def test_unknown_flag_is_an_error_among_texts(flag: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        translate("---", flag, "4", "a")
    assert flag in capsys.readouterr().err


def test_value_of_a_flag_may_begin_with_a_dash_and_have_spaces():
    assert translate("--length_penalty", "-0.5", "a").search.length_penalty == -0.5
    assert translate("--input=my file.txt").input == "my file.txt"


def test_switch_takes_no_value():
    found = separate(["b", "--perturbed", "a", "--no_reverse", "c"], flag_kinds(ValidateConfig))
    assert found == (["--perturbed", "--no_reverse"], ["b", "a", "c"])


@pytest.mark.parametrize(
    "flags",
    [
        ("--preload", "a", "--preload", "b"),
        ("--preload=a", "--preload", "a"),
        ("--beam_width", "1", "--beam-width", "2"),
    ],
)
def test_flag_given_twice_is_reported(flags: tuple[str, ...]):
    with pytest.raises(UserError, match="is given twice: pass it once"):
        translate(*flags)


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
    (tmp_path / "any_step_00000009-0123abcd.pt").touch()  # but not that of a model
    with pytest.raises(SystemExit):
        translate(str(tmp_path), "moon")
    assert f"pass--model_folder{tmp_path}" in "".join(capsys.readouterr().err.split())


def test_unusable_command_line_of_other_ranks_prints_nothing(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse_with_texts(TranslateConfig, ["--beam_width", "0"], "translate", prints=False)
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
