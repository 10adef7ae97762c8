"""Whether the first row of a table is a header, and which columns it names."""

from pathlib import Path

import pytest

from tests.helpers.corpora import EN_DE, error_of, read, write
from translate_ddp.corpus_settings import SourceOptions
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs

PAIRS = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
ROWS = "".join(f"{en}\t{de}\n" for en, de in PAIRS)


@pytest.mark.parametrize("header", ["EN\tDE", "English\tGerman", "english\tGERMAN", "SRC\tTGT"])
def test_columns_are_found_in_any_case_and_by_the_names_of_languages(folder: Path, header: str):
    # Such a header was once a pair.
    assert read(write(folder / "x.tsv", f"{header}\n{ROWS}")) == PAIRS
    assert read(write(folder / "y.tsv", f"en\tde\n{ROWS}"), ("EN", "DE")) == PAIRS


@pytest.mark.parametrize(
    "header", ["English\tFrench", "EN\tFR", "fr\tit", "French\tItalian", "de\tIT"]
)
def test_header_of_other_languages_is_no_pair(folder: Path, header: str):
    source = write(folder / "x.tsv", f"{header}\n{ROWS}")
    message = error_of(source)
    assert "has no columns en and de: its first row is" in message and "--src_column" in message
    assert read(source, src_column="1", tgt_column="2")[-3:] == PAIRS


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_first_row_that_may_be_a_header_is_named(folder: Path, ending: str):
    table = f"Deutscher_Text\tText\n{ROWS}"
    source = write(folder / f"x.{ending}", table)
    rows = read_pairs(source, EN_DE)
    assert list(rows.read(ignore_progress)) == [("Deutscher_Text", "Text"), *PAIRS]
    assert rows.notices == [
        f"{source}: its first row, Deutscher_Text, Text, is read as a pair. If it is a header, "
        "pass its names as --src_column and --tgt_column."
    ]
    swapped = SourceOptions(src_column="Text", tgt_column="Deutscher_Text")
    rows = read_pairs(source, EN_DE, swapped)
    assert list(rows.read(ignore_progress)) == [pair[::-1] for pair in PAIRS] and not rows.notices
    rows = read_pairs(write(folder / f"y.{ending}", "a bird\tein Vogel\n"), EN_DE)
    assert list(rows.read(ignore_progress)) == [("a bird", "ein Vogel")] and not rows.notices


@pytest.mark.parametrize("row", ["It\tEs", "No\tNo", "no\tno", "so\tdann", "He is\tDe"])
def test_words_that_are_codes_of_languages_are_a_pair(folder: Path, row: str):
    assert read(write(folder / "x.tsv", f"{row}\n")) == [tuple(row.split("\t"))]
