"""Rules for pairs, the split into training and validation, and the signature of a corpus."""

import json
import random
from dataclasses import replace
from hashlib import blake2b
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import pytest

from tests.helpers.corpora import (
    Corpus,
    corpus_error,
    corpus_of,
    numbered_pairs,
    read_corpus,
    write,
    write_parallel,
)
from translate_ddp.data.corpus import CORRECT_ROWS, clean_corpus, corpus_signature
from translate_ddp.data.pair_store import Pair
from translate_ddp.errors import UserError
from translate_ddp.settings import CleanLevel, CorpusConfig


@pytest.mark.parametrize(
    ("clean", "train", "dropped"),
    [
        ("none", [("b", "2"), ("b", "2"), ("a", "another")], {"also in validation": 2}),
        ("safe", [("b", "2")], {"also in validation": 3, "duplicate": 1}),
    ],
)
def test_validation_is_removed_from_training(
    folder: Path, clean: CleanLevel, train: list[Pair], dropped: dict[str, int]
):
    rows = [("a", "1"), ("b", "2"), ("b", "2"), ("a", "another"), ("c ", "3")]
    source = write_parallel(folder / "train", rows)
    validation = write_parallel(folder / "val", [("a", "1"), ("c", "3"), ("z", "9"), ("a", "1")])
    corpus = read_corpus(replace(corpus_of(source, validation), clean=clean))
    assert corpus.train == train
    assert corpus.validation == [("a", "1"), ("c", "3"), ("z", "9")]
    assert corpus.dropped == dropped | {"repeated in validation": 1}


@pytest.mark.parametrize(
    ("clean", "train", "dropped"),
    [
        ("none", 35, {}),
        ("safe", 34, {"duplicate": 1}),
        ("strict", 31, {"duplicate": 1, "near duplicate": 1, "wrong script": 1, "length ratio": 1}),
    ],
)
def test_levels_of_cleaning(folder: Path, clean: CleanLevel, train: int, dropped: dict[str, int]):
    words = [first + second for first in "bcdfgk" for second in "aeiou"]
    rows = [(f"the {word}r is red", f"das {word}r ist rot") for word in words]
    rows += [rows[0], ("The BAR is red!", "Das bar ist rot."), ("the cap is red", "красная шапка")]
    rows += [("the man is old", "x" * 400), ("the hat is blue", "der hut ist blau")]
    source = write_parallel(folder / "train", rows)
    validation = write_parallel(folder / "val", [("up", "auf")])
    corpus = read_corpus(replace(corpus_of(source, validation), clean=clean))
    assert len(corpus.train) == train and corpus.dropped == dropped
    (report, _) = corpus.reports
    assert (report.rows, report.kept) == (35, train)
    for reason, examples in report.examples.items():
        assert len(examples) == dropped[reason]
    if clean == "strict":
        assert report.examples["near duplicate"] == [("The BAR is red!", "Das bar ist rot.")]
        assert report.examples["wrong script"] == [("the cap is red", "красная шапка")]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("times", "pairs", "is_reported"), [(11, 40, True), (10, 40, False), (12, 2600, False)]
)
def test_one_text_for_many_is_reported_and_dropped_by_strict(
    folder: Path, side: int, times: int, pairs: int, is_reported: bool
):
    names = ["".join(letters) for letters in islice(product(ascii_lowercase, repeat=3), pairs)]
    rows = [(f"the {name} is red", f"das {name} ist rot") for name in names]
    # Different ones: a pair that is there twice counts once.
    texts = (("n/a", f"ein {name}") if side == 0 else (f"a {name}", "n/a") for name in names)
    many = list(islice(texts, times))
    source = write_parallel(folder / "train", [*rows, *many, *many[:5]])
    validation = write_parallel(folder / "val", [("up", "auf")])
    safe, strict = (
        read_corpus(replace(corpus_of(source, validation), clean=clean))
        for clean in ("safe", "strict")
    )
    what = (f"has {times} different translations", f"is the translation of {times} different texts")
    notices = [f'{source}.en: "n/a" {what[side]}. {CORRECT_ROWS}']
    assert safe.reports[0].notices == notices * is_reported
    assert len(safe.train) == pairs + times and safe.dropped == {"duplicate": 5}
    assert strict.reports[0].notices == []
    many_dropped = {"one text for many": times} if is_reported else {}
    assert strict.dropped == {"duplicate": 5} | many_dropped
    assert len(strict.train) == len(safe.train) - sum(many_dropped.values())


