"""The command line: one list of flags from presets, a file and the user."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from config import Config, parse, parse_with_names
from tests.helpers import processes
from tests.helpers.commands import ROOT
from tests.helpers.faults import Run
from tests.helpers.runs import last_state
from translate_ddp import __version__
from translate_ddp.errors import UserError
from translate_ddp.presets import PRESETS, choose_preset, fit_vocabulary, with_preset

# The flags that scripts and habits rely on: the tutorial's, from which this descends, and ours.
FLAGS = """
    batch_size num_epochs lr seq_len d_model lang_src lang_tgt model_folder model_basename preload
    tokenizer_file wandb_group preset dataset validation vocab_size num_heads num_encoder_layers
    num_decoder_layers d_ff dropout label_smoothing batch_tokens max_tokens max_steps warmup_steps
    clip_grad_norm seed precision deterministic backend bucket_cap_mb log_every validate_every
    validate_on best_metric save_every save_every_minutes keep_last wandb_project wandb_mode
    config perturb dataset_weight bidirectional
""".split()


def settings(*flags: str) -> dict[str, object]:
    parts = parse(flags).to_dict()
    return {name: value for part in parts.values() for name, value in part.items()}


def help_of(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The text of --help, without its boxes and line breaks."""
    with pytest.raises(SystemExit) as raised:
        parse([*flags, "--help"])
    assert raised.value.code == 0
    return re.sub(r"[│╭╮╰╯─\s]+", " ", capsys.readouterr().out)


@pytest.mark.parametrize("program", [["train.py"], ["-m", "translate_ddp", "train"]])
@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--help"], 0, ""),
        (["--lr", "nope"], 2, "--lr"),
        (["--best_metric", "f1"], 2, "error: There is no validation metric 'f1' for"),
    ],
)
def test_help_and_errors_do_not_import_torch(
    program: list[str], flags: list[str], code: int, message: str
):
    command = [sys.executable, "-X", "importtime", *program, *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    lines = done.stderr.splitlines()
    imported = {line.split("|")[-1].strip() for line in lines if line.startswith("import time:")}
    assert "translate_ddp.settings" in imported and "torch" not in imported
    printed = "\n".join(line for line in lines if not line.startswith("import time:"))
    assert message in printed and "Traceback" not in printed
    assert printed.count("error:") == message.count("error:")


def test_help_into_a_closed_pipe_prints_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "train.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_explains_every_flag(capsys: pytest.CaptureFixture[str]):
    text = help_of(capsys)
    assert set(FLAGS) <= set(re.findall(r"--(\w+)", text))
    for part in ("corpus", "model", "optimizer", "checkpoint", "distributed"):
        assert f"{part} options" in text
    undocumented = re.findall(r"--\w+ (?:STR|INT|FLOAT|\{\S+\}) \(default", text)
    assert not undocumented


def test_help_shows_the_values_of_the_preset(capsys: pytest.CaptureFixture[str]):
    text = help_of(capsys, "--preset", "base")
    assert "--d_model INT Model width. (default: 512)" in text
    assert "peak is lower. (default: 0.0007)" in text
    text = help_of(capsys)
    assert "--d_model INT Model width. (default: 128)" in text
    assert "with several directions chrf. (default: auto)" in text


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    for prints, text in ((True, f"translate_ddp {__version__}\n"), (False, "")):
        with pytest.raises(SystemExit) as raised:
            parse(["--version"], prints=prints)
        assert not raised.value.code and capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("pairs", "preset"),
    [
        *[(1, "few"), (9_999, "few"), (10_000, "small"), (99_999, "small")],
        *[(100_000, "medium"), (999_999, "medium"), (10**6, "base")],
    ],
)
def test_auto_preset_depends_on_the_number_of_training_pairs(pairs: int, preset: str):
    assert choose_preset("auto", ("some/where",), pairs) == preset
    assert choose_preset("big", ("some/where",), pairs) == "big"
    tuned = "small" if preset == "few" else preset
    assert choose_preset("auto", ("some/where",), pairs, is_new=False) == tuned


