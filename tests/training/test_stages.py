"""Stages: weights of the datasets that change after some epochs (in YAML files)."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from config import parse
from tests import faults
from tests.helpers.mixes import run_with, write_settings
from tests.helpers.runs import assert_same_run, last_state, records
from translate_ddp.errors import UserError
from translate_ddp.settings import OptimizerConfig, Stage
from translate_ddp.training.optimizer import learning_rate

# 120 pairs per epoch, then 0.5 * 120 + 2.5 * 60 = 210.
STAGES = [{"epochs": 1, "dataset_weight": [1, 0]}, {"epochs": 2, "dataset_weight": [0.5, 2.5]}]
LINEAR = ["--schedule", "linear"]  # the learning rate then depends on the progress of the run


def steps_of_epochs(text: str) -> list[int]:
    """The step at the end of each epoch."""
    lines = [line for line in text.splitlines() if "validation loss" in line]
    return [int(line.split("step ")[1].split(":")[0].replace(",", "")) for line in lines]


def test_stages_are_trained_one_after_the_other(tmp_path: Path):
    run = run_with(tmp_path, stages=STAGES)
    output = run.start().succeed()
    assert f"120 of {tmp_path}/one + 0 of {tmp_path}/two, then 60 of " in output
    ends = steps_of_epochs(output)
    first = ends[0]
    assert f"{first} in 1 epoch, then {ends[1] - first} in 2 epochs steps per epoch" in output
    assert f"epoch 1/3 100% {first}/{first}" in output
    assert f"epoch 3/3 100% {ends[2] - ends[1]}/{ends[2] - ends[1]}" in output
    assert last_state(run.folder)["position"]["epoch"] == 3
    # The file that the run writes has the same settings.
    written = parse(["--config", str(run.folder / "config.yaml"), "--preload", "latest"])
    given = parse(run.flags)
    assert replace(written, run=given.run) == given
    assert [stage.epochs for stage in written.mix.stages] == [1, 2]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an uninterrupted run."""
    run = run_with(tmp_path_factory.mktemp("straight"), stages=STAGES)
    run.start(*LINEAR).succeed()
    return run.folder


def test_learning_rate_falls_with_the_pairs_that_are_done(straight: Path):
    found = records(straight)
    ends = [0, *(record["step"] for record in found if "validation/loss" in record)]
    pairs = [120, 210, 210]
    for record in (record for record in found if "train/lr" in record):
        done = record["step"] - 1  # before the update
        epoch = sum(end <= done for end in ends[1:])
        part = (done - ends[epoch]) / (ends[epoch + 1] - ends[epoch])
        progress = (sum(pairs[:epoch]) + part * pairs[epoch]) / sum(pairs)
        settings = OptimizerConfig(lr=0.002, warmup_steps=20, schedule="linear")
        assert record["train/lr"] == pytest.approx(learning_rate(done, settings, progress))


@pytest.mark.parametrize("after_first_epoch", [0, 9])
def test_killed_run_ends_like_the_uninterrupted_one(
    tmp_path: Path, straight: Path, after_first_epoch: int
):
    run = run_with(tmp_path, stages=STAGES)
    first = next(r["step"] for r in records(straight) if "validation/loss" in r)
    run.start(*LINEAR, fault=faults.kill("batch", time=first + after_first_epoch)).kill_rest()
    run.start(*LINEAR).succeed()
    assert_same_run(straight, run.folder)


def test_weights_may_change_between_epochs_but_not_within_one(tmp_path: Path):
    run = run_with(tmp_path, stages=STAGES)
    run.start("--max_steps", "5").succeed()
    other = [{"epochs": 1, "dataset_weight": [1, 1]}, STAGES[1]]
    write_settings(tmp_path, stages=other)
    job = run.start()
    assert job.wait()[0] == 2
    output = job.text()
    assert (
        "pairs of an epoch: 1 x 120 pairs, 0 x 60 pairs in the checkpoint, each pair once now"
        in output
    )
    # A later stage may change: it has not begun.
    later = [STAGES[0], {"epochs": 1, "dataset_weight": [0, 1]}]
    write_settings(tmp_path, stages=later)
    output = run.start().succeed()
    assert "Changed: stages: " in output and "Changed: num_epochs: 3 in the checkpoint, 2" in output
    # After an epoch, all may change.
    write_settings(tmp_path, stages=[*other, {"epochs": 1, "dataset_weight": [1, 0]}])
    run.start("--num_epochs", "4").succeed()
    assert last_state(run.folder)["position"]["epoch"] == 4


def test_patience_counts_in_the_last_stage_only(tmp_path: Path):
    stages = [{"epochs": 3, "dataset_weight": [0, 0.2]}, {"epochs": 9, "dataset_weight": [0, 0.3]}]
    # No weight changes at this rate, so no epoch is better than the first.
    run = run_with(tmp_path, stages=stages, best_metric="loss", patience=2, lr=1e-30)
    run.flags = [*run.flags[: run.flags.index("--lr")], *run.flags[run.flags.index("--lr") + 2 :]]
    output = run.start().succeed()
    assert "Finished at epoch 5, " in output and "(no better loss since epoch 1)" in output
    assert last_state(run.folder)["position"]["epoch"] == 5


def test_epochs_are_those_of_the_stages(tmp_path: Path):
    flags = write_settings(tmp_path, stages=STAGES)
    config = parse(flags)
    assert config.train.num_epochs == 3
    assert config.mix.stages == (Stage(1, (1.0, 0.0)), Stage(2, (0.5, 2.5)))
    assert parse([*flags, "--num_epochs", "3"]) == config
    with pytest.raises(UserError, match="num_epochs is 4, but the stages have 3 epochs"):
        parse([*flags, "--num_epochs", "4"])
    with pytest.raises(UserError, match="omit dataset_weight outside of stages"):
        parse([*flags, "--dataset_weight", "1", "1"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stages", "5"),
        ("stages", [5]),
        ("stages", [{"dataset_weight": [1, 1]}]),
        ("stages", [{"epochs": "two", "dataset_weight": [1, 1]}]),
        ("stages", [{"epochs": 2, "dataset_weight": 1}]),
        ("stages", [{"epochs": 2, "weights": [1, 1]}]),
        ("tags", "<bt>"),
        ("tags", [["<bt>"], ""]),
        ("directions", ["en-de"]),
        ("directions", [["en", "de", "it"]]),
        ("directions", [["en", ["de"]]]),
    ],
)
def test_other_forms_in_yaml_files_are_rejected(tmp_path: Path, name: str, value: object):
    with pytest.raises(UserError, match="stages, tags and directions must have this form:"):
        parse(write_settings(tmp_path, **{name: value}))


@pytest.mark.parametrize("epochs", [0, -1])
def test_stage_without_epochs_is_rejected(tmp_path: Path, epochs: int):
    stages = [STAGES[1], {"epochs": epochs, "dataset_weight": [1, 1]}]
    with pytest.raises(UserError, match="A stage has less than one epoch"):
        parse(write_settings(tmp_path, stages=stages))


@pytest.mark.parametrize("settings", [{}, {"stages": STAGES, "tags": ["", "<bt>"]}])
def test_written_settings_read_back_equal(tmp_path: Path, settings: dict[str, object]):
    config = parse(write_settings(tmp_path, **settings))
    path = tmp_path / "written.yaml"
    path.write_text(config.to_yaml())
    assert replace(parse(["--config", str(path)]), run=config.run) == config
    assert yaml.safe_load(path.read_text())["tags"] == settings.get("tags", [])