def test_validation_equal_to_training_raises(folder: Path):
    source = write_parallel(folder / "train", numbered_pairs(3))
    with pytest.raises(UserError, match="also in validation"):
        read_corpus(corpus_of(source, source))


def test_error_for_no_usable_pairs_counts_reasons(folder: Path):
    source = write_parallel(folder / "train", [("", "x"), ("y", ""), ("\0", "z")])
    assert corpus_error(source).endswith("0 usable pairs of 3: 2 empty, 1 invalid unicode.")


def split_of(folder: Path, pairs: list[Pair], validation: str = "") -> Corpus:
    config = corpus_of(write_parallel(folder / "train", pairs), validation)
    return read_corpus(replace(config, clean="none"))


def smallest_hashes(pairs: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    def key(pair: tuple[str, str]) -> tuple[bytes, tuple[str, str]]:
        return blake2b(pair[0].encode(), digest_size=8, salt=b"translate_ddp").digest(), pair

    return sorted(set(pairs), key=key)[:count]


def test_validation_is_two_percent_with_smallest_hashes_of_the_source(folder: Path):
    # Another split changes all published scores, and resumed runs would validate on pairs that
    # they were trained on: change it only together with a note to users.
    pairs = [(f"source {number % 30}", f"target {number % 120}") for number in range(360)]
    random.Random(0).shuffle(pairs)  # the split does not depend on the order of the rows
    corpus = split_of(folder, pairs)
    validation = corpus.validation
    assert validation == smallest_hashes(pairs, 7)
    assert not {src for src, _ in corpus.train} & {src for src, _ in corpus.validation}
    others = 360 - len(corpus.train) - len(validation)
    assert corpus.dropped == {"also in validation": others} and others == 24 - 7


@pytest.mark.parametrize(
    ("validation", "count"), [("25", 25), ("10%", 40), ("0.5%", 2), ("0.1%", 1)]
)
def test_validation_may_be_a_number_or_a_share(folder: Path, validation: str, count: int):
    pairs = numbered_pairs(400)
    corpus = split_of(folder, pairs, validation)
    assert corpus.validation == smallest_hashes(pairs, count)
    assert sorted(corpus.train + corpus.validation) == sorted(pairs)


def test_number_of_validation_pairs_is_taken_from_training_also_beside_a_validation_split(
    folder: Path,
):
    pairs, valid = numbered_pairs(100), [("other", "andere")]
    write_parallel(folder / "data" / "train", pairs)
    write_parallel(folder / "data" / "valid", valid)
    assert read_corpus(corpus_of(str(folder / "data"))).validation == valid
    for validation in ("10", "10%"):
        corpus = read_corpus(corpus_of(str(folder / "data"), validation))
        assert corpus.validation == smallest_hashes(pairs, 10)
        assert sorted(corpus.train + corpus.validation) == sorted(pairs)


@pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
def test_validation_split_of_a_hub_dataset_may_have_any_usual_name(folder: Path, name: str):
    pairs, valid = numbered_pairs(100), [("other", "andere")]
    for split, rows in (("train", pairs), (name, valid)):
        lines = (json.dumps({"en": en, "de": de}) + "\n" for en, de in rows)
        write(folder / f"data/{split[0]}.jsonl", "".join(lines))
    splits = "".join(f"  - {{split: {s}, path: data/{s[0]}.jsonl}}\n" for s in ("train", name))
    configs = f"configs:\n- config_name: default\n  data_files:\n{splits}"
    write(folder / "README.md", f"---\n{configs}---\n")
    corpus = read_corpus(corpus_of(str(folder)))
    assert corpus.train == pairs
    assert corpus.validation == valid


@pytest.mark.parametrize("validation", ["3", "100", "100%"])
def test_validation_of_all_pairs_raises(folder: Path, validation: str):
    # Training on the single pair that was left once began without a notice.
    with pytest.raises(
        UserError, match=f"{validation} would leave nothing to train on: .* 3 pairs"
    ):
        split_of(folder, numbered_pairs(3), validation)


@pytest.mark.parametrize(
    ("pairs", "directions", "drawn"),
    [
        (3, 1, 1),
        (100_000, 1, 2000),
        (10**7, 1, 3000),
        (10_000, 2, 200),
        (10**7, 2, 500),
        (10**7, 6, 500),
        (10**7, 10, 300),
        (10**7, 9999, 1),
    ],
)
def test_drawn_validation_has_a_fixed_size(pairs: int, directions: int, drawn: int):
    assert corpus_of("x").validation_pairs(pairs, directions) == drawn


def test_given_validation_is_used_whole_up_to_a_limit_and_else_a_fixed_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("translate_ddp.settings.MAX_VALIDATION_PAIRS", 20)
    valid, source = numbered_pairs(30), write_parallel(folder / "train", numbered_pairs(100))
    name = write_parallel(folder / "val", valid * 2)

    def key(pair: Pair) -> bytes:
        return blake2b(
            f"{pair[0]}\t{pair[1]}\n".encode(), digest_size=8, salt=b"translate_ddp"
        ).digest()

    for bidirectional, limit in ((False, 20), (True, 10)):
        config = replace(corpus_of(source, name), bidirectional=bidirectional)
        corpus = read_corpus(config)
        chosen = sorted(valid, key=key)[:limit]
        assert corpus.validation[:limit] == [pair for pair in valid if pair in chosen]
        assert not {src for src, _ in valid} & {src for src, _ in corpus.train}
        assert (report := corpus.reports[-1]).kept == limit
        text = f"{name}.en: of 30 validation pairs of en-de, a fixed sample of {limit} is used."
        assert report.notices == [text]
        number = read_corpus(replace(config, validation="40%"))
        assert len(number.validation) == limit * (1 + bidirectional)
        assert "--validation: of 40 validation pairs of en-de, a fixed" in str(number.reports)
    few = read_corpus(corpus_of(source, write_parallel(folder / "few", valid[:20])))
    assert few.validation == valid[:20] and few.reports[-1].notices == []


def test_split_of_one_source_sentence_raises(folder: Path):
    text = corpus_error(write_parallel(folder / "train", [("a", "1"), ("a", "2")]))
    assert "only one source sentence" in text and "--validation" in text


def test_signature_changes_with_files_and_settings(folder: Path):
    source = write_parallel(folder / "train", numbered_pairs(3))
    validation = write_parallel(folder / "val", numbered_pairs(3))
    config = corpus_of(source)
    signatures = [
        corpus_signature(config),
        corpus_signature(corpus_of(source, validation)),
        corpus_signature(corpus_of(validation, source)),
        corpus_signature(corpus_of(source, "", "de", "en")),
        corpus_signature(corpus_of(str(folder))),
        corpus_signature(corpus_of(f"{folder}:train")),
        *(
            corpus_signature(replace(config, **changed))
            for changed in (
                {"clean": "none"},
                {"clean": "strict"},
                {"src_column": "1", "tgt_column": "2"},
                {"src_column": "2", "tgt_column": "1"},
                {"revision": "main"},
                {"bidirectional": True},
                {"validation": "1"},
                {"validation": "1%"},
            )
        ),
    ]
    assert corpus_signature(config) == signatures[0]
    write_parallel(folder / "train", numbered_pairs(3))  # the same bytes, written later
    signatures.append(corpus_signature(config))
    assert len(set(signatures)) == len(signatures)


def test_no_pair_of_the_demo_is_dropped(tmp_path: Path):
    cleaned = clean_corpus(CorpusConfig(), tmp_path, shown=False)
    assert [report.dropped for report in cleaned.reports] == [{}, {}]


def test_signature_of_demo_and_hub_depends_on_name_and_languages():
    signatures = [
        corpus_signature(corpus_of(dataset, "", src, tgt))
        for dataset in ("demo", "opus_books", "wmt/wmt14")
        for src, tgt in (("en", "it"), ("it", "en"))
    ]
    assert len(set(signatures)) == 6
    same = corpus_of("Helsinki-NLP/opus_books", "", "en", "it")
    assert corpus_signature(same) == signatures[2]


def test_signature_of_missing_source_raises_as_reading_does(folder: Path):
    missing = str(folder / "missing")
    with pytest.raises(UserError) as raised:
        corpus_signature(corpus_of(missing))
    assert str(raised.value) == corpus_error(missing)
