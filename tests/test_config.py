"""The command line: one list of flags from presets, a file and the user."""

import subprocess
import sys
from pathlib import Path

import pytest

from translate_ddp.errors import UserError
from translate_ddp.presets import PRESETS, parse

ROOT = Path(__file__).resolve().parents[1]

# The flags that scripts and habits rely on: those of the tutorial this descends from, and ours.
FLAGS = """
    batch_size num_epochs lr seq_len d_model lang_src lang_tgt model_folder model_basename preload
    tokenizer_file wandb_group preset dataset validation vocab_size num_heads num_encoder_layers
    num_decoder_layers d_ff dropout label_smoothing batch_tokens max_tokens max_steps warmup_steps
    clip_grad_norm seed precision compile backend bucket_cap_mb log_every validate_every validate_on
    save_every save_every_minutes keep_last wandb_project wandb_mode config
""".split()


def settings(*flags: str) -> dict[str, object]:
    parts = parse(flags).to_dict()
    return {name: value for part in parts.values() for name, value in part.items()}


def test_every_flag_is_there_by_its_name():
    assert set(FLAGS) <= set(settings())


@pytest.mark.parametrize(("flags", "code"), [(["--help"], 0), (["--lr", "nope"], 2)])
def test_help_and_complaints_do_not_wait_for_torch(flags: list[str], code: int):
    command = [sys.executable, "-X", "importtime", "train.py", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "translate_ddp.settings" in imported and "torch" not in imported


def test_help_explains_every_flag(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        parse(["--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0
    for flag in FLAGS:
        assert f"--{flag}" in said
    for part in ("corpus", "model", "optimizer", "checkpoint", "distributed"):
        assert f"{part} options" in said


def test_the_demo_is_tiny_and_other_corpora_small():
    assert settings()["d_model"] == 128
    assert settings("--dataset", "some/where")["d_model"] == PRESETS["small"]["d_model"]


def test_flags_win_over_the_file_and_the_file_over_the_preset(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("preset: base\nd_model: 64\nd_ff: 99\n")
    found = settings("--config", str(file), "--d_ff", "77")
    assert (found["num_heads"], found["d_model"], found["d_ff"]) == (8, 64, 77)


def test_yaml_values_stay_the_text_they_are(tmp_path: Path):
    # YAML's own rules make `no` (Norwegian) false and 1e-4 a string.
    file = tmp_path / "run.yaml"
    file.write_text("lang_tgt: no\nlr: 1e-4\ncompile: true\ndataset: data/train\npreload: ''\n")
    found = settings("--config", str(file))
    assert (found["lang_tgt"], found["lr"], found["compile"]) == ("no", 1e-4, True)
    assert found["preload"] == ""


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--batch_siz", "3"], "--batch_size"),
        (["--lr", "fast"], "--lr"),
        (["--precision", "fp8"], "--precision"),
        (["--num_heads", "7"], "multiple of num_heads"),
        (["--seq_len", "9000"], "batch_tokens"),
        (["--lang_src", "it"], "must differ"),
        (["--preset", "huge"], "--preset"),
    ],
)
def test_a_mistake_is_told_once_with_exit_code_2(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stop:
        parse(flags)
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert said in captured.err + captured.out and "Traceback" not in captured.err
    with pytest.raises(SystemExit) as stop:
        parse(flags, prints=False)  # as on every other rank
    captured = capsys.readouterr()
    assert stop.value.code == 2 and captured.err + captured.out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [1, 2]", "one plain value"), ("a: {", "no YAML"), ("just words", "name: value")],
)
def test_an_unusable_file_is_named(tmp_path: Path, text: str, said: str):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=f"run.yaml.*{said}"):
        parse(["--config", str(file)])
    with pytest.raises(UserError, match="missing.yaml cannot be read"):
        parse(["--config", str(tmp_path / "missing.yaml")])


def test_a_typo_in_the_file_is_told_like_one_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "run.yaml"
    file.write_text("batch_siz: 3\n")
    with pytest.raises(SystemExit) as stop:
        parse(["--config", str(file)])
    captured = capsys.readouterr()
    assert stop.value.code == 2 and "--batch_size" in captured.err + captured.out
