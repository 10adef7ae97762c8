"""Paths that a user mistypes, or may not use, are one message and exit code 2."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from config import parse
from tests.helpers import processes
from tests.helpers.commands import run_translate_ddp, translate_ddp
from tests.helpers.runs import damage
from translate_ddp.apps.commands.command_line import parse as parse_command
from translate_ddp.apps.commands.translate import TranslateConfig

LONG = "a" * 300  # file systems allow 255 bytes
TRANSLATE = ["translate", "--model_folder", "{folder}/model"]
FOLDER = "{folder}/model is a folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TRANSLATE, "--input", LONG], f"{LONG} cannot be used: File name too long."),
        (["report", LONG], f"{LONG} cannot be used: File name too long."),
        ([*TRANSLATE, "--input", "{folder}/model"], f"{FOLDER}."),
        (["validate", "--preload", "{folder}"], "The folder {folder} holds no checkpoint: pass a"),
        (["info", "{folder}/x.pt"], "it is of another program, or damaged."),
        (["translate", "{folder}/a b"], "pass --input '"),
    ],
)
def test_unusable_path_is_one_message(
    trained: Path, tmp_path: Path, words: list[str], message: str
):
    (tmp_path / "model").symlink_to(trained)
    (tmp_path / "a b").touch()
    torch.save(torch.nn.Linear(1, 1), tmp_path / "x.pt")
    words = [word.format(folder=tmp_path) for word in words]
    code, output = translate_ddp(tmp_path, *words)
    assert code == 2 and "Traceback" not in output
    assert message.format(folder=tmp_path) in " ".join(output.split())
    assert "still be loaded" not in output


def test_full_disk_behind_the_output_is_one_message(trained: Path, tmp_path: Path):
    job = processes.start(print_to_a_full_disk, tmp_path, 1, None, str(trained))
    assert "error: The output cannot be used: No space left on device." in job.fail()


def print_to_a_full_disk(folder: str) -> None:
    sys.stdout = open("/dev/full", "w")  # noqa: SIM115
    run_translate_ddp(("translate", "--model_folder", folder, "sun"))


def test_closed_standard_input_has_no_lines(trained: Path, tmp_path: Path):
    job = processes.start(translate_without_input, tmp_path, 1, None, str(trained))
    assert job.succeed() == ""


def translate_without_input(folder: str) -> None:
    sys.stdin = None  # pyright: ignore[reportAttributeAccessIssue]
    run_translate_ddp(("translate", "--model_folder", folder))


def test_home_folder_is_expanded_where_a_shell_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", "/home/me")
    file = tmp_path / "run.yaml"
    file.write_text("model_folder: ~/m\ntokenizer_file: ~/t.json\n")
    config = parse(["--config", str(file), "--dataset", "a~/b", "--init_from=~/x.pt"])
    assert config.checkpoint.model_folder == "/home/me/m"
    assert config.tokenizer.tokenizer_file == "/home/me/t.json"
    assert (config.checkpoint.init_from, config.corpus.dataset) == ("/home/me/x.pt", ("a~/b",))
    found = parse_command(TranslateConfig, ["--model_folder=~/m", "~/is a text"], "translate")
    assert (found.saved.model_folder, found.lines) == ("/home/me/m", ("~/is a text",))


def test_only_names_of_checkpoints_hold_a_digest(trained: Path, tmp_path: Path):
    (epoch,) = trained.glob("tmodel_epoch_0002_*")
    assert damage(epoch) is None
    for name, is_damaged in (
        ("en-it-20251125.pt", False),
        ("tmodel_step_00000008-20251125.pt", True),
    ):
        shutil.copy(epoch, tmp_path / name)
        assert (damage(tmp_path / name) is not None) == is_damaged