@pytest.mark.parametrize(
    ("flags", "epochs"),
    [([], 30), (["--num_epochs", "20"], 13), (["--num_epochs", "20", "--swap_epochs", "18"], 18)],
)
def test_a_third_of_the_epochs_swaps_no_pairs_unless_chosen(flags: list[str], epochs: int):
    chosen = parse(["--preset", "few", *flags])
    auto, given = parse_with_names(["--dataset", "some/where", *flags])
    for config in (chosen, with_preset(auto, "few", given)):
        assert config.mix.swap_epochs == epochs and config.batches.batch_tokens == 2048


@pytest.mark.parametrize("preset", ["small", "base", "tiny"])
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], ""),
        (["--d_ff", "96", "--no-perturb", "--num_epochs=3"], ""),
        (["--d_ff", "96"], "d_model: 64\nperturb: false\ndataset: [x, y]\n"),
        (
            ["--dataset", "x", "y", "--bidirectional"],
            "tags: ['', '<bt>']\ndataset_weight: [1, 0]\n",
        ),
        ([], "dataset: [x, y]\ntags: []\n"),
    ],
)
def test_preset_of_the_number_of_pairs_is_that_of_the_flag(
    tmp_path: Path, flags: list[str], text: str, preset: str
):
    file = tmp_path / "run.yaml"
    file.write_text(text or "{}")
    flags = [*([] if "dataset" in text else ["--dataset", "x", "y"]), *flags, "--config", str(file)]
    config, given = parse_with_names(flags)
    assert config.run.preset == "auto"
    assert with_preset(config, preset, given) == parse([*flags, "--preset", preset])


def test_given_settings_that_do_not_fit_the_chosen_preset_are_an_error():
    config, given = parse_with_names(["--dataset", "x", "--d_model", "100"])
    assert with_preset(config, "medium", given).model.d_model == 100  # of 4 heads
    with pytest.raises(UserError, match="d_model .* multiple of num_heads, but is 100 with 8"):
        with_preset(config, "base", given)


def test_the_vocabulary_grows_with_the_languages():
    for targets, size in ((1, 5000), (2, 5500), (8, 8500), (31, 20_000), (60, 20_000)):
        codes = tuple(f"x{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(targets))
        config = replace(Config(), corpus=replace(Config().corpus, lang_tgt=codes))
        config = with_preset(config, "small", {"lang_tgt"})
        assert fit_vocabulary(config).tokenizer.vocab_size == size


def test_auto_preset_of_the_demo_is_tiny_and_that_of_a_corpus_not_yet_counted_stays():
    assert parse([]).run.preset == choose_preset("auto", ("demo",), 10**6) == "tiny"
    config = parse(["--dataset", "some/where"])
    assert config.run.preset == "auto" and config.model.d_model == PRESETS["small"]["d_model"]


def train_while_the_file_changes(arguments: list[str], file: Path) -> None:
    """`train.py`, as if the user edited its YAML file while the pairs are counted."""
    from translate_ddp.training import run

    count = run.count_pairs

    def count_and_edit(*given: Any) -> int:
        file.write_text("label_smoothing: 0.3\n")
        return count(*given)

    with patch.object(run, "count_pairs", count_and_edit):
        processes.run_train(arguments)


def test_file_of_settings_may_change_once_the_run_has_begun(run: Run):
    file = run.folder.parent / "run.yaml"
    file.write_text("label_smoothing: 0.2\n")
    at = run.flags.index("--optimizer")  # which the chosen preset is to set
    flags = [*run.flags[:at], *run.flags[at + 2 :], "--preset", "auto", "--config", str(file)]
    flags += ["--max_steps", "1"]
    job = processes.start(train_while_the_file_changes, run.folder, 1, None, flags, file)
    assert "Chose --preset few for 25" in job.succeed()
    config = last_state(run.folder)["run"]["config"]
    assert config["run"] == {"preset": "few", "config": str(file)}
    assert (config["loss"]["label_smoothing"], config["optimizer"]["optimizer"]) == (0.2, "muon")
    file.write_text("label_smoothing: 0.2\n")
    flags[-1] = "2"
    output = processes.train(flags, run.folder).succeed()
    assert "Resuming from" in output and "preset  few" in output


def test_flags_override_the_file_and_the_file_overrides_the_preset(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("preset: base\nd_model: 64\nd_ff: 99\n")
    found = settings("--config", str(file), "--d_ff", "77")
    assert (found["num_heads"], found["d_model"], found["d_ff"]) == (8, 64, 77)
    found = settings("--config", str(file), "--preset", "big")
    assert (found["num_heads"], found["d_model"], found["d_ff"]) == (16, 64, 99)


def test_yaml_values_are_read_as_text(tmp_path: Path):
    # YAML's own rules make `no` (Norwegian) false and 1e-4 a string.
    file = tmp_path / "run.yaml"
    file.write_text(
        "lang_tgt: no\nlr: 1e-4\ndeterministic: true\ndataset: data/train\npreload: ''\n"
    )
    found = settings("--config", str(file))
    assert (found["lang_tgt"], found["lr"], found["deterministic"]) == (("no",), 1e-4, True)
    assert found["preload"] == ""


def assert_reads_back(config: Config, file: Path) -> None:
    found = parse(["--config", str(file)])
    assert found.checkpoint.preload == "latest"  # the file of a run continues it
    checkpoint = replace(config.checkpoint, preload="latest")
    assert replace(found, run=config.run) == replace(config, checkpoint=checkpoint)


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--preset", "base", "--lr", "1e-5", "--deterministic"],
        ["--dataset", "a", "b", "--dataset_weight", "0.5", "2.5", "--tags", "", "<bt>"],
        ["--dataset", "a b: 'c' #é", "--lang_src", "no", "--preload", ""],
        ["--wandb_group=-x", "--timeout_minutes", "inf", "--clip_grad_norm", "inf"],
    ],
)
def test_configuration_as_yaml_reads_back_the_same(tmp_path: Path, flags: list[str]):
    file = tmp_path / "config.yaml"
    file.write_text(parse(flags).to_yaml(), encoding="utf-8")
    assert_reads_back(parse(flags), file)


