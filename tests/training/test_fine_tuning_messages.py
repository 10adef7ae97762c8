"""What a run with --init_from says of the file and its own corpus."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import Tokenizer, train_tokenizer
from translate_ddp.settings import CorpusConfig, TokenizerConfig
from translate_ddp.training.fine_tuning import describe_fit, describe_languages
from translate_ddp.translator import Translator


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({}, []),
        ({"lang_src": "it", "lang_tgt": "en"}, ["trained for en-it, this run is for it-en."]),
        ({"bidirectional": True}, ["for en-it, this run is for en-it in both directions."]),
    ],
)
def test_other_languages_and_directions_than_those_of_the_file_are_named(
    trained: Path, now: dict[str, Any], message: list[str]
):
    state = Translator.open(str(trained)).state
    corpus = replace(CorpusConfig.of(state.run.config["corpus"]), **now)
    state.run.config["corpus"]["of_another_version"] = 1
    found = describe_languages(corpus, state)
    assert len(found) == len(message) and all(map(str.endswith, found, message))


def fit(lines: list[str], tokenizer: Tokenizer) -> str:
    side = Ragged.of(tokenizer.encode(lines))
    return describe_fit(ParallelDataset(side, side), tokenizer)


def test_share_of_unknown_characters_is_that_counted_by_hand():
    config = TokenizerConfig(vocab_size=300)
    tokenizer = train_tokenizer(["a a a a", "é é é é"], config)
    # Both are one token each, as is the blank before one of them.
    assert fit(["a é a"], tokenizer).startswith("0.0% of the corpus's ")
    assert fit(["xyz"], tokenizer).endswith("A token has 1.0 characters on average.")
    assert fit(["a a"], tokenizer).endswith("A token has 2.0 characters on average.")  # " a"
    # U+5B57 has three bytes that no merge joins: 3 of 4 tokens on each side.
    assert fit(["a字"], tokenizer).startswith("75.0% of the corpus's 8 tokens ")
    words = train_tokenizer(["sun sun moon moon"], TokenizerConfig("word"))
    assert fit(["sun moon tree sun"], words).startswith("25.0% of the corpus's 8 tokens ")
