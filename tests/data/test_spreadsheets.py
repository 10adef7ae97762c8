"""Spreadsheets: .xlsx and .ods, whose sheets are read as the same table in CSV is."""

import csv
import sys
from collections.abc import Callable, Mapping
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.helpers.corpora import (
    corpus_error,
    corpus_of,
    error_of,
    notices_of,
    read,
    read_corpus,
    write,
)
from tests.helpers.spreadsheets import Formula, Sheet, write_spreadsheet
from translate_ddp.apps.commands.model_commands import Pairs
from translate_ddp.apps.commands.validate import ValidateConfig, open_system
from translate_ddp.data.inputs import read_glossary, read_sources, read_texts
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig
from translate_ddp.spans import Protection

with_calamine = pytest.mark.skipif(
    find_spec("python_calamine") is None, reason="python-calamine is not installed"
)
Write = Callable[..., str]  # as write_spreadsheet, of the name without its ending
PAIRS: Sheet = [
    ["de", "note", "en"],
    ["Guten Tag.", "formal", " Hello,  you "],
    ["", "", ""],
    [None, None, None],
    ['"Nein" & <ja>', "", "007"],
    ["", "", "No translation."],
    ["Zwei\nZeilen; kurz", "", "a, b"],
]


@pytest.fixture(params=[".xlsx", ".ods"])
def write_file(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    def write(name: str, sheets: Mapping[str, Sheet], **options: str) -> str:
        return write_spreadsheet(tmp_path / f"{name}{request.param}", sheets, **options)

    return write


@with_calamine
def test_sheet_is_read_as_the_same_table_in_csv(write_file: Write, tmp_path: Path):
    source, table = write_file("pairs", {"Tabelle1": PAIRS}), tmp_path / "pairs.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(row if any(row) else [] for row in PAIRS)
    assert len(read(table)) == 4
    assert read(source) == read(table)
    chosen = [read(path, src_column="2", tgt_column="3") for path in (source, table)]
    assert chosen[0] == chosen[1] != read(table)
    assert error_of(source, ("en", "fr")) == error_of(table, ("en", "fr")).replace(
        str(table), source
    )
    texts = list(read_sources(table, "de"))  # in a sheet, each row is one, also an empty one
    assert list(read_sources(Path(source), "de")) == [texts[0], "", "", *texts[1:]]
    found = read_texts(Path(source), "src", "en")
    assert list(filter(None, found)) == read_texts(table, "src", "en")
    dropped = read_corpus(corpus_of(source, "1")).dropped
    assert dropped == read_corpus(corpus_of(str(table), "1")).dropped == {"empty": 1}
    pattern = source.replace("pairs.", "pa*.")
    assert read(pattern) == read(table)


@with_calamine
def test_translations_to_compare_may_be_a_sheet(write_file: Write):
    source = write_file("other", {"A": [["ciao"], ["mondo"]], "B": [["x"]]})
    config = ValidateConfig(compare=f"{source}:A")
    pairs = Pairs(["hello", "world"], ["ciao", "mondo"], LanguagePair("en", "it"))
    assert open_system(pairs, config, Protection()).predictions == pairs.references


@with_calamine
def test_values_are_read_as_plain_text_and_counted(write_file: Write):
    rows: Sheet = [
        ["en", "id", "de"],
        ["five", 1, "fünf"],
        [5, 2, "fünf"],
        [2.5, 3, True],
        [date(2024, 3, 1), 4, 1e6],
    ]
    source = write_file("values", {"A": rows})
    assert read(source)[1:] == [("5", "fünf"), ("2.5", "TRUE"), ("2024-03-01", "1000000")]
    (notice,) = notices_of(source)
    assert ": numbers or dates in 5 cells, first in row 3: 5. " in notice
    assert notice in read_corpus(corpus_of(source, "1")).reports[0].notices  # which are printed


@with_calamine
def test_saved_results_of_formulas_are_read_and_merged_cells_are_explained(write_file: Write):
    rows: Sheet = [["Hi.", "Hallo."], [Formula("Yes."), Formula()]]
    plain = write_file("plain", {"A": rows[:1]})
    source = write_file("formulas", {"A": rows}, merged="A1:B1")
    assert read(source)[1] == ("Yes.", "")
    formulas, merged = notices_of(source)[:2]
    assert "has formulas" in formulas and "has merged cells" in merged
    assert notices_of(plain) == []


@with_calamine
def test_hidden_rows_and_columns_that_are_read_are_counted(write_file: Write):
    rows: Sheet = [
        ["en", "id", "de"],
        ["one", 1, "eins"],
        [],
        ["two", 2, "zwei"],
        ["three", 3, "drei"],
    ]
    source = write_file("some", {"A": rows}, hidden_rows=[2, 3, 5], hidden_columns=[2, 3])
    assert read(source) == [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert list(read_sources(Path(source), "en")) == ["one", "", "two", "three"]
    what = "this is read, too: 2 hidden rows (first: 2) and the hidden column C"
    assert notices_of(source) == [f"{source}: {what}. Delete what should not be used."]
    # The sheets of a file have their own.
    words = [["en", "de"], ["cat", "Katze"]]
    several = write_file("several", {"Long": rows, "Short": words}, hidden_rows=[4])
    (notice,) = notices_of(f"{several}:Long")
    assert notice.startswith(f"{several}:Long: this is read, too: 1 hidden row (first: 4). ")
    assert notices_of(f"{several}:Short") == []


@with_calamine
@pytest.mark.parametrize(
    ("row", "name", "column"), [(1_048_576, "XFD", 16_384), (70_000, "BAA", 1379)]
)
def test_cell_too_far_away_is_named(write_file: Write, row: int, name: str, column: int):
    words = [["en", "de"], ["cat", "Katze"]]
    source = write_file("far", {"Words": words}, far=(row, column), far_name=name)
    message = error_of(source)
    assert f"a value in cell {name}{row} of the sheet Words" in message and "\n" not in message
    assert "Delete the columns right of the texts" in message
    # A wide or a long sheet is read.
    for number, place in enumerate([(400, column), (row, 4)]):
        options = {"far": place, "far_name": name if number == 0 else "D"}
        assert read(write_file(f"near{number}", {"Words": words}, **options))[0] == ("cat", "Katze")


@with_calamine
def test_white_space_in_a_cell_divides_words(write_file: Write):
    rows: Sheet = [["en", "de"], ["One\ttwo\nthree", "Eins\vzwei\t\tdrei"], ["\tFour", "Vier\v"]]
    texts = [
        tuple(" ".join(str(text).split()) for text in row)
        for row in read(write_file("a", {"A": rows}))
    ]
    assert texts == [("One two three", "Eins zwei drei"), ("Four", "Vier")]


@with_calamine
def test_one_of_several_sheets_is_chosen_by_name(write_file: Write):
    words, phrases = [["en", "de"], ["cat", "Katze"]], [["en", "de"], ["Good day.", "Guten Tag."]]
    single = write_file("single", {"Old": words, "Phrases": phrases, "Blatt 3": []}, hidden="Old")
    assert read(single) == [("Good day.", "Guten Tag.")]
    source = write_file("several", {"The words": words, "Phrases": phrases})
    assert read(f"{source}:The words") == [("cat", "Katze")]
    assert list(read_sources(Path(f"{source}:Phrases"), "en")) == ["Good day."]
    with pytest.raises(UserError, match="has the sheets The words, Phrases: name one, as in"):
        read_sources(Path(f"{source}:Words"), "en")
    assert read_glossary(f"{source}:Phrases", ("en", "de")) == {"Good day.": "Guten Tag."}
    assert corpus_error(source).endswith(
        f"has the sheets The words, Phrases: name one, as in {source}:Phrases."
    )
    assert "has no sheet 'Words'; it has The words, Phrases." in error_of(f"{source}:Words")
    message = error_of(source.replace("several", "*"))
    assert "has the sheets The words, Phrases: name one" in message
    assert "no visible sheet with text" in error_of(write_file("none", {"A": [], "B": []}))


@with_calamine
def test_sheets_serve_as_splits_and_as_directions(write_file: Write):
    header = ["en", "de"]
    rows = {
        "train": [header, ["one", "eins"], ["two", "zwei"]],
        "validation": [header, ["three", "drei"]],
    }
    found = read_corpus(corpus_of(write_file("splits", rows)))
    assert (len(found.train), found.validation) == (2, [("three", "drei")])
    sheets = {
        "en-de": [["en", "de"], ["one", "eins"], ["two", "zwei"]],
        "it-fr": [["it", "fr"], ["tre", "trois"], ["quattro", "quatre"]],
    }
    source = write_file("languages", sheets) + ":{src}-{tgt}"
    corpus = read_corpus(CorpusConfig((source,), "1", ("en", "it"), ("de", "fr")))
    assert len(corpus.train) == 2
    assert "has no sheet 'en-fr'" in " ".join(corpus.reports[0].notices)


@with_calamine
def test_file_that_cannot_be_read_is_one_message(tmp_path: Path):
    path = Path(write_spreadsheet(tmp_path / "good.xlsx", {"A": PAIRS}))
    content = path.read_bytes()
    for name, data in {
        "half.xlsx": content[: len(content) // 2],
        "text.xlsx": b"en,de\none,eins\n",
    }.items():
        message = error_of(write(tmp_path / name, data))
        assert f"{name} cannot be read: " in message and "save it as a new .xlsx" in message
    locked = tmp_path / "locked.ods"
    with ZipFile(locked, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        namespace = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        entry = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
        archive.writestr(
            "META-INF/manifest.xml",
            f'<manifest:manifest xmlns:manifest="{namespace}">{entry}</manifest:manifest>',
        )
    assert "password protected. Open it in Excel" in error_of(locked)
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)
    for name in ("old.xls", "locked.xlsx"):
        message = error_of(write(tmp_path / name, old))
        assert "save a spreadsheet as .xlsx or .ods, without a password" in message
    compressed = write(tmp_path / "pairs.xlsx.gz", content)
    assert ".xlsx is compressed inside. Decompress" in error_of(compressed)


def test_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = write_spreadsheet(tmp_path / "pairs.ods", {"A": PAIRS})
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    assert error_of(source) == (
        "python-calamine is not installed: run pip install -r requirements-spreadsheet.txt."
    )