def test_run_writes_its_configuration_to_the_model_folder(uninterrupted: Callable[..., Run]):
    run = uninterrupted()
    assert_reads_back(parse(run.flags), run.folder / "config.yaml")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batch_siz", "3"], "--batch_size"),
        (["--lr", "fast"], "--lr"),
        (["--precision", "fp8"], "--precision"),
        (["--num_heads", "7"], "multiple of num_heads"),
        (["--seq_len", "9000"], "batch_tokens"),
        (["--max_tokens", "200"], "seq_len 256 is more than max_tokens 200"),
        (["--simcut", "3", "--max_tokens", "300"], "which simcut doubles"),
        (["--lang_src", "it"], "must differ"),
        (["--seed", str(2**63)], "seed must lie in 0 to 2**63 - 1"),
        (["--max_minutes", "nan"], "max_minutes must be at least 0, but is nan"),
        (["--preset", "huge"], "--preset"),
    ],
)
def test_unusable_flag_is_one_message_with_exit_code_2(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    printed = output_of_wrong(flags, capsys)
    assert message in printed and "Traceback" not in printed
    assert output_of_wrong(flags, capsys, prints=False) == ""  # as on every other rank


def output_of_wrong(
    flags: list[str], capsys: pytest.CaptureFixture[str], prints: bool = True
) -> str:
    with pytest.raises(SystemExit) as raised:
        parse(flags, prints=prints)
    assert raised.value.code == 2
    captured = capsys.readouterr()
    return captured.err + captured.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: [1, 2]", "one plain value, not"),
        ("dataset: {corpus: a.tsv}", "dataset must have one plain value or a list of them, not"),
        ("dataset: [{path: a.tsv}]", "dataset must have one plain value or a list of them, not"),
        ("lr: 1\nseed: 3\nlr: 2", "holds lr twice"),
        ("config: base.yaml", "there is no setting 'config'"),
        ("batch_siz: 3", "no setting .batch_siz."),
        ("a: {", "not YAML"),
        ("just words", "name: value"),
        ("deterministic: maybe", "true or false"),
    ],
)
def test_unusable_file_is_named(tmp_path: Path, text: str, message: str):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=f"run.yaml.*{message}"):
        parse(["--config", str(file)])
    with pytest.raises(UserError, match="missing.yaml cannot be read"):
        parse(["--config", str(tmp_path / "missing.yaml")])
