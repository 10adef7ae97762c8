"""The Python API, and files that it rejects."""

from pathlib import Path

import pytest
import torch

from tests.helpers.runs import last_state
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding import decode
from translate_ddp.translator import Translator

LINES = ["sun moon river", "", "tree", " \t", "stone bird fish wolf tree", "caf\udce9 ☃"]


def test_blank_lines_stay_blank_and_order_is_kept(trained: Path):
    translator = Translator.open(str(trained))
    translations = translator.translate(LINES)
    assert translations[1] == translations[3] == "" != translations[0]
    alone = [translator.translate([line])[0] for line in LINES]
    assert translations == alone
    assert translator.translate([]) == [] and translator.translate(["", " "]) == ["", ""]


def test_beam_width_is_four_unless_another_is_given(trained: Path):
    translator, lines = Translator.open(str(trained)), ["sun moon river", "fish", "moon moon"]
    assert translator.translate(lines) == translator.translate(lines, 4)
    hypotheses = decode(
        translator.model.start,
        translator.tokenizer.encode(lines),
        translator.device,
        beam_width=1,
        max_tokens=4096,
    )
    greedy = translator.tokenizer.decode([each.ids for each in hypotheses])
    assert translator.translate(lines, 1) == greedy != translator.translate(lines)


def test_epoch_and_file_open_the_same_model(trained: Path, tmp_path: Path):
    (epoch_1,) = trained.glob("tmodel_epoch_0001_*")
    copy = tmp_path / "copy.pt"  # the file alone is enough
    copy.write_bytes(epoch_1.read_bytes())
    opened = [
        Translator.open(str(trained), "1"),
        Translator.open(str(trained), str(epoch_1)),
        Translator.open(preload=str(copy)),
    ]
    latest = Translator.open(str(trained))
    assert [each.state.position.epoch for each in opened] == [1, 1, 1]
    assert latest.state.position.epoch == 2
    weights = [each.state.model["embedding.weight"] for each in (*opened, latest)]
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], weights[3])
    assert opened[0].translate(LINES) == opened[1].translate(LINES) == opened[2].translate(LINES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("d_model", 2**40),
        ("num_encoder_layers", 10**9),
        ("d_ff", 64),
        ("activation", "gelu"),  # a setting that this version does not know
    ],
)
def test_file_whose_tensors_are_not_of_its_model_is_rejected(
    trained: Path, tmp_path: Path, name: str, value: object
):
    # Before it is built: the declared sizes may exceed any memory.
    state = last_state(trained)
    state["run"]["config"]["model"][name] = value
    torch.save(state, tmp_path / "huge.pt")
    with pytest.raises(UserError, match="does not fit its settings"):
        Translator.open(preload=str(tmp_path / "huge.pt"))
