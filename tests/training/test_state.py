"""The schema of a checkpoint: names in the file, and what is rejected by name."""

import re
from dataclasses import fields
from typing import Any

import pytest

from tests.helpers.states import make_state
from translate_ddp import __version__
from translate_ddp.errors import UserError
from translate_ddp.training.state import RunState

PARTS = [part.name for part in fields(RunState)]


def test_names_in_the_file_are_stable():
    # Other programs read these.
    file = make_state(7).to_dict()
    assert file.keys() == {"format", "version", *PARTS}
    assert file["format"] == 3 and file["version"] == __version__
    assert file["model"].keys() == {"weights"} and "state" in file["optimizer"]
    assert file["position"]["global_step"] == 7


def test_longest_source_of_an_earlier_checkpoint_is_what_seq_len_allows():
    state = make_state()
    assert state.longest_source == state.run.config["batches"]["seq_len"] - 1 == 255
    saved = state.to_dict()
    saved["run"]["longest_source"] = 44
    assert RunState.from_dict(saved, "x.pt").longest_source == 44
    del saved["run"]["longest_source"]
    assert RunState.from_dict(saved, "x.pt").longest_source == 255


def test_earlier_checkpoint_has_no_learnt_abbreviations():
    saved = make_state().to_dict()
    saved["run"]["abbreviations"] = {"en": ["sen"]}
    assert RunState.from_dict(saved, "x.pt").run.abbreviations == {"en": ["sen"]}
    del saved["run"]["abbreviations"]
    assert RunState.from_dict(saved, "x.pt").run.abbreviations == {}


@pytest.mark.parametrize(
    ("header", "written_by"),
    [({"format": 1}, "before 0.2.0"), ({"format": 9, "version": "9.1"}, "9.1")],
)
def test_other_formats_are_rejected_by_name(header: dict[str, Any], written_by: str):
    with pytest.raises(UserError) as raised:
        RunState.from_dict(header, "old.pt")
    assert str(raised.value).startswith(
        f"old.pt has checkpoint format {header['format']} (written by translate_ddp {written_by}), "
        f"but translate_ddp {__version__} reads format 3"
    )


@pytest.mark.parametrize("data", [None, [], {}, {"model": {}}])
def test_files_of_other_programs_are_rejected(data: Any):
    with pytest.raises(UserError, match=r"^x\.pt is not a checkpoint of translate_ddp"):
        RunState.from_dict(data, "x.pt")


@pytest.mark.parametrize("part", PARTS)
def test_missing_part_is_named(part: str):
    data = make_state().to_dict()
    del data[part]
    with pytest.raises(UserError, match=rf"^x\.pt is an incomplete checkpoint: it lacks {part}\.$"):
        RunState.from_dict(data, "x.pt")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model", []),
        ("position", [1]),
        ("position", {"epoch": "one"}),
        ("position", {"epoch": 1, "unknown": 2}),
        ("run", {}),
        ("run", "text"),
        ("run", {"run_id": "1", "config": {}, "identity": {}}),
        ("run", {"run_id": 1, "config": {}, "identity": {"always": {}, "within_epoch": {}}}),
        ("run", {"run_id": "1", "config": {}, "identity": {"always": 1, "within_epoch": {}}}),
        ("log_offset", {"size": "3"}),
    ],
)
def test_wrong_type_is_one_message_with_the_file(part: str, value: Any):
    with pytest.raises(UserError) as raised:
        RunState.from_dict(make_state().to_dict() | {part: value}, "x.pt")
    assert re.fullmatch(r"x\.pt is an incomplete checkpoint: .+\.", str(raised.value))
