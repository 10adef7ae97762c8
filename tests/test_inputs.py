"""Texts and pairs that commands read: all formats of training, with a text for each line."""

import gzip
from pathlib import Path

import datasets
import pytest

from tests.helpers.corpora import write
from translate_ddp.data.inputs import read_given_pairs, read_sources, read_texts
from translate_ddp.errors import UserError

EN_IT = ("en", "it")
JSON = '{"en": "a {b}", "it": "x"}\n{"en": "c", "it": "y"}\n'


def sources(path: str) -> list[str | None]:
    return read_sources(Path(path), "en")["src"][:]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\n\n two\n", ["one", "", " two"]),
        ("a.txt", "no final newline", ["no final newline"]),
        ("a.txt", "one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        ("a.txt", "", []),
        ("a.txt", "\n", [""]),
        ("a.txt.gz", "one\n\n", ["one", ""]),
        ("a.txt.gz", "", []),
        ("a", '{"en": 1}\n', ['{"en": 1}']),
        ("a.tsv", 'one "x"\tuno\ntwo\tdue\n', ['one "x"', "two"]),
        ("a.tsv", "one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        ("a.tsv.gz", "id\ten\n1\tone\n2\tNA\n", ["one", "NA"]),
        ("a.csv", 'it,en\nx,"a, b"\ny,c\n', ["a, b", "c"]),
        ("a.csv", 'src\n"a\nb"\n', ["a\nb"]),
        ("a.jsonl", JSON, ["a {b}", "c"]),
        ("a.jsonl.gz", JSON, ["a {b}", "c"]),
        ("a.jsonl", '{"en": "a"}\n{"en": null}\n{"en": "b"}\n', ["a", None, "b"]),
        ("a.json", '[{"translation": {"en": "a", "it": "b"}}]', ["a"]),
        ("a.json", '[{"src": "a"}, {"src": "b"}]', ["a", "b"]),
    ],
)
def test_every_format_gives_its_texts(
    folder: Path, name: str, content: str, expected: list[str | None]
):
    path = folder / name
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    assert sources(str(path)) == expected


def test_parquet_gives_its_texts(folder: Path):
    datasets.Dataset.from_dict({"en": ["a", "b"], "n": [1, 2]}).to_parquet(folder / "a.parquet")
    assert sources(str(folder / "a.parquet")) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n', "has no column en, but text"),
        ("a.tsv", "a\tb\tc\n", "names no column en .or src.: its first row is a, b, c"),
        ("a.jsonl", "", "is empty"),
        ("a.txt", b"caf\xe9\n", "cannot be read: 'utf-8'"),
        ("a.txt.gz", gzip.compress(b"one\n" * 99)[:-9], "cannot be read"),
    ],
)
def test_unusable_file_is_reported(folder: Path, name: str, content: str | bytes, message: str):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=message):
        sources(str(path))
    with pytest.raises(UserError, match="There is no file"):
        sources(str(folder / "nothing.txt"))


def test_pairs_are_read_from_one_table_or_from_two_files(folder: Path):
    expected = (["a {b}", "c"], ["x", "y"])
    table = write(folder / "a.jsonl", JSON)
    assert read_given_pairs(table, "", EN_IT) == expected
    english = write(folder / "b.en", "a {b}\nc\n")
    italian = write(folder / "b.it.gz", "x\ny\n")
    assert read_given_pairs(english, italian, EN_IT) == expected
    assert read_given_pairs(english, table, EN_IT) == expected
    assert read_given_pairs(table, italian, EN_IT) == expected
    assert read_given_pairs(str(folder / "b"), "", EN_IT) == expected  # as for --dataset
    assert read_texts(Path(table), "tgt", "it") == ["x", "y"]


def test_missing_side_of_a_pair_is_reported(folder: Path):
    english = write(folder / "a.en", "a\nb\n")
    with pytest.raises(UserError, match="pass their translations as --reference"):
        read_given_pairs(english, "", EN_IT)
    with pytest.raises(UserError, match="has 2 lines and .* 1:"):
        read_given_pairs(english, write(folder / "a.it", "x\n"), EN_IT)
    gap = write(folder / "a.jsonl", '{"en": "a", "it": "x"}\n{"en": "b", "it": null}\n')
    with pytest.raises(UserError, match=r"no text in row 2 \(tgt\), and in 1 rows in total"):
        read_given_pairs(gap, "", EN_IT)
