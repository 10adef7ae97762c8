"""Merges that are dropped, and the segmentations that each epoch chooses."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from translate_ddp.data.merges import MAX_LETTERS, Merges
from translate_ddp.data.subword_dropout import VARIANTS, SubwordDropout, prepare_dropout

from tests.helpers.corpora import corpus_of, write_parallel
from translate_ddp.data import subword_dropout
from translate_ddp.data.dataset import PreparedData, Ragged, load_prepared
from translate_ddp.data.preparation import prepare
from translate_ddp.data.tokenizer import SPECIAL_TOKENS, train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.settings import TokenizerConfig

VOCABULARY = [*SPECIAL_TOKENS, "a", "b", "c", "d", "ab", "abc", "cd"]
MERGES = [["a", "b"], ["ab", "c"], ["c", "d"]]
LONG = "antidisestablishmentarianism" * 3  # more than 64 letters


def merges_of(merges: list[list[str]]) -> Merges:
    vocabulary = {token: token_id for token_id, token in enumerate(VOCABULARY)}
    return Merges(json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}))


def segmentations(word: str, probability: float, count: int = 1) -> Counter[str]:
    merges = merges_of(MERGES)
    words_NL = np.array([[VOCABULARY.index(letter) for letter in word]] * count)
    found = merges.segment(words_NL, probability, np.random.default_rng(1)).tolist()
    padding = merges.padding
    return Counter(" ".join(VOCABULARY[i] for i in row if i != padding) for row in found)


def test_no_dropout_gives_the_plain_segmentation_and_1_gives_letters():
    assert segmentations("abcdab", 0.0) == {"abc d ab": 1}
    assert segmentations("abcdab", 1.0) == {"a b c d a b": 1}


def test_segmentations_have_the_probabilities_computed_by_hand():
    # abcd: the first step may merge a b and c d. If a b is made (0.7), the second may merge ab c
    # and c d. If only c d is made (0.3 * 0.7), the second may merge a b. If neither is, it ends.
    count, p, q = 20_000, 0.3, 0.7
    expected = {
        "abc d": q * q,
        "ab cd": q * p * q + p * q * q,
        "ab c d": q * p * p,
        "a b cd": p * q * p,
        "a b c d": p * p,
    }
    assert sum(expected.values()) == pytest.approx(1)
    found = segmentations("abcd", p, count)
    assert found.keys() == expected.keys()
    for segmentation, share in expected.items():
        bound = 4.5 * (share * (1 - share) * count) ** 0.5
        assert abs(found[segmentation] - share * count) < bound, segmentation


def test_letters_of_a_word_are_in_the_vocabulary():
    merges = merges_of(MERGES)
    assert [VOCABULARY[i] for i in merges.letters(np.array([9, 7, 8]))] == list("abcdab")
    assert merges.letters(np.array([4, 1])) == []  # [UNK]
    assert merges.letters(np.array([4, len(VOCABULARY)])) == []  # an added token


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with several scripts, a long word, and a long pair as the last."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = [
        (f"the old doctor reads  letter {n}, 中文 😀", f"il vecchio dottore: {n} così! हिन्दी")
        for n in range(60)
    ]
    pairs += [(LONG, "lungo"), ("the doctor " * 13, "il dottore " * 14)]
    train = write_parallel(folder / "train", pairs)
    corpus = corpus_of(train, write_parallel(folder / "valid", [("the", "il")]))
    return prepare(corpus, TokenizerConfig(vocab_size=400), 60, folder / "data")


@pytest.fixture(scope="module")
def data(prepared: Path) -> PreparedData:
    return load_prepared(prepared)


@pytest.fixture(scope="module")
def folder(prepared: Path) -> Path:
    return prepare_dropout(prepared, 0.2)


def open_dropout(folder: Path, seed: int = 0) -> SubwordDropout:
    return SubwordDropout(folder, seq_len=60, seed=seed)


def test_every_segmentation_is_decoded_to_the_text_of_its_word(folder: Path, data: PreparedData):
    tokens = np.load(folder / "segmentations.tokens.npy")
    offsets = np.load(folder / "segmentations.offsets.npy")
    first = np.load(folder / "first.npy")
    found = [row.tolist() for row in np.split(tokens, offsets[1:-1])]
    texts = data.tokenizer.decode(found)
    has_variants = np.flatnonzero(first >= 0)
    assert len(has_variants) > 30
    several = 0
    for word in has_variants.tolist():
        variants = found[first[word] : first[word] + VARIANTS]
        assert texts[first[word] : first[word] + VARIANTS] == [texts[word]] * VARIANTS
        several += len({tuple(variant) for variant in variants}) > 1
    assert several > 0.9 * len(has_variants)
    long = [text for text in texts[: len(first)] if len(text) > MAX_LETTERS]
    assert long == [LONG] and first[texts.index(LONG)] == -1


def test_rows_of_every_epoch_are_decoded_to_the_original(folder: Path, data: PreparedData):
    dropout, rows = open_dropout(folder), np.arange(len(data.train))
    for side, plain in enumerate((data.train.source, data.train.target)):
        texts = data.tokenizer.decode([plain[row].tolist() for row in range(len(rows))])
        tokens = [dropout.segment(side, rows, epoch) for epoch in range(3)]
        for epoch, found in enumerate(tokens):
            ids = [found[row].tolist() for row in range(len(rows))]
            assert data.tokenizer.decode(ids) == texts
            assert found.lengths.tolist() == dropout.lengths(side, rows, epoch).tolist()
            assert found.tokens.dtype == np.int32 and found.lengths.max() < 60
        assert tokens[0].tokens.tolist() != tokens[1].tokens.tolist() != tokens[2].tokens.tolist()
        assert len(tokens[0].tokens) > 1.1 * len(plain.tokens)


def test_row_that_would_be_too_long_is_segmented_plainly(folder: Path, data: PreparedData):
    row = len(data.train) - 1
    length = int(data.train.target.lengths[row])
    dropout, long = SubwordDropout(folder, seq_len=length + 1, seed=0), open_dropout(folder)
    epoch = next(e for e in range(20) if long.lengths(1, np.array([row]), e) > length)
    found = dropout.segment(1, np.array([0, row, 1]), epoch)
    assert found[1].tolist() == data.train.target[row].tolist()
    assert found[0].tolist() != data.train.target[0].tolist()  # the others are not affected
    # The [EOS] counts: a row of as many tokens as seq_len is too long.
    changed = int(long.lengths(1, np.array([row]), epoch)[0])
    for seq_len, expected in ((changed, length), (changed + 1, changed)):
        dropout = SubwordDropout(folder, seq_len, seed=0)
        assert dropout.lengths(1, np.array([row]), epoch).tolist() == [expected]


def test_words_are_segmented_alike_in_any_selection_of_rows(folder: Path):
    dropout, some = open_dropout(folder), np.array([40, 3, 17])
    whole = dropout.segment(0, np.arange(60), 4)
    part = dropout.segment(0, some, 4)
    assert [part[n].tolist() for n in range(3)] == [whole[row].tolist() for row in some.tolist()]
    assert len(dropout.segment(0, np.array([], dtype=int), 4)) == 0
    other_seed = open_dropout(folder, seed=1).segment(0, np.arange(60), 4)
    assert other_seed.tokens.tolist() != whole.tokens.tolist()
    assert len({tuple(whole[row].tolist()[:6]) for row in range(60)}) > 10  # the same four words


def test_no_dropout_and_full_dropout_bound_the_lengths(prepared: Path, data: PreparedData):
    rows = np.arange(60)
    letters = open_dropout(prepare_dropout(prepared, 1.0)).segment(0, rows, 0)
    texts = data.tokenizer.decode([letters[row].tolist() for row in range(60)])
    assert letters.lengths.tolist() == [len(f" {text}".encode()) for text in texts]
    plain = open_dropout(prepare_dropout(prepared, 1e-12)).segment(0, rows, 0)
    assert plain.tokens.tolist() == data.train.source.take(rows).tokens.tolist()


def test_most_frequent_words_of_both_sides_have_variants(
    prepared: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(subword_dropout, "MAX_TYPES", 4)
    folder = prepare_dropout(prepared, 0.25)
    counts: Counter[str] = Counter()
    for side in (data.train.source, data.train.target):
        texts = data.tokenizer.decode([side[row].tolist() for row in range(len(side))])
        counts.update(word for text in texts for word in text.replace(":", " ").split())
    tokens = Ragged.open(folder / "segmentations")
    chosen = np.flatnonzero(np.load(folder / "first.npy") >= 0).tolist()
    words = data.tokenizer.decode([tokens[word].tolist() for word in chosen])
    assert {word.strip() for word in words} == {word for word, _ in counts.most_common(4)}


def test_folder_is_written_once_for_each_probability(
    prepared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    others = [prepare_dropout(prepared, p) for p in (0.3, 0.21)]
    assert len({folder, *others}) == 3
    monkeypatch.delattr("translate_ddp.data.subword_dropout.Merges")
    assert [prepare_dropout(prepared, p) for p in (0.2, 0.3, 0.21)] == [folder, *others]


def test_error_for_a_tokenizer_without_merges_or_that_loses_text(tmp_path: Path):
    train = write_parallel(tmp_path / "train", [("The house", "Il gatto"), ("The cat", "La casa")])
    corpus = corpus_of(train, write_parallel(tmp_path / "valid", [("a", "b")]))
    word = train_tokenizer(["The house cat"] * 2, TokenizerConfig(tokenizer="word"))
    bpe = json.loads(train_tokenizer(["The house"] * 9, TokenizerConfig(vocab_size=300)).text)
    bpe["normalizer"] = {"type": "Lowercase"}
    bpe["decoder"] = None
    for text, message in ((word.text, "has no merges"), (json.dumps(bpe), "back exactly")):
        file = tmp_path / f"{len(text)}.json"
        file.write_text(text)
        folder = prepare(corpus, TokenizerConfig(tokenizer_file=str(file)), 60, tmp_path / "data")
        with pytest.raises(UserError, match=message):
            prepare_dropout(folder, 0.1)
        assert not list(folder.glob("*dropout*")) and not list(folder.glob(".preparing*"))
