"""Tags before sources: of datasets, as for back-translation, and of directions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.corpora import write_parallel
from translate_ddp.corpus_settings import CorpusConfig
from translate_ddp.data.augmentation import Perturbation
from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged, load_prepared
from translate_ddp.data.preparation import prepare
from translate_ddp.settings import TokenizerConfig

Pairs = list[tuple[str, str]]
ONE = [(f"one {word}", f"eins {word}") for word in "abcdefghij"]
TWO = [(f"two {word}", f"zwei {word}") for word in "klmnop"]
VALIDATION = [("three x", "drei x"), ("four y", "vier y")]


def prepared(folder: Path, *corpora: Pairs, perturb: bool = False, **settings: Any):
    """The prepared corpora; validation is a corpus of its own."""
    names = [write_parallel(folder / f"corpus{n}", pairs) for n, pairs in enumerate(corpora)]
    given: dict[str, Any] = {"validation": write_parallel(folder / "valid", VALIDATION)} | settings
    corpus = CorpusConfig(tuple(names), lang_src="en", lang_tgt="de", **given)
    tokenizer = TokenizerConfig(vocab_size=320)
    return load_prepared(prepare(corpus, tokenizer, 60, folder / "data", perturb, shown=False))


def texts(data: PreparedData, pairs: ParallelDataset) -> Pairs:
    sides = ([side[n].tolist() for n in range(len(side))] for side in (pairs.source, pairs.target))
    decoded = map(data.tokenizer.decode, sides)
    return list(zip(*decoded, strict=True))


def tagged(tag: str, pairs: Pairs) -> Pairs:
    return [(f"{tag} {src}", tgt) for src, tgt in pairs]


def swapped(pairs: Pairs) -> Pairs:
    return [(tgt, src) for src, tgt in pairs]


def test_tag_is_before_the_training_sources_of_its_dataset_only(tmp_path: Path):
    data = prepared(tmp_path, ONE, TWO, tags=("", "<bt>"))
    assert texts(data, data.train) == ONE + tagged("<bt>", TWO)
    assert texts(data, data.validation) == VALIDATION
    assert list(data.sizes) == [10, 6]
    # The tokenizer has seen the tag.
    assert len(data.tokenizer.encode(["<bt>"])[0]) < len("<bt>")


def test_both_directions_are_trained_with_the_tag_of_the_target_language(tmp_path: Path):
    data = prepared(tmp_path, ONE, TWO, bidirectional=True)
    forward, backward = tagged(">>de<<", ONE + TWO), tagged(">>en<<", swapped(ONE + TWO))
    assert texts(data, data.train) == forward + backward
    assert texts(data, data.validation) == tagged(">>de<<", VALIDATION)
    assert data.validation_sources == [src for src, _ in VALIDATION]
    assert data.validation_references == [tgt for _, tgt in VALIDATION]
    assert list(data.sizes) == [10, 6, 10, 6]


def test_tag_of_the_dataset_follows_that_of_the_direction(tmp_path: Path):
    data = prepared(tmp_path, ONE, TWO, bidirectional=True, tags=("<a>", ""))
    found = texts(data, data.train)
    assert found[0] == (">>de<< <a> one a", "eins a")
    assert found[10] == (">>de<< two k", "zwei k")
    assert found[16] == (">>en<< <a> eins a", "one a")
    assert found[26] == (">>en<< zwei k", "two k")


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
    assert len(data.validation_sources) == 5
    assert not held_out & trained
    assert len(trained) > 300 / 2


def test_perturbation_leaves_tags_as_they_are(tmp_path: Path):
    pairs = [(f"The Old Doctor reads letter {n}.", f"Brief {n}") for n in range(100)]
    data = prepared(tmp_path, pairs, perturb=True, bidirectional=True, tags=("<bt>",))
    prefixes = [">>de<< <bt> ", ">>en<< <bt> "]
    perturbation = Perturbation(data.tokenizer, 60, 0, prefixes)
    source = data.train.source
    rows = [*range(200)]
    changed = perturbation.apply(Ragged.of(source[row] for row in rows), np.array(rows), 0)
    found = data.tokenizer.decode(list(changed.values()))
    assert len(found) > 20
    for row, text in zip(changed, found, strict=True):
        assert text.startswith(prefixes[row // 100]), text
    assert sum("DOCTOR" in text for text in found) > 1


@pytest.mark.parametrize("tag", ["<b t>", " ", "<bt> ", "a\u00a0b", "e\u0301"])
def test_tag_with_blanks_or_that_normalization_changes_is_rejected(tag: str):
    with pytest.raises(ValueError, match="has blanks or changes under Unicode normalization"):
        CorpusConfig(dataset=("a", "b"), tags=("", tag))


def test_each_dataset_has_a_tag_or_none_has():
    with pytest.raises(ValueError, match="Tags given: 1, datasets: 2"):
        CorpusConfig(dataset=("a", "b"), tags=("<bt>",))
