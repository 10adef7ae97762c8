"""Tags before sources: of datasets, as for back-translation, and of directions."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.helpers.corpora import write_parallel
from translate_ddp.data.dataset import ParallelDataset, PreparedData, load_prepared
from translate_ddp.data.preparation import prepare
from translate_ddp.data.tokenizer import NO_EXTRA_TOKENS, ExtraTokens
from translate_ddp.settings import CorpusConfig, TokenizerConfig

Pairs = list[tuple[str, str]]
ONE = [(f"one {word}", f"eins {word}") for word in "abcdefghij"]
TWO = [(f"two {word}", f"zwei {word}") for word in "klmnop"]
VALIDATION = [("three x", "drei x"), ("four y", "vier y")]


SMALL = TokenizerConfig(vocab_size=320)
TAGS = ExtraTokens((">>de<<", ">>en<<", ">>tr<<"))


def prepared(
    folder: Path,
    *corpora: Pairs,
    perturb: bool = False,
    tokenizer: TokenizerConfig = SMALL,
    lang_tgt: str = "de",
    **settings: Any,
):
    """The prepared corpora; validation is a corpus of its own."""
    write = partial(write_parallel, lang_tgt=lang_tgt)
    names = [write(folder / f"corpus{n}", pairs) for n, pairs in enumerate(corpora)]
    given: dict[str, Any] = {"validation": write(folder / "valid", VALIDATION)} | settings
    corpus = CorpusConfig(
        tuple(names), lang_src=("en",), lang_tgt=(lang_tgt,), perturb=perturb, **given
    )
    extra = TAGS if corpus.bidirectional else NO_EXTRA_TOKENS
    return load_prepared(prepare(corpus, tokenizer, 60, folder / "data", False, extra))


def texts(data: PreparedData, pairs: ParallelDataset) -> Pairs:
    """The pairs, with the names of extra tokens before the sources."""
    sides = ([side[n].tolist() for n in range(len(side))] for side in (pairs.source, pairs.target))
    sources, targets = sides
    size = len(data.facts.tokenizer)
    extra = [[f"{TAGS.names[i - size]} " for i in ids if i >= size] for ids in sources]
    text = data.facts.tokenizer.decode([[i for i in ids if i < size] for ids in sources])
    assert all(max(ids[len(tags) :]) < size for ids, tags in zip(sources, extra, strict=True))
    joined = ["".join(tags) + each for tags, each in zip(extra, text, strict=True)]
    return list(zip(joined, data.facts.tokenizer.decode(targets), strict=True))


def tagged(tag: str, pairs: Pairs) -> Pairs:
    return [(f"{tag} {src}", tgt) for src, tgt in pairs]


def swapped(pairs: Pairs) -> Pairs:
    return [(tgt, src) for src, tgt in pairs]


def test_tag_is_before_the_training_sources_of_its_dataset_only(tmp_path: Path):
    data = prepared(tmp_path, ONE, TWO, tags=("", "<bt>"))
    assert texts(data, data.train) == ONE + tagged("<bt>", TWO)
    assert texts(data, data.validation) == VALIDATION
    assert data.blocks == [(0, 0, 10), (0, 1, 6)]
    # The tokenizer has seen the tag.
    assert len(data.facts.tokenizer.encode(["<bt>"])[0]) < len("<bt>")


def test_both_directions_are_trained_with_the_tags_of_target_and_dataset(tmp_path: Path):
    data = prepared(tmp_path, ONE, TWO, bidirectional=True, tags=("<a>", ""))
    forward = tagged(">>de<< <a>", ONE) + tagged(">>de<<", TWO)
    backward = tagged(">>en<< <a>", swapped(ONE)) + tagged(">>en<<", swapped(TWO))
    assert texts(data, data.train) == forward + backward
    backward = tagged(">>en<<", swapped(VALIDATION))
    assert texts(data, data.validation) == tagged(">>de<<", VALIDATION) + backward
    assert data.validation_sources == [src for src, _ in VALIDATION + swapped(VALIDATION)]
    assert data.validation_references == [tgt for _, tgt in VALIDATION + swapped(VALIDATION)]
    assert data.validation_sizes == [2, 2] and data.facts.directions == [("en", "de"), ("de", "en")]
    assert data.blocks == [(0, 0, 10), (0, 1, 6), (1, 0, 10), (1, 1, 6)]


def leaks(bidirectional: bool, folder: Path, **settings: Any) -> Pairs:
    """The training pairs of a corpus with sentences of validation."""
    pairs = [
        ("three x", "another"),  # by source
        ("other", "vier y"),  # by target: a source of the other direction
        ("drei x", "three x"),  # swapped columns
        ("kept", "behalten"),
    ]
    folder.mkdir()
    data = prepared(folder, pairs, bidirectional=bidirectional, **settings)
    found = texts(data, data.train)
    return found[: len(found) // (1 + bidirectional)]


def test_no_sentence_of_validation_is_trained_in_either_direction(tmp_path: Path):
    assert leaks(True, tmp_path / "both") == [(">>de<< kept", "behalten")]
    assert leaks(False, tmp_path / "one") == [
        ("other", "vier y"),
        ("drei x", "three x"),
        ("kept", "behalten"),
    ]
    assert leaks(True, tmp_path / "raw", clean="none") == [(">>de<< kept", "behalten")]


def test_held_out_validation_has_no_sentence_in_training_in_either_direction(tmp_path: Path):
    # Each target has two sources, and each source two targets.
    pairs = [(f"s{n // 2}", f"t{(n + 1) // 2}") for n in range(200)]
    data = prepared(tmp_path, pairs, bidirectional=True, validation="5")
    held_out = set(data.validation_sources) | set(data.validation_references)
    trained = {text.split()[-1] for pair in texts(data, data.train) for text in pair}
    assert data.validation_sizes == [5, 5]
    assert not held_out & trained
    assert len(trained) > 300 / 2


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_perturbation_leaves_tags_and_follows_the_language_of_the_direction(
    tmp_path: Path, kind: Literal["bpe", "word"]
):
    pairs = [("The Old Doctor reads it.", f"Işık iyi {n // 20} {n % 20}.") for n in range(200)]
    both: dict[str, Any] = {"lang_tgt": "tr", "bidirectional": True, "tags": ("<bt>",)}
    tokenizer = replace(SMALL, tokenizer=kind)
    data = prepared(tmp_path, pairs, perturb=True, tokenizer=tokenizer, **both)
    assert data.variants is not None and len(data.variants) == 8 * 400
    found, before = texts(data, data.variants.take(range(0, 3200, 8))), texts(data, data.train)
    tags = [text.partition("The")[0] for text, _ in before[:200]]
    tags += [text.partition("Işık")[0] for text, _ in before[200:]]
    changed = []
    for tag, (text, target), (old, same_target) in zip(tags, found, before, strict=True):
        assert text.startswith(tag) and target == same_target
        changed += [text.removeprefix(tag)] * (text != old)
    assert len(changed) > 100 and not any("işik" in text for text in changed)
    if kind == "bpe":  # others have [UNK]
        assert any("DOCTOR" in text for text in changed)
        assert any("IŞIK İYİ" in text for text in changed)
