"""Exported CTranslate2 folders: the same model, opened by the library and by our commands."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.commands import translate_ddp
from tests.helpers.exports import trained_model, validation_set
from translate_ddp.apps.commands.export import export
from translate_ddp.apps.exporting import ctranslate2_export
from translate_ddp.apps.exporting.ctranslate2_export import write_files
from translate_ddp.apps.exporting.trained_model import NotTheSame
from translate_ddp.data.tokenizer import PAD, SOS
from translate_ddp.errors import UserError
from translate_ddp.modeling import ctranslate2_engine
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine
from translate_ddp.modeling.engine import Engine, length_limit
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.translator import Translator

ctranslate2: Any = pytest.importorskip("ctranslate2")

LINES = ["sun moon river. fish wolf.", "", "tree", "stone bird fish wolf tree"]
GREEDY, BEAM = NBestConfig(1), NBestConfig(4, 1.0, 4)


@pytest.fixture
def exported(trained: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ct2"
    export(trained_model(trained), "ctranslate2", folder, validation_set(trained))
    return folder


@pytest.mark.parametrize("threads", [1, 3])
def test_engine_computes_as_the_model(exported: Path, trained: Path, threads: int):
    model, random = trained_model(trained), np.random.default_rng(0)
    lengths, size = [*range(1, 40), 1, 50], len(model.facts.tokenizer)
    sources, targets = ([random.integers(4, size, n).tolist() for n in lengths] for _ in range(2))
    ours: Engine = model.engine()
    theirs: Engine = CTranslate2Engine(exported, model.positions, threads)
    done: list[int] = []
    assert theirs.translate(sources, GREEDY, done.append) == ours.translate(sources, GREEDY)
    assert sum(done) == len(sources)
    targets[0] = []  # of which only [EOS] is scored
    for p, q in zip(
        ours.log_probs(sources, targets), theirs.log_probs(sources, targets), strict=True
    ):
        np.testing.assert_allclose(p, q, atol=2e-5)


def test_beam_search_returns_distinct_hypotheses_with_their_scores(exported: Path, trained: Path):
    model, limited = trained_model(trained), 0
    sources = model.facts.tokenizer.encode(["sun moon river", "fish", "stone bird fish wolf tree"])
    engine = CTranslate2Engine(exported, model.positions)
    for source, found in zip(sources, engine.translate(sources, BEAM), strict=True):
        scores = [each.score or 0.0 for each in found]
        assert len({tuple(each.ids) for each in found}) == 4
        assert scores == sorted(scores, reverse=True)
        # By our own model; without [EOS] if the hypothesis ended at its limit.
        targets = [each.ids for each in found]
        for score, p in zip(scores, model.engine().log_probs([source] * 4, targets), strict=True):
            at_limit = len(p) - 1 == length_limit(len(source))
            assert score == pytest.approx(float(p[:-1].mean() if at_limit else p.mean()), abs=1e-4)
            limited += at_limit
        best = engine.translate([source], replace(BEAM, n_best=1))
        assert texts(best) == [[found[0].ids]]
    assert limited < 12  # some ended by themselves


def texts(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[each.ids for each in hypotheses] for hypotheses in found]


def endless(trained: Path) -> Any:
    """The model without [EOS], [PAD] and [SOS] among its likely tokens."""
    model = trained_model(trained)
    weights = {name: tensor.clone() for name, tensor in model.state.model.items()}
    weights["embedding.weight"][[PAD, SOS, 3]] = 0
    weights["decoder_norm.bias"] += 3 * weights["embedding.weight"][5]
    return replace(model, state=replace(model.state, model=weights))


def test_translation_that_only_repeats_ends_as_that_of_the_model(trained: Path, tmp_path: Path):
    model = endless(trained)
    write_files(tmp_path, model, "float32")
    engine, sources = CTranslate2Engine(tmp_path, model.positions), [[5] * 20, [6], [7, 8, 9]]
    found = engine.translate(sources, GREEDY)
    assert found == model.engine().translate(sources, GREEDY)
    assert len(found[0][0].ids) < length_limit(20)


def test_each_translation_ends_at_the_limit_of_its_source(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ctranslate2_engine, "until_repetition", lambda ids: ids)
    model = endless(trained)
    write_files(tmp_path, model, "float32")
    sources = [[5] * 20, [6], [7, 8, 9]]  # one batch
    engine = CTranslate2Engine(tmp_path, model.positions)
    for config in (GREEDY, NBestConfig(4, 1.0, 4)):
        found = engine.translate(sources, config)
        alone = [engine.translate([source], config)[0] for source in sources]
        assert texts(found) == texts(alone)
        longest = [max(len(each.ids) for each in hypotheses) for hypotheses in found]
        assert longest == [length_limit(len(source)) for source in sources]


def test_empty_source_has_empty_translations(exported: Path, trained: Path):
    engine = CTranslate2Engine(exported, trained_model(trained).positions)
    for config in (GREEDY, BEAM):
        empty, other = engine.translate([[], [5, 6]], config)
        assert {tuple(each.ids) for each in empty} == {()} and len(empty) == config.n_best
        assert any(each.ids for each in other)
    assert engine.translate([], GREEDY) == [] == engine.log_probs([], [])


def test_what_the_library_cannot_do_is_one_error(exported: Path, trained: Path):
    model = trained_model(trained)
    engine = CTranslate2Engine(exported, model.positions)
    with pytest.raises(UserError, match="does not sample .--temperature.: use a checkpoint"):
        engine.translate([[5]], NBestConfig(temperature=1.0))
    engine.translate([[5] * 502], GREEDY)  # 2 x 502 + 20 tokens, and the start
    longer = replace(model.facts, longest_source=800)  # of the run that this one began with
    assert replace(model, state=replace(model.state, facts=longer)).positions == 2 * 801 + 21
    for call in (lambda ids: engine.translate(ids, GREEDY), lambda ids: engine.log_probs(ids, ids)):
        with pytest.raises(UserError, match="1,025 positions a side: split it"):
            call([[5] * 1025])


def test_folder_is_opened_by_translator_and_commands(exported: Path, trained: Path, tmp_path: Path):
    ours, theirs = Translator.open(str(trained), precision="fp32"), Translator.open(str(exported))
    assert (theirs.lang_src, theirs.lang_tgt) == ("en", "it")
    assert theirs.facts.to_dict() == ours.facts.to_dict()
    assert theirs.translate(LINES) == ours.translate(LINES)
    one, other = (each.translate(LINES, n_best=2) for each in (ours, theirs))
    assert [[t.text for t in row] for row in one] == [[t.text for t in row] for row in other]
    assert other[0][0].score == pytest.approx(one[0][0].score, abs=1e-4)
    expected = "".join(f"{line}\n" for line in theirs.translate(LINES))
    for flags in (["--model_folder", str(exported)], ["--preload", str(exported)]):
        assert translate_ddp(tmp_path / "o", "translate", *LINES, *flags) == (0, expected)
    code, output = translate_ddp(tmp_path / "o", "info", str(exported))
    assert code == 0 and "CTranslate2, float32" in output and "en to it" in output
    assert "log-probabilities of" in output and "signature of BLEU: nrefs:1" in output
    with pytest.raises(UserError, match="has no state of its training"):
        _ = theirs.state
    for settings in ({"average": 2}, {"precision": "fp32"}):
        with pytest.raises(UserError, match="Omit the average and the precision"):
            Translator.open(str(exported), **settings)  # pyright: ignore[reportArgumentType]


def test_damaged_folder_is_one_error(exported: Path):
    model, description = exported / "model.bin", exported / "translate_ddp.json"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    with pytest.raises(UserError, match=r"model\.bin is damaged"):
        Translator.open(str(exported))
    content = json.loads(description.read_text())
    description.write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(UserError, match=r"export format 99, but .* reads format 3: export"):
        Translator.open(str(exported))
    del content["facts"]["directions"]
    for text in ("{", json.dumps(content)):
        description.write_text(text)
        with pytest.raises(UserError, match="cannot be read: export the checkpoint again"):
            Translator.open(str(exported))


def test_int8_is_verified_with_rounded_weights_and_bleu(trained: Path, tmp_path: Path):
    model, sentences = trained_model(trained), validation_set(trained)
    before = {name: tensor.clone() for name, tensor in model.state.model.items()}
    verification = export(model, "ctranslate2", tmp_path / "int8", sentences, "int8")
    assert all((before[name] == tensor).all() for name, tensor in model.state.model.items())
    equal, translations, bleu = verification.lines
    assert equal.startswith("in float32, log-probabilities of")
    assert "of the exported model" in bleu and "p = " in bleu
    assert verification.scores and verification.bleu_signature.startswith("nrefs:1")
    full = tmp_path / "full"
    full.mkdir()
    write_files(full, model, "float32")
    sizes = [(folder / "model.bin").stat().st_size for folder in (tmp_path / "int8", full)]
    # Matrices shrink to a quarter; the table of positions does not.
    table = 4 * model.positions * model.shape.d_model
    assert sizes[0] - table < 0.45 * (sizes[1] - table)


def test_float16_is_not_verified_without_a_gpu(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 0)
    model, sentences = trained_model(trained), validation_set(trained)
    verification = export(model, "ctranslate2", tmp_path / "half", sentences, "float16")
    assert verification.notes == ["float16 was written, not verified: it needs a GPU"]
    assert len(verification.lines) == 2 and not verification.scores
    assert len(Translator.open(str(tmp_path / "half")).translate(LINES)) == len(LINES)


def test_wrong_position_beyond_the_sentences_of_the_run_is_rejected(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model, sentences = trained_model(trained), validation_set(trained)
    longest = max(map(len, [*sentences.sources, *sentences.targets]))
    assert longest + 2 < model.seq_len - 1  # the last positions are not in the validation set
    whole = ctranslate2_export.sinusoids

    def cut(*settings: Any) -> torch.Tensor:
        table = whole(*settings)
        table[longest + 2 :] = 0
        return table

    monkeypatch.setattr(ctranslate2_export, "sinusoids", cut)
    with pytest.raises(NotTheSame):
        export(model, "ctranslate2", tmp_path / "out", sentences)
    assert not any(tmp_path.iterdir())
