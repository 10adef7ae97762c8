"""Files of sentence pairs: parallel text, tables, and errors that name the file."""

import json
import re
from pathlib import Path

import datasets
import pytest

from tests.helpers.corpora import (
    EN_DE,
    corpus_of,
    error_of,
    numbered_pairs,
    read,
    read_corpus,
    write,
    write_parallel,
    write_parquet,
)
from translate_ddp.data.inputs import read_given_pairs
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs


def test_rows_without_text_are_dropped_and_counted(folder: Path):
    rows = [{"en": f"s{n}", "de": f"t{n}"} for n in range(3)]
    rows += [{"en": 5, "de": "five"}, {"en": None, "de": "none"}, {"de": "missing"}]
    nested = "".join(json.dumps({"translation": row}) + "\n" for row in rows)
    flat = "".join(json.dumps(row) + "\n" for row in rows)
    for source in (write(folder / "nested.jsonl", nested), write(folder / "flat.jsonl", flat)):
        assert read(source)[2:] == [("s2", "t2"), (None, "five"), (None, "none"), (None, "missing")]
        corpus = read_corpus(corpus_of(source))
        assert corpus.dropped == {"not text": 3}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.jsonl", '{"translation": {"fr": "un", "es": "uno"}}\n', "en and de.* fr, es"),
        ("x.jsonl", '{"id": 1, "text": "one"}\n', "en and de.* id, text"),
        ("x.tsv", "en\tfr\none\tun\n", "en and de.* en, fr"),
        ("x.tsv", "one\teins\tun\n", "en and de.* one, eins, un"),
        ("x.csv", "one eins\n", "en and de.* one eins"),
        ("x.jsonl", "", "^{file} is empty.$"),
        ("x.tsv", "", "^{file} is empty.$"),
        ("x.parquet", "", "^{file} is empty.$"),
        ("x.jsonl", '{"en": "a", "de": "b"}\n{"en": "c", "de\n', "^{file}.* cannot be read: "),
        ("x.parquet", "no parquet at all", "^{file}.* cannot be read: "),
        ("x.json", b'[{"en": "\xe9", "de": "x"},\n{"en": "\xe9"}]\n', "2 of 2 lines are not UTF-8"),
    ],
)
def test_error_for_unusable_table(folder: Path, name: str, content: str | bytes, expected: str):
    text = error_of(write(folder / name, content))
    assert re.search(expected.replace("{file}", str(folder / name)), text), text


def test_reading_writes_nothing_beside_the_files(folder: Path):
    write_parallel(folder / "train", numbered_pairs(9))
    write(folder / "val.jsonl.gz", '{"en": 1, "de": "a"}\n{"en": "b", "de": "b"}\n')
    before = sorted(folder.rglob("*"))
    read_corpus(corpus_of(str(folder / "train"), str(folder / "val.jsonl.gz")))
    assert sorted(folder.rglob("*")) == before


def test_reading_local_files_uses_no_network(folder: Path, monkeypatch: pytest.MonkeyPatch):
    # `datasets` counts each use of its readers by a request, which takes 5 s without a network.
    requests: list[object] = []
    monkeypatch.setattr("datasets.config.HF_UPDATE_DOWNLOAD_COUNTS", True)
    monkeypatch.setattr("socket.getaddrinfo", lambda *address, **_: requests.append(address))
    write_parquet(folder / "train.parquet", {"en": "one", "de": "eins"})
    write_parallel(folder / "val", numbered_pairs(9))
    read_corpus(corpus_of(str(folder), str(folder / "val")))
    assert requests == []


@pytest.mark.parametrize("names", [["a.en", "a.de"], ["a.en", "a.de", "b.en", "b.de"]])
def test_other_files_of_a_pattern_are_named(folder: Path, names: list[str]):
    for name in [*names, "c.tsv", "notes.txt"]:
        write(folder / name, "text\n")
    rows = read_pairs(f"{folder}/*", EN_DE)
    for _ in range(2):
        assert list(rows.read(ignore_progress)) == [("text", "text")] * (len(names) // 2)
        assert rows.notices == [
            f"Not read of {folder}/*: c.tsv, notes.txt, no parallel text in en and de."
        ]


def test_shard_that_is_a_link_without_a_file_is_an_error(folder: Path):
    write(folder / "part-0.tsv", "en\tde\none\teins\n")
    (folder / "part-1.tsv").symlink_to(folder / "moved.tsv")
    assert f"There is no file {folder / 'part-1.tsv'}" in error_of(folder / "part-*.tsv")


@pytest.mark.parametrize("nested", [True, False])
def test_folder_of_save_to_disk_is_read(folder: Path, nested: bool):
    pairs = [{"en": f"e{n}", "de": f"d{n}"} for n in range(5)]
    rows = [{"translation": pair, "id": 1} for pair in pairs] if nested else pairs
    table = datasets.Dataset.from_list(rows)
    table.save_to_disk(folder / "table", num_shards=2)
    splits = datasets.DatasetDict({"train": table, "validation": table.select([1])})
    splits.save_to_disk(folder / "splits")
    expected = [(f"d{n}", f"e{n}") for n in range(5)]
    assert read(folder / "table", ("de", "en")) == expected
    assert read(f"{folder}/splits:train", ("de", "en")) == expected
    assert read(f"{folder}/splits:validation", ("deu", "eng")) == expected[1:2]
    assert read_given_pairs(f"{folder}/splits:validation", "", EN_DE) == (["e1"], ["d1"])
    assert "has no columns en and fr, but" in error_of(folder / "table", ("en", "fr"))
    (folder / "table/data-00001-of-00002.arrow").unlink()
    assert "save it again" in error_of(folder / "table")
