"""The list of rows to correct: each row that strict cleaning drops, with its number and reason."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.commands import translate_ddp
from translate_ddp.apps.inspecting.row_list import write_row_list
from translate_ddp.data.corpus import clean_corpus
from translate_ddp.settings import CorpusConfig

PAIRS = [
    ("A first sentence", "Una prima frase"),
    ("A first sentence", "Una prima frase"),
    ("A first sentence!", "Una prima frase."),
    ('"In 12345 there was', "Nel 54321 c'era"),
    ("Berlin is nice", "berlin is nice"),
    ("", "Senza originale"),
    ("Привет мир как дела", "Ciao mondo, come va"),
    ("See http://a.org/x now", "Guarda adesso"),
    ("Yes", "Una risposta che è molto più lunga di quanto sia necessario"),
]
BAD = [
    ("2", "duplicate of row 1"),
    ("3", "near duplicate of row 1"),
    ("4", "numbers differ"),
    ("5", "source equals target"),
    ("6", "empty"),
    ("7", "wrong script"),
    ("8", "URLs differ"),
    ("9", "length ratio"),
]
GOOD = [(f"{word} is red", f"{word} è rosso") for word in "abcdefghijklmnopqrstuvw"]


def write_csv(path: Path, *codes: str) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(codes)
        rows.writerows([*(pair[:1] + pair[1:] * (len(codes) - 1) for pair in PAIRS + GOOD)])


def listed(path: Path) -> list[dict[str, str]]:
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    with path.open(encoding="utf-8-sig") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_list_has_each_row_that_strict_cleaning_drops_with_number_and_reason(tmp_path: Path):
    write_csv(tmp_path / "pairs.csv", "en", "it")
    config = CorpusConfig((str(tmp_path / "pairs.csv"),), clean="strict")
    assert write_row_list(config, tmp_path / "rows.tsv") == len(BAD)
    rows = listed(tmp_path / "rows.tsv")
    assert [(row["row"], row["reason"]) for row in rows] == BAD
    for row in rows:
        assert (row["source"], row["target"]) == PAIRS[int(row["row"]) - 1]
        assert (row["file"], row["direction"]) == (str(tmp_path / "pairs.csv"), "en-it")
    reasons = Counter(row["reason"].split(" of row")[0] for row in rows)
    assert reasons == clean_corpus(config, tmp_path / "folder", shown=False).dropped


def test_list_names_the_direction(tmp_path: Path):
    write_csv(tmp_path / "table.csv", "en", "it", "es")
    config = CorpusConfig((str(tmp_path / "table.csv"),), lang_tgt=("it", "es", "fr"))
    write_row_list(config, tmp_path / "rows.tsv")
    found = Counter(row["direction"] for row in listed(tmp_path / "rows.tsv"))
    assert found == {"en-it": len(BAD), "en-es": len(BAD)}


@pytest.mark.parametrize("name", ["kept.tsv", "nowhere/rows.tsv"])
def test_list_replaces_no_file(tmp_path: Path, name: str):
    (tmp_path / "kept.tsv").write_text("kept")
    flags = ["--dataset", "demo", "--lang_tgt", "it", "--rows", str(tmp_path / name)]
    code, output = translate_ddp(tmp_path, "inspect", *flags)
    assert code == 2 and output.count("\n") == 1 and output.endswith("pass another --rows.\n"), (
        output
    )
    assert (tmp_path / "kept.tsv").read_text() == "kept"
