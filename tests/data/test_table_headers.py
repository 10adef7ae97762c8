"""Whether the first row of a table is a header, and which columns it names."""

from pathlib import Path

import pytest

from tests.helpers.corpora import EN_DE, error_of, read, write
from translate_ddp.data.inputs import read_sources
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.settings import SourceOptions

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


HEADERS = [
    '"de"\t"en"',
    "German sentence\tEnglish translation",
    '"German sentence"\t"English sentence"',
    "Text (de)\tText (en)",
    "Satz DE\tSentence EN",
    "sentence_de\tsentence_en",
    "deu-text\teng-text",
    "Target text\tSource text",
]


@pytest.mark.parametrize("header", HEADERS)
def test_columns_are_found_by_words_of_their_names(folder: Path, header: str):
    swapped = "".join(f"{de}\t{en}\n" for en, de in PAIRS)
    path = write(folder / "x.tsv", f"{header}\n{swapped}")
    rows = read_pairs(path, EN_DE)
    assert list(rows.read(ignore_progress)) == PAIRS
    assert header.startswith('"de"') or "is read as a header" in " ".join(rows.notices)
    assert list(read_sources(Path(path), "en", "de")) == [en for en, _ in PAIRS]


@pytest.mark.parametrize(
    ("languages", "row"),
    [
        (EN_DE, "I speak German\tIch spreche Deutsch"),
        (EN_DE, "German and English\tDeutsch und Englisch"),
        (EN_DE, "He learns English.\tThe German man."),
        (("de", "es"), "Es regnet\tLlueve de noche"),
        (("de", "es"), "Das ist es\tCasa de Ana"),
    ],
)
def test_sentences_with_names_of_languages_are_a_pair(
    folder: Path, languages: tuple[str, str], row: str
):
    path = write(folder / "x.tsv", f"{row}\n")
    assert read(path, languages) == [tuple(row.split("\t"))]
    assert list(read_sources(Path(path), *languages)) == [row.split("\t")[0]]


@pytest.mark.parametrize(
    ("header", "languages"),
    [("id\tEnglish\tIndonesian", ("en", "id")), ("No\tEnglish\tNorwegian", ("en", "no"))],
)
def test_number_of_a_row_is_not_the_language_of_that_code(
    folder: Path, header: str, languages: tuple[str, str]
):
    assert read(write(folder / "x.tsv", f"{header}\n1\ta\tb\n"), languages) == [("a", "b")]
    path = write(folder / "y.tsv", f"{header[:13]}\n1\ta\n2\tb\n")
    assert "has no text. Pass the names or the numbers" in error_of(path, languages)


@pytest.mark.parametrize("row", ["en\tde\ta {}\tb", "en\tde\tc {}\td"])
def test_columns_of_codes_are_no_header(folder: Path, row: str):
    path = write(folder / "x.tsv", "".join(f"{row.format(n)}\n\n" for n in range(3)))
    assert "numbers, from 1 to 4" in error_of(path, ("en", "de"))


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("x.tsv", "Our words\t\t\n\t\t\n"),
        ("x.csv", "Our words\n,,\n"),
        ("x.csv", "Our words;;\nMay 2024;;\n"),
    ],
)
@pytest.mark.parametrize("columns", [{}, {"src_column": "English", "tgt_column": "German"}])
def test_title_above_the_names_of_the_columns_is_an_error(
    folder: Path, name: str, title: str, columns: dict[str, str]
):
    separator = next(each for each in "\t,;" if each in title)
    rows = [["Page", "English", "German"], ["1", "a", "b"]]
    path = write(folder / name, title + "".join(f"{separator.join(row)}\n" for row in rows))
    assert error_of(path, EN_DE, **columns).endswith(
        f"{name}: the columns have their names in row 3, Page, English, German. Delete the rows "
        "above it."
    )


def test_text_that_lacks_its_translation_is_no_title(folder: Path):
    path = write(folder / "x.tsv", "Good day.\t\nEnglish\tGerman\n1\t2\n")
    pairs = [("Good day.", ""), ("English", "German"), ("1", "2")]
    assert read(path) == read(path, src_column="1", tgt_column="2") == pairs
    path = write(folder / "x.csv", "Languages\nEnglish\n")
    assert list(read_sources(Path(path), "en")) == ["Languages", "English"]
