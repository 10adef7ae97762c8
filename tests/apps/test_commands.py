"""The commands and the Python API that use a trained model, and files that they reject."""

from pathlib import Path

import pytest
import torch

from tests.helpers.commands import translate_ddp
from tests.helpers.runs import last_state
from tests.helpers.sources import record_sources
from tests.helpers.states import make_facts
from tests.helpers.texts import ODD_TEXTS, SCRIPTS
from translate_ddp.apps.commands import model_commands, translate
from translate_ddp.errors import UserError
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.text import normalize
from translate_ddp.translator import Translator

LINES = ["sun moon river", "", "tree", " \t", "stone bird fish wolf tree", "caf\udce9 ☃"]


@pytest.mark.parametrize("preload", ["", "latest", "best", "2"])
def test_a_saved_model_without_a_path_is_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preload: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2").mkdir()  # no path, also if there is one
    assert translate.SavedModel("run", preload=preload).path == Path("run")
    assert translate.SavedModel("run", preload="x.pt").path == Path("x.pt")
    (tmp_path / "average.pt").touch()
    assert translate.SavedModel("average.pt", preload=preload).path == Path("average.pt")


def test_unknown_command_lists_the_known_ones(tmp_path: Path):
    code, output = translate_ddp(tmp_path, "transalte")
    assert code == 2 and "no command 'transalte'" in output
    assert "usage: translate-ddp COMMAND" in output
    assert "translate " in output and "validate " in output


def test_blank_lines_stay_blank_and_order_is_kept(trained: Path):
    translator = Translator.open(str(trained))
    translations = translator.translate(LINES)
    assert translations[1] == "" != translations[0] and translations[3] == LINES[3]
    alone = [translator.translate([line])[0] for line in LINES]
    assert translations == alone
    assert translator.translate([]) == [] and translator.translate(["", " "]) == ["", " "]


def test_sentences_of_a_line_are_translated_one_by_one(trained: Path):
    translator = Translator.open(str(trained))
    sentences = ["Sun moon river.", "Is it a tree?", "\u201cStone!\u201d", "Fish wolf."]
    one_by_one = translator.translate(sentences)
    assert all(one_by_one)
    assert translator.translate(["", "  ".join(sentences), "tree"]) == [
        "",
        " ".join(one_by_one),
        *translator.translate(["tree"]),
    ]
    japanese = Translator(translator.engine, make_facts(translator.tokenizer, ("en", "ja")))
    assert japanese.translate([" ".join(sentences)]) == ["".join(one_by_one)]


def test_line_is_normalized_as_training_text_is(trained: Path):
    translator = Translator.open(str(trained))
    texts = ["sun moon", "\ufeff sun \t moon", "\u200esun\u00a0moon\u200b"]
    plain, *others = translator.translate(texts)
    assert others == [plain] * 2 and plain


def test_line_breaks_and_spaces_at_the_ends_are_kept(trained: Path):
    translator = Translator.open(str(trained))
    sun, moon = translator.translate(["sun", "- moon."])
    assert moon.startswith("- ")
    texts = ["  sun\r\n\n\t- moon. \n", "sun\u2028- moon."]
    assert translator.translate(texts) == [f"  {sun}\r\n\n\t{moon} \n", f"{sun}\u2028{moon}"]


LONG = "sun moon river tree, " * 100


def test_sentence_longer_than_training_is_translated_in_parts(
    trained: Path, monkeypatch: pytest.MonkeyPatch, one_search: None
):
    translator = Translator.open(str(trained))
    limit = 20  # no sentence of its training is as long
    assert translator.facts.longest_source == limit
    (ids,) = translator.tokenizer.encode([LONG.strip()])
    parts = record_sources(translator, monkeypatch)
    with pytest.warns(UserWarning) as warned:
        translations = translator.translate(["sun", LONG], 1)
    assert sum(parts[1:], []) == ids
    assert all(limit / 2 < len(part) <= limit for part in parts[1:-1])
    assert all(text.endswith(",") for text in translator.tokenizer.decode(parts[1:]))
    expected = f"a sentence of {len(ids)} tokens, longer than in training (up to {limit}), is"
    assert str(warned[0].message) == f"Text 1: {expected} translated in {len(parts) - 1} parts."
    assert warned[0].filename == __file__
    best = [best.ids for (best,) in translator.engine.translate([*parts], NBestConfig(1))]
    short, *alone = map(normalize, translator.tokenizer.decode(best))
    assert translations == [short, " ".join(alone) + " "] and all([short, *alone])


def test_command_names_the_text_of_a_long_sentence(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(model_commands, "ROWS", 2)
    lines = ("sun", LONG, "moon", "", "tree", LONG)
    translate.run(
        translate.TranslateConfig(
            lines, saved=translate.SavedModel(str(trained)), search=NBestConfig(1)
        )
    )
    captured = capsys.readouterr()
    assert [line.split(":")[0] for line in captured.err.splitlines()] == ["Text 2", "Text 6"]
    assert captured.out.count("\n") == len(lines)


def test_any_text_is_translated_to_one_line(trained: Path, capsys: pytest.CaptureFixture[str]):
    texts = (*ODD_TEXTS, *SCRIPTS, "a\udce9b", "line\nbreak")
    saved = translate.SavedModel(str(trained))
    translate.run(translate.TranslateConfig(texts, saved=saved, search=NBestConfig(1)))
    assert len(capsys.readouterr().out.splitlines()) == len(texts)


def test_beam_width_is_four_unless_another_is_given(trained: Path, one_search: None):
    translator, lines = Translator.open(str(trained)), ["sun moon river", "fish", "moon moon"]
    assert translator.translate(lines) == translator.translate(lines, 4)
    hypotheses = translator.engine.translate(
        translator.tokenizer.encode(lines), NBestConfig(beam_width=1)
    )
    decoded = translator.tokenizer.decode([best.ids for (best,) in hypotheses])
    greedy = list(map(normalize, decoded))
    assert translator.translate(lines, 1) == greedy != translator.translate(lines)


def test_epoch_and_file_open_the_same_model(trained: Path, tmp_path: Path):
    (epoch_1,) = trained.glob("tmodel_epoch_0001_*")
    copy = tmp_path / "copy.pt"  # the file alone is enough
    copy.write_bytes(epoch_1.read_bytes())
    opened = [
        Translator.open(str(trained), "1"),
        Translator.open(str(trained), str(epoch_1)),
        Translator.open(preload=str(copy)),
        Translator.open(str(copy)),
    ]
    latest = Translator.open(str(trained))
    assert {each.state.position.epoch for each in opened} == {1}
    assert latest.state.position.epoch == 2
    first, *others, last = [each.state.model["embedding.weight"] for each in (*opened, latest)]
    assert all(torch.equal(first, other) for other in others) and not torch.equal(first, last)


@pytest.mark.parametrize(
    ("name", "value"),
    # The last one is a setting that this version does not know.
    [("d_model", 2**40), ("num_encoder_layers", 10**9), ("d_ff", 64), ("unknown", 1)],
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


def test_n_best_translations_begin_with_the_best_and_have_its_sentences(trained: Path):
    translator = Translator.open(str(trained))
    lines = ["sun moon river. fish wolf.", "", "moon"]
    found = translator.translate(lines, beam_width=4, n_best=2)
    assert [best.text for best, _ in found] == translator.translate(lines)
    assert found[0][0].text != found[0][1].text
    sources = [[sentence.source for sentence in best.sentences] for best, _ in found]
    assert sources == [["sun moon river.", "fish wolf."], [], ["moon"]]
