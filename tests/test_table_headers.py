"""Whether the first row of a table is a header, and which columns it names."""

from pathlib import Path

import pytest

from tests.helpers.corpora import error_of, read, write

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


@pytest.mark.parametrize("row", ["It\tEs", "No\tNo", "no\tno", "so\tdann", "He is\tDe"])
def test_words_that_are_codes_of_languages_are_a_pair(folder: Path, row: str):
    assert read(write(folder / "x.tsv", f"{row}\n")) == [tuple(row.split("\t"))]
