"""The list of rows to correct: each row that strict cleaning drops, with its number and reason."""

import csv
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.corpora import write, write_parallel
from tests.helpers.spreadsheets import Sheet, write_spreadsheet
from translate_ddp.apps.inspecting.inspection import write_row_list
from translate_ddp.data.corpus import clean_corpus
from translate_ddp.settings import CleanLevel, CorpusConfig

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
GOOD = [(f"{word} is red", f"{word} è rosso") for word in "abcdefghijklmnopqrstuvw"]
TODO = [(f"{word} is blue", "TODO") for word in "abcdefghijk"]
BAD = [
    ("3", "duplicate of row 2"),
    ("4", "near duplicate of row 2"),
    ("5", "numbers differ"),
    ("6", "source equals target"),
    ("7", "empty"),
    ("8", "wrong script"),
    ("9", "URLs differ"),
    ("10", "length ratio"),
    *((str(row), "one text for many") for row in range(34, 45)),
]


def write_csv(path: Path, *codes: str) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(codes)
        for src, tgt in PAIRS + GOOD + TODO:
            rows.writerow([src, tgt, tgt.replace("è rosso", "es rojo")][: len(codes)])


def listed(config: CorpusConfig) -> list[dict[str, str]]:
    """The lines of the list."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.tsv"
        count = write_row_list(clean_corpus(config, Path(folder), False, labelled=True), path)
        assert path.read_bytes().startswith(b"\xef\xbb\xbf")
        with path.open(encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == count
    return rows


@pytest.mark.parametrize("level", ["none", "safe", "strict"])
def test_list_has_each_row_that_strict_cleaning_drops_with_number_and_reason(
    tmp_path: Path, level: CleanLevel
):
    write_csv(tmp_path / "pairs.csv", "en", "it")
    config = CorpusConfig((str(tmp_path / "pairs.csv"),), clean=level)
    rows = listed(config)
    assert [(row["row"], row["reason"]) for row in rows] == BAD
    for row in rows:
        assert (row["source"], row["target"]) == (PAIRS + GOOD + TODO)[int(row["row"]) - 2]
        assert (row["file"], row["direction"]) == (str(tmp_path / "pairs.csv"), "en-it")
    reasons = Counter(row["reason"].split(" of row")[0] for row in rows)
    strict = clean_corpus(replace(config, clean="strict"), tmp_path / "folder", shown=False)
    assert reasons == strict.dropped


def numbers_in_list(source: str, folder: Path) -> list[tuple[str, int, str]]:
    """File, number and reason of each listed row."""
    validation = write_parallel(folder / "valid", [("other", "andere")])
    rows = listed(CorpusConfig((source,), lang_tgt=("de",), validation=validation))
    return [(row["file"], int(row["row"]), row["reason"]) for row in rows]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        # As LibreOffice and Excel show it: header, empty rows and line breaks in quotes.
        ("a.csv", 'en,de\n\n"one\ntwo",eins\n\n\nbad,\nfour,vier\nfive,\n', [6, 8]),
        ("b.csv", "sep=;\nen;de\none;eins\n\nbad;\n", [4]),
        ("c.csv", "\n\nen,de\r\n\r\nbad,\r\nsix,sechs", [5]),
        ("d.tsv", "one\teins\n\nbad\t\n\n\n\n\tbad\n", [3, 7]),
        ("e.jsonl", '{"en": "one", "de": "eins"}\n{"en": "bad", "de": null}\n', [2]),
    ],
)
def test_rows_have_the_numbers_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, expected: list[int]
):
    for size in (10_000, 2):  # rows of a batch
        monkeypatch.setattr("translate_ddp.data.readers.delimited.BATCH_ROWS", size)
        monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", size)
        path = tmp_path / str(size) / name
        source = write(path, content)
        found = numbers_in_list(source, path.parent)
        assert [(file, row) for file, row, _ in found] == [(source, row) for row in expected]


def test_rows_of_several_files_have_the_name_and_number_of_each(tmp_path: Path):
    first = write(tmp_path / "part1.csv", "en,de\none,eins\nbad,\n")
    second = write(tmp_path / "part2.csv", "de,en\n\nzwei,two\neins,one\n,bad\n")
    assert numbers_in_list(str(tmp_path / "part*.csv"), tmp_path) == [
        (first, 3, "empty"),
        (second, 4, f"duplicate of row 2 of {first}"),
        (second, 5, "empty"),
    ]
    write_parallel(tmp_path / "text", [("one", "eins"), ("", ""), ("bad", "")])
    found = numbers_in_list(str(tmp_path / "text"), tmp_path)
    assert [row for _, row, _ in found] == [2, 3]


@pytest.mark.skipif(find_spec("python_calamine") is None, reason="python-calamine is not installed")
@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
@pytest.mark.parametrize("size", [10_000, 2])
def test_rows_of_a_sheet_have_the_numbers_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, size: int
):
    monkeypatch.setattr("translate_ddp.data.readers.spreadsheet.BATCH_ROWS", size)
    rows: Sheet = [["en", "de"], [], [], ["bad", ""], [None], ["one", "eins"], ["", "bad"]]
    words: Sheet = [[], ["de", "en"], ["zwei", "two"], [], ["zwei", "two"]]
    path = tmp_path / f"pairs{ending}"
    source = write_spreadsheet(path, {"A": rows, "B": words}, hidden_rows=[3, 4])
    assert numbers_in_list(f"{source}:A", tmp_path) == [
        (f"{source}:A", 4, "empty"),
        (f"{source}:A", 7, "empty"),
    ]
    assert numbers_in_list(f"{source}:B", tmp_path) == [(f"{source}:B", 5, "duplicate of row 3")]


def test_list_names_the_direction(tmp_path: Path):
    write_csv(tmp_path / "table.csv", "en", "it", "es")
    config = CorpusConfig((str(tmp_path / "table.csv"),), lang_tgt=("it", "es"))
    found = Counter(row["direction"] for row in listed(config))
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
