"""Corpora with the defects of real ones: pairs and a report, or one message with the cause."""

import re
from pathlib import Path

import pytest

from benchmarks.dirty_corpora import DirtyCorpora, write_corpora
from tests.helpers.corpora import corpus_error, corpus_of, read_corpus
from translate_ddp.text import normalize

PAIRS = 400

# The message of the error.
UNREADABLE = {
    "mixed-encodings-many-lines": r"train\.de cannot be read: \d+ of 400 lines are not UTF-8",
    "latin-1": "not UTF-8, first line 1. If the file is .*: iconv -f ",
    "utf-16": "train.de cannot be read: line 1 is not UTF-8, but UTF-16.*: iconv -f UTF-16 ",
    "utf-16-without-bom": "but UTF-16LE. Convert it: iconv -f UTF-16LE ",
    "one-side-empty": "0 usable pairs of 400: 400 empty",
    "empty-file": "train.en is empty",
    "one-pair-only": "only one source sentence.* pass --validation",
    "one-source-sentence": "only one source sentence.* pass --validation",
    "different-line-counts": r"train\.en has 400 lines and \S+train\.de 393",
    "truncated-gz": "train.tsv.gz .*cannot be read: .*incomplete: copy it again",
    "plain-text-named-gz": "not compressed by gzip. If it is text, rename it to train.tsv",
    "ragged-tsv": "line 134 has 3 fields, but the first row has 2",
    "unbalanced-csv-quotes": "text follows a quote in line 136 that ends a field of line 135",
    "broken-jsonl": "line 91 is no JSON",
}
# The reasons for which rows are dropped, and how many (None: some).
DROPPED: dict[str, dict[str, int | None]] = {
    "no-defect": {},
    "utf-8-with-bom": {},
    "windows-line-ends": {},
    "old-mac-line-ends": {},
    "boilerplate-10000-times": {"duplicate": 9_999},
    "duplicates-40-percent": {"duplicate": 267},
    "lines-of-5-mb": {"over 10,000 characters": 6},
    "empty-lines": {"empty": None},
    "control-characters": {"control characters": None, "invalid unicode": None},
    "jsonl-without-text": {"not text": 4},
    "jsonl-half-surrogates": {"invalid unicode": 1},
    "everything": {
        "duplicate": None, "control characters": None, "empty": 1, "invalid unicode": None,
    },
}  # fmt: skip


def write(folder: Path, name: str) -> str:
    write_corpora(DirtyCorpora(folder, PAIRS, only=(name,)))
    return str(folder / name)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_corpus_that_cannot_be_used_is_one_message(tmp_path: Path, name: str):
    assert re.search(UNREADABLE[name], corpus_error(write(tmp_path, name)))


@pytest.mark.parametrize("name", DROPPED)
def test_dropped_rows_of_a_corpus_are_reported_with_examples(tmp_path: Path, name: str):
    corpus = read_corpus(corpus_of(write(tmp_path, name)))
    (report,) = corpus.reports
    found = corpus.dropped
    expected = {why: n or found.get(why, 0) for why, n in DROPPED[name].items()}
    assert found == report.dropped == expected and 0 not in expected.values()
    assert (
        report.kept
        == len(corpus.train)
        == report.rows - sum(expected.values()) - len(corpus.validation)
    )
    assert set(report.examples) == set(expected)
    for pair in corpus.train + corpus.validation:
        assert all(text and text == normalize(text) for text in pair)
