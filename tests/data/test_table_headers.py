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


NAMES = {"English": "en", "german": "de", "Chinese": "zh", "Setswana": "tn", "Hebrew": "he"}


@pytest.mark.parametrize(("name", "code"), NAMES.items())
def test_name_of_a_language_is_no_code(folder: Path, name: str, code: str):
    message = f"{name} is the name of a language: pass its code, {code}."
    for ending in (name, "it"):
        write(folder / f"x.{ending}", "one\n")
    assert error_of(write(folder / "x.tsv", ROWS), ("it", name)) == message
    assert error_of(folder / "x", (name, "it")) == message


def test_column_name_that_stands_twice_is_an_error(folder: Path):
    path = write(folder / "x.csv", "en,de,de\nHello,draft,Hallo\n")
    assert "several columns have the name de. Rename all but one." in error_of(path)
    assert read(path, src_column="1", tgt_column="3") == [("Hello", "Hallo")]
    assert read(write(folder / "y.csv", "en,id,id,de\na,1,2,b\n")) == [("a", "b")]


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
        "name the columns en and de."
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
    assert "its header, Page, English, German, is not its first" in error_of(path, EN_DE, **columns)


def test_text_that_lacks_its_translation_is_no_title(folder: Path):
    path = write(folder / "x.tsv", "Good day.\t\nEnglish\tGerman\n1\t2\n")
    pairs = [("Good day.", ""), ("English", "German"), ("1", "2")]
    assert read(path, src_column="1", tgt_column="2") == pairs
    assert "its header, English, German, is not its first row" in error_of(path)
    path = write(folder / "x.csv", "Languages\nEnglish\n")
    assert list(read_sources(Path(path), "en")) == ["Languages", "English"]


REGIONS = [
    # The header, and the place of the column of each language; None: an error that lists them.
    ("English,Portuguese,Portuguese (Brazil)", {"pt": 1, "pt_BR": 2, "pt-br": 2, "pt_PT": None}),
    ("English,Portuguese (Brazil),Portuguese (Portugal)", {"pt": None, "pt_BR": 1, "por_PT": 2}),
    ("English,European Portuguese,PORTUGUESE BRAZIL", {"pt_PT": 1, "pt_BR": 2, "pt": None}),
    ("en,pt_BR", {"pt_BR": 1, "pt": 1, "pt_PT": None}),
    ("en_GB,pt_PT", {"pt_PT": 1, "pt_BR": None}),
    ("English,Portuguese", {"pt": 1, "pt_BR": None}),
    ("English (UK),Portuguese (Portugal)", {"pt_BR": None, "pt_PT": 1}),
    ("text_en,text_pt-BR,text_pt-PT", {"pt_BR": 1, "pt_PT": 2, "pt": None}),
    ("English,French (Canada),French", {"fr": 2, "fr_CA": 1, "fr_BE": None}),
    ("English,Chinese,Chinese (Traditional)", {"zh": 1, "zh_TW": 2, "zh-Hant": 2, "zh_CN": None}),
    ("English,zh-TW,zh-HK,zh-CN", {"zh_TW": 1, "zh_HK": 2, "zh_CN": 3, "zh": None}),
    ("eng_Latn,zho_Hans,zho_Hant", {"zh": 1, "zh_CN": 1, "zh_TW": 2, "zh_Hant": 2}),
    ("English,Serbian,Serbian (Latin)", {"sr": 1, "sr_Latn": 2, "sr@latin": 2, "sr_Cyrl": None}),
    ("English,Norwegian Nynorsk", {"nn": 1, "nb": None, "no": None}),
    ("English,Norwegian Bokmål,Norwegian Nynorsk", {"nb": 1, "nn": 2, "no": None}),
    ("English,Norwegian,Nynorsk", {"nb": 1, "no": 1, "nn": 2}),
    ("English,Swiss German,Northern Sotho", {"de": None, "gsw": 1, "st": None, "nso": 2}),
    ("English,Setswana", {"tn": 1, "tsn": 1}),
]


@pytest.mark.parametrize(("header", "places"), REGIONS)
def test_column_of_a_region_or_script_is_the_one_with_its_name(
    folder: Path, header: str, places: dict[str, int | None]
):
    cells = [f"text {place}" for place in range(header.count(",") + 1)]
    path = write(folder / "x.csv", f"{header}\n{','.join(cells)}\n")
    for code, place in places.items():
        if place is None:
            message = error_of(path, ("en_GB" if "UK" in header else "en", code))
            assert code in message and header.replace(",", ", ") in message
        else:
            source = "en_GB" if "UK" in header else "en"
            assert read(path, (source, code)) == [("text 0", f"text {place}")], code


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_spaces_and_signs_that_are_not_seen_are_no_part_of_a_name(folder: Path, name: str):
    en, de = "\u200bEnglish\u00a0", "German\u202f"
    content = f"{en};{de}\na;b\n" if name == "x.csv" else f'{{"{en}": "a", "{de}": "b"}}\n'
    path = write(folder / name, content)
    assert read(path) == read(path, src_column="English", tgt_column="German") == [("a", "b")]
    assert "has no columns en and de" in error_of(write(folder / "y.csv", f"{en};note\na;b\n"))


def test_columns_that_the_user_names_are_those_of_all_files(folder: Path):
    write(folder / "train.csv", "text;translation\na;A\nb;B\n")
    write(folder / "valid.csv", "en;de\nc;C\n")
    message = error_of(folder / "valid.csv", src_column="text", tgt_column="translation")
    assert "valid.csv has no columns text and translation: its first row is en, de." in message
    assert "They are for all files, also for --validation" in message
