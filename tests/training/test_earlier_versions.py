"""Checkpoints that an earlier version wrote in the middle of runs: they translate and resume.

Commit eff80f1 wrote them at step 9 of `TINY_RUN` on `write_corpus`, and the expected values.
"""

import math
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.runs import records
from tests.helpers.tiny_run import TINY_RUN, write_corpus
from translate_ddp.data.tokenizer import SPAN_TOKENS, ExtraTokens
from translate_ddp.decoding import Decoder
from translate_ddp.modeling import search
from translate_ddp.settings import Config, CorpusConfig
from translate_ddp.training.checkpoint import load
from translate_ddp.training.fine_tuning import choose_extra_tokens
from translate_ddp.training.state import RunState
from translate_ddp.translator import Translator

FIXTURES = Path(__file__).with_name("fixtures")
TEXTS = ["sun moon tree", "Wolf fish. Bird stone river!", "sun"]
needs_sentencepiece = pytest.mark.skipif(
    find_spec("sentencepiece") is None, reason="sentencepiece is not installed"
)
KINDS = [
    pytest.param("bpe", marks=()),
    pytest.param("sentencepiece", marks=needs_sentencepiece),
    pytest.param("bidirectional", marks=()),
]
FLAGS = {
    "bpe": [],
    "sentencepiece": ["--tokenizer", "sentencepiece"],
    "bidirectional": ["--bidirectional"],
}
# Of each text: its number of sentences, and the score of its greedy translation.
SCORES = {
    "bpe": [(1, -2.611668), (2, -2.791239), (1, -2.632145)],
    "sentencepiece": [(1, -2.358322), (2, -2.248903), (1, -2.259352)],
    "bidirectional": [(1, -2.683125), (2, -2.437291), (1, -2.576676)],
}
# The validation loss of each run at its end, after two epochs.
LOSSES = {"bpe": 4.452058, "sentencepiece": 4.186586, "bidirectional": 2.761093}


def checkpoint(kind: str) -> Path:
    (found,) = FIXTURES.glob(f"{kind}_*.pt")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_translations_are_those_of_the_version_that_wrote_the_checkpoint(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    # Earlier versions went on with translations that only repeat, and did not search again.
    monkeypatch.setattr(search, "only_repeats", lambda ids: False)
    monkeypatch.setattr(Decoder, "_fault", lambda *_: "")
    translator = Translator.open(str(checkpoint(kind)))
    found = translator.translate(TEXTS, beam_width=1, n_best=1)
    assert [len(best.sentences) for (best,) in found] == [count for count, _ in SCORES[kind]]
    expected = [score for _, score in SCORES[kind]]
    assert [best.score for (best,) in found] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_run_ends_as_with_the_version_that_began_it(kind: str, tmp_path: Path):
    prefix = write_corpus(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    file = checkpoint(kind)
    shutil.copy(file, folder / file.name.replace(kind, "tmodel", 1))
    flags = [*TINY_RUN, *FLAGS[kind], "--dataset", prefix, "--model_folder", str(folder)]
    flags += ["--batch_tokens", "100"]
    output = processes.train(flags, tmp_path / "output").succeed()
    assert "step 9" in output
    # Another kind of CPU rounds in another way.
    # Earlier versions validated one direction of a bidirectional model.
    name = "validation/en-it/loss" if kind == "bidirectional" else "validation/loss"
    assert "best_metric: " not in output and "Best epoch by" not in output
    assert records(folder)[-1][name] == pytest.approx(LOSSES[kind], rel=1e-3)


@pytest.mark.parametrize(("kind", "name"), [("bpe", "BLEU"), ("bidirectional", "en-it/BLEU")])
def test_best_epoch_stays_that_of_the_validated_direction(kind: str, name: str):
    data = torch.load(checkpoint(kind), weights_only=True)
    data["position"] |= {"best_metric": "BLEU", "best_epoch": 1}
    state = RunState.from_dict(data, "file")
    assert state.position.best_metric == state.run.metric_name("auto") == name
    assert state.run.metric_name("loss") == name.replace("BLEU", "loss")
    assert state.run.sample_tokens == math.inf  # they validated on all pairs


@pytest.mark.parametrize("kind", KINDS)
def test_model_of_an_earlier_version_gets_no_span_tokens(kind: str):
    state, as_text = load(checkpoint(kind)), kind == "bidirectional"
    one, several = (
        Config(corpus=CorpusConfig(("a",), "", ("en",), to)) for to in (("it",), ("it", "de"))
    )
    assert choose_extra_tokens(one, state) == ExtraTokens((), as_text)
    tags = () if as_text else (">>it<<", ">>de<<")
    assert choose_extra_tokens(several, state) == ExtraTokens(tags, as_text)
    assert choose_extra_tokens(one, None) == ExtraTokens(SPAN_TOKENS)
    tags = (*SPAN_TOKENS, ">>it<<", ">>de<<")
    assert choose_extra_tokens(several, None) == ExtraTokens(tags)
