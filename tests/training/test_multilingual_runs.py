"""Runs of several directions: they resume exactly, keep their tags, and teach them to others."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.helpers.faults import Run
from tests.helpers.runs import last_state
from tests.helpers.states import make_state
from tests.helpers.tiny_run import TINY_RUN
from translate_ddp.data.tokenizer import SPAN_TOKENS
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig
from translate_ddp.training.fine_tuning import add_new_tags

WORDS = ["sun", "moon", "tree", "river", "stone", "bird"]
SIZES = {"de": 90, "fr": 30, "it": 12}
FLAGS = TINY_RUN[4:]  # without languages


def write_corpora(folder: Path) -> list[str]:
    """The flags of directions out of English, of different sizes; targets are marked sources."""
    choose = random.Random(0)
    for name, scale in (("train", 1.0), ("dev", 0.1)):
        for language, size in SIZES.items():
            lines = [choose.choices(WORDS, k=choose.randint(2, 6)) for _ in range(size)]
            lines = lines[: int(scale * size) + 1]
            marked = [[f"{word}{language}" for word in line] for line in lines]
            for side, texts in (("en", lines), (language, marked)):
                path = folder / f"{name}-{language}.{side}"
                path.write_text("".join(" ".join(text) + "\n" for text in texts))
    dataset, validation = (str(folder / f"{name}-{{tgt}}") for name in ("train", "dev"))
    return ["--dataset", dataset, "--validation", validation]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpora(tmp_path_factory.mktemp("corpora"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, corpora: list[str]) -> Callable[..., Run]:
    """A new run on these corpora, not started, with further flags."""

    def no_other_run(*_: object) -> Run:
        raise AssertionError("this run is compared with no other one")

    def run(*flags: str) -> Run:
        folder = tmp_path_factory.mktemp("run") / "model"
        return Run([*FLAGS, *corpora, *flags], folder, no_other_run, None)

    return run


@pytest.fixture(scope="module")
def trained(start: Callable[..., Run]) -> Run:
    """A finished run of two of the directions, the small one repeated."""
    run = start("--lang_tgt", "de", "fr", "--mix_temperature", "5")
    run.start(size=2).succeed()
    return run


def checkpoint(run: Run) -> str:
    (path,) = run.folder.glob("tmodel_epoch_0002_*.pt")
    return str(path)


def test_fine_tuned_model_keeps_its_tags_and_a_new_language_has_their_mean(
    trained: Run, start: Callable[..., Run]
):
    parent = last_state(trained.folder)
    size = len(parent["model"]["embedding.weight"]) - 2
    assert parent["facts"]["extra_tokens"] == [*SPAN_TOKENS, ">>de<<", ">>fr<<"]
    for target, tags in (("de", [">>de<<", ">>fr<<"]), ("it", [">>de<<", ">>fr<<", ">>it<<"])):
        child = start("--lang_tgt", target, "--init_from", checkpoint(trained), "--lr", "1e-12")
        child.start("--max_steps", "1").succeed()
        state = last_state(child.folder)
        assert state["facts"]["extra_tokens"] == [*SPAN_TOKENS, *tags]
        assert state["facts"]["directions"] == [["en", target]]
        rows_VD = state["model"]["embedding.weight"]
        assert len(rows_VD) == size + len(tags)
        expected_VD = parent["model"]["embedding.weight"]
        if target == "it":
            mean_1D = expected_VD[size:].mean(dim=0, keepdim=True)
            expected_VD = torch.cat([expected_VD, mean_1D])
        torch.testing.assert_close(rows_VD, expected_VD, atol=1e-6, rtol=0)


def test_first_tags_of_a_model_are_rows_of_their_own():
    model = Transformer(ModelConfig(d_model=2, num_heads=1, d_ff=2), vocabulary=7)
    state = make_state(model={"embedding.weight": torch.zeros(5, 2)})
    add_new_tags(state, model)
    rows_VD = state.model["embedding.weight"]
    assert rows_VD[:5].eq(0).all() and rows_VD[5:].equal(model.embedding.weight[5:])


def test_tags_are_read_but_never_generated():
    config = ModelConfig(d_model=8, num_heads=2, d_ff=8)
    model = Transformer(config, vocabulary=12, num_outputs=10, num_spans=1)
    hidden_BTD = model(torch.tensor([[11, 5, 3]]), torch.tensor([[2, 4]]))
    assert model.logits(hidden_BTD).shape == (1, 2, 10)
    assert model.logits(hidden_BTD).equal(hidden_BTD @ model.embedding.weight[:10].T)
