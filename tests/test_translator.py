"""The Python API, compared with the command, and files that it rejects."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.helpers.commands import translate
from tests.helpers.faults import Run
from tests.helpers.runs import last_state
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding import decode
from translate_ddp.translator import Translator

LINES = ["sun moon river", "", "tree", " \t", "stone bird fish wolf tree", "caf\udce9 ☃"]


@pytest.fixture(scope="module")
def trained(uninterrupted: Callable[..., Run]) -> Path:
    return uninterrupted().folder


@pytest.mark.parametrize("beam_width", [1, 4])
def test_translations_equal_what_the_command_prints(trained: Path, beam_width: int):
    translations = Translator.open(str(trained)).translate(LINES, beam_width)
    flags = ["--model_folder", str(trained), "--beam_width", str(beam_width)]
    done = translate("translate", *LINES, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"{line}\n" for line in translations)


def test_blank_lines_stay_blank_and_order_is_kept(trained: Path):
    translator = Translator.open(str(trained))
    translations = translator.translate(LINES)
    assert translations[1] == translations[3] == "" != translations[0]
    alone = [translator.translate([line])[0] for line in LINES]
    assert translations == alone
    assert translator.translate([]) == [] and translator.translate(["", " "]) == ["", ""]


def test_beam_width_is_that_of_the_search(trained: Path):
    translator, lines = Translator.open(str(trained)), ["sun moon river", "fish", "moon moon"]
    ids = translator.tokenizer.encode(lines)
    found = {}
    for width in (1, 4):
        hypotheses = decode(
            translator.model.start, ids, translator.device, beam_width=width, max_tokens=4096
        )
        found[width] = translator.tokenizer.decode([each.ids for each in hypotheses])
        assert translator.translate(lines, width) == found[width]
    assert found[1] != found[4]
    assert translator.translate(lines) == found[4]


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


def test_folder_without_a_checkpoint_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=f"{tmp_path} holds no checkpoint named tmodel_"):
        Translator.open(str(tmp_path))


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
