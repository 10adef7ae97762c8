"""The command line of the commands: texts that look like flags, and unusable flags."""

import subprocess
import sys
from pathlib import Path

import pytest

from translate_ddp.apps.commands.command_line import parse
from translate_ddp.apps.commands.translate import TranslateConfig


def translate(*arguments: str) -> TranslateConfig:
    return parse(TranslateConfig, arguments, "translate")


def test_texts_may_begin_with_a_dash_and_keep_their_order():
    texts = ("-5", "-5 degrees", "a", "- Hello", "-", "")
    config = translate("--beam_width", "3", *texts, "--n_best=2")
    assert config.lines == texts
    assert (config.search.beam_width, config.search.n_best) == (3, 2)
    assert translate("--n_best=2", "a", "--", "--help", "-x").lines == ("a", "--help", "-x")


@pytest.mark.parametrize("flag", ["--beam_widht", "--beam.width=4"])
def test_unknown_flag_is_an_error_among_texts(flag: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        translate("a", flag, "4")
    assert flag in capsys.readouterr().err


def test_value_of_a_flag_may_begin_with_a_dash_and_have_spaces():
    assert translate("--length_penalty", "-0.5", "a").search.length_penalty == -0.5
    assert translate("--input=my file.txt").input == "my file.txt"


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
