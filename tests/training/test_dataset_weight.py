"""Weights and tags of several datasets, in a run and in YAML files."""

from pathlib import Path

import pytest

from config import parse
from tests import faults
from tests.helpers.mixes import run_with, write_settings
from tests.helpers.runs import assert_same_run, last_state
from translate_ddp.errors import UserError

WEIGHTS = [0.5, 2.5]  # 60 of 120 pairs and 150 of 60 in an epoch
EPOCHS = ["--num_epochs", "2", "--schedule", "linear"]


@pytest.mark.slow
def test_killed_run_ends_like_the_uninterrupted_one_and_may_then_change_its_weights(tmp_path: Path):
    straight = run_with(tmp_path, dataset_weight=WEIGHTS)
    output = straight.start(*EPOCHS).succeed()
    assert f"  epoch  60 of {tmp_path}/one + 150 of {tmp_path}/two pairs\n" in output
    run = straight.copy("killed")
    steps = last_state(straight.folder)["position"]["global_step"]
    run.start(*EPOCHS, fault=faults.kill("batch", time=steps * 3 // 4)).kill_rest()
    other = ["--dataset_weight", "1", "1"]
    job = run.start(*EPOCHS, *other)
    assert job.wait()[0] == 2
    assert "of an epoch: 60 of 120 + 150 of 60 in the checkpoint, 120 of 120 + 60 of" in job.text()
    run.start(*EPOCHS).succeed()
    assert_same_run(straight.folder, run.folder)
    assert "Changed: dataset_weight: " in run.start(*EPOCHS, *other, "--num_epochs", "3").succeed()
    assert last_state(run.folder)["position"]["epoch"] == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tags", [["<bt>"], ""]),
        ("directions", ["en-de"]),
        ("directions", [["en", "de", "it"]]),
    ],
)
def test_other_forms_in_yaml_files_are_rejected(tmp_path: Path, name: str, value: object):
    form = "one plain value or a list of them, not" if name == "tags" else "pairs such as"
    with pytest.raises(UserError, match=f"{name} must have {form} "):
        parse(write_settings(tmp_path, **{name: value}))


def test_flags_and_yaml_files_give_the_same_tags_and_directions(tmp_path: Path):
    pairs = [["en", "de"], ["de", "en"]]
    given = parse(write_settings(tmp_path, tags=["", "<bt>"], directions=pairs))
    flags = ["--tags", "", "<bt>", "--directions", "en", "de", "de", "en"]
    assert parse([*write_settings(tmp_path), *flags]).corpus == given.corpus
    assert list(map(list, given.corpus.directions)) == pairs
