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
RUN, FACTS = make_state().to_dict()["run"], make_state().facts.to_dict()


def test_names_in_the_file_are_stable():
    # Other programs read these.
    file = make_state(7).to_dict()
    assert file.keys() == {"format", "version", *PARTS}
    assert file["format"] == 5 and file["version"] == __version__
    assert file["model"].keys() == {"weights"} and "state" in file["optimizer"]
    assert file["position"]["global_step"] == 7


@pytest.mark.parametrize(
    ("header", "version"),
    [({"format": 1}, "not known"), ({"format": 9, "version": "9.1"}, "9.1")],
)
def test_other_formats_are_rejected_in_one_sentence(header: dict[str, Any], version: str):
    with pytest.raises(UserError) as raised:
        RunState.from_dict(header, "old.pt")
    assert str(raised.value) == (
        f"old.pt has checkpoint format {header['format']}, but translate_ddp {__version__} reads "
        f"format 5: use the version that wrote it ({version}), or train again in another "
        "--model_folder."
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
        ("run", {name: value for name, value in RUN.items() if name != "config"}),
        ("run", RUN | {"identity": {}}),
        ("run", RUN | {"run_id": 1}),
        ("facts", 1),
        ("facts", FACTS | {"tokenizer": 1}),
        ("facts", FACTS | {"tokenizer": "{}"}),
        ("facts", FACTS | {"directions": [["en"]]}),
        ("facts", FACTS | {"longest_source": None}),
        ("facts", FACTS | {"length_ratios": {"en-it": [2.0]}}),
        ("facts", FACTS | {"identifier": {"languages": ["en", "it"], "log_probs_LV": "AAAA"}}),
        ("run", RUN | {"identity": {"always": 1, "within_epoch": {}}}),
        ("log_offset", {"size": "3"}),
    ],
)
def test_wrong_type_is_one_message_with_the_file(part: str, value: Any):
    with pytest.raises(UserError) as raised:
        RunState.from_dict(make_state().to_dict() | {part: value}, "x.pt")
    assert re.fullmatch(r"x\.pt is an incomplete checkpoint: .+\.", str(raised.value))
