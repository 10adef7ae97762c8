"""Whether quotes enclose the fields of TSV and CSV, and what separates the fields of CSV."""

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.helpers.corpora import EN_DE, error_of, read, write
from translate_ddp.data.inputs import read_sources
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.rows import Row, ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.settings import Quoting, SourceOptions

PLAIN = [(f"A man has {n} dogs, and no cat.", f"Ein Mann hat {n} Hunde.") for n in range(30)]
QUOTED = [
    ('"You should go," he said.', "„Du solltest gehen“, sagte er."),
    ('He said: "No."', 'Er sagte: "Nein."'),
    ('"Hello."', '"Hallo."'),
    ('"', '""'),
    ("a tab\tin it", "ein Tab"),
    ("two\nlines", "zwei\n\nZeilen"),
    ("NA", "007"),
]
MIXED = [*PLAIN[:20], *QUOTED, *PLAIN[20:]]


def with_csv(pairs: list[Pair], quoting: Literal[0, 1], header: str, end: str) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, "excel-tab", quoting=quoting, lineterminator=end)
    writer.writerows(pairs)
    return header + text.getvalue()


def excel(pairs: list[Pair]) -> str:
    """As the text format of Excel: fields with a comma are in quotes, too."""

    def field(text: str) -> str:
        is_quoted = any(character in text for character in ',"\t\n')
        return '"' + text.replace('"', '""') + '"' if is_quoted else text

    return "".join(f"{field(src)}\t{field(tgt)}\r\n" for src, tgt in pairs)


def with_r(pairs: list[Pair], escaped: str) -> str:
    """As write.table of R: texts are in quotes, numbers and NA are not."""

    def field(text: str) -> str:
        return '"' + text.replace('"', escaped) + '"'

    rows = (f"{n}\tNA\t{field(tgt)}\t{field(src)}\n" for n, (src, tgt) in enumerate(pairs))
    return '"id"\t"note"\t"de"\t"en"\n' + "".join(rows)


def read_noted(path: str, quoting: Quoting = "auto") -> tuple[list[Row], str]:
    """The rows and the notices of a source."""
    rows = read_pairs(path, EN_DE, SourceOptions(quoting=quoting))
    return list(rows.read(ignore_progress)), " ".join(rows.notices)


@pytest.mark.parametrize(
    "text",
    [
        with_csv(MIXED, csv.QUOTE_MINIMAL, "", "\n"),
        with_csv(MIXED, csv.QUOTE_MINIMAL, "en\tde\n", "\r\n"),
        with_csv(MIXED, csv.QUOTE_ALL, "", "\r\n"),
        with_csv(MIXED, csv.QUOTE_ALL, "en\tde\n", "\n"),
        excel(MIXED),
        with_r(MIXED, '""'),
        with_r(MIXED, '\\"'),
    ],
)
def test_tsv_that_a_program_has_quoted_is_read_as_it_was_written(folder: Path, text: str):
    rows, notices = read_noted(write(folder / "x.tsv", text))
    assert rows == MIXED
    assert "quotes enclose fields" in notices and "--quoting none" in notices


@pytest.mark.parametrize(
    "pairs",
    [
        [('"Hello," he said.', '"Hallo", sagte er.')],
        [('"Hello."', '"Hallo."')],
        [('"Hello, Tom."', '"Hallo, Tom."')],
        [('"Hello.', '"Hallo.'), ('How are you?"', 'Wie geht es?"')],
        [('"Hello.', "Hallo."), ('How are you?"', "Wie geht es?")],
        [('"Hello."', "Hallo."), ('He said "no".', "Er sagte nein.")],
        [("Hello.", '"Hallo.')],
        [('"Hello.', 'Hallo."')],
    ],
)
def test_quotes_of_a_tsv_that_no_program_has_quoted_are_text(folder: Path, pairs: list[Pair]):
    lines = [*PLAIN[:15], *pairs, *PLAIN[15:]]
    path = write(folder / "x.tsv", "".join(f"{src}\t{tgt}\n" for src, tgt in lines))
    rows, notices = read_noted(path)
    assert rows == lines
    assert "quotes are text, as line 1" in notices and "--quoting csv" in notices


def test_csv_of_r_is_read_as_it_was_written(folder: Path):
    text = with_r(MIXED, '\\"').replace("\t", ",")
    pairs = [tuple(side.replace("\t", ",") for side in pair) for pair in MIXED]
    assert read_noted(write(folder / "x.csv", text))[0] == pairs


def test_quotes_are_judged_by_all_lines_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch):
    # The lines with the first quotes are in another block than the one that no program writes.
    monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", 2**16)
    lines = [('"Hello."', '"Hallo."')] + [(f'"Yes, {n}."', f'"Ja, {n}."') for n in range(9000)]
    lines += [('"Hello," he said.', '"Hallo", sagte er.')]
    path = write(folder / "x.tsv", "".join(f"{src}\t{tgt}\n" for src, tgt in lines))
    rows, notices = read_noted(path)
    assert rows == lines and "quotes are text, as line 9,002" in notices


def test_a_date_without_quotes_is_no_reason_to_keep_all_others(folder: Path):
    pairs = [(f'a "b" {n}, c', f"d {n}") for n in range(200)]
    text = with_csv(pairs, csv.QUOTE_ALL, "", "\n") + "12 Mar 2020\t12. Mär 2020\n"
    rows, _ = read_noted(write(folder / "x.tsv", text))
    assert rows == [*pairs, ("12 Mar 2020", "12. Mär 2020")]


def test_quoting_is_as_the_user_says(folder: Path):
    cited = [*PLAIN, ('"Hello."', '"Hallo."')]
    lines = "".join(f"{src}\t{tgt}\n" for src, tgt in cited)
    path = write(folder / "x.tsv", lines)
    assert read_noted(path, quoting="csv") == ([*PLAIN, ("Hello.", "Hallo.")], "")
    assert read_noted(path, quoting="none") == (cited, "")
    table = write(folder / "x.csv", lines.replace("\t", ";"))
    assert read(table, quoting="none") == cited and read(table)[-1] == ("Hello.", "Hallo.")
    broken = write(folder / "y.tsv", '"one" two\teins\n')
    assert "text follows a quote in line 1" in error_of(broken, quoting="csv")


def test_lines_of_errors_count_those_within_fields(folder: Path):
    rows = ['"two\nlines ""x"""\tzwei', "one\teins", "a\tb\tc"]
    message = error_of(write(folder / "x.tsv", "sep=\t\n" + "\n".join(rows)), quoting="csv")
    assert "line 5 has 3 fields" in message


def test_texts_to_translate_are_read_as_trained(folder: Path, capsys: pytest.CaptureFixture[str]):
    text = with_csv(MIXED, csv.QUOTE_MINIMAL, "German text\tEnglish text\n", "\n")
    path = Path(write(folder / "x.tsv", text))
    assert list(read_sources(path, "de", "en")) == [src for src, _ in MIXED]
    assert list(read_sources(path, "en", "de")) == [tgt for _, tgt in MIXED]
    assert capsys.readouterr().err.count("quotes enclose fields") == 1  # the file is read twice
    unquoted = list(read_sources(Path(write(folder / "y.tsv", '"a"\t"b"\n')), "en", "de", "none"))
    assert unquoted == ['"a"']


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_first_line_of_excel_is_the_separator(folder: Path, first: str, name: str):
    rows = "de;en\r\nJa, gut;Yes, good\r\n"
    assert read(write(folder / name, f"\ufeff{first}\r\n{rows}")) == [("Yes, good", "Ja, gut")]


ENGLISH = "the man with a dog walks slowly down this old street to his house".split()
GERMAN = "der Mann mit einem Hund geht langsam durch diese alte Straße nach Hause".split()


def parted(words: Sequence[str], character: str, seed: int) -> str:
    """The words, with the character after one of them."""
    place = random.Random(seed).randrange(1, len(words))
    return " ".join([*words[:place], "", *words[place:]]).replace("  ", f"{character} ", 1)


@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
@pytest.mark.parametrize(("separator", "other"), [(";", ","), (",", ";"), ("\t", ","), (";", "\t")])
def test_separator_is_the_character_that_is_not_only_as_in_text(
    folder: Path, separator: str, other: str, languages: tuple[str, str]
):
    pairs = [(parted(ENGLISH, other, n), " ".join(GERMAN)) for n in range(9)]
    path = write(folder / "x.csv", "".join(f"{en}{separator}{de}\n" for en, de in pairs))
    assert read(path, languages) == pairs
    assert list(read_sources(Path(path), *languages)) == [en for en, _ in pairs]


@pytest.mark.parametrize("languages", [("en", "tw"), ("tw", "en")])
def test_separator_that_is_not_known_is_an_error(folder: Path, languages: tuple[str, str]):
    path = write(folder / "x.csv", "a,b;c\nd,e;f\n")
    assert "Add a first line sep=, or sep=;" in error_of(path, languages)

    named = write(folder / "y.csv", "en;tw\na, b;c\nd, e;f\n")
    assert ("a, b", "c") in [
        pair[:: 1 if languages[0] == "en" else -1] for pair in read(named, languages)
    ]


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("I pay 1,000;Ich zahle 1.000", ("I pay 1,000", "Ich zahle 1.000")),
        ("Good; ok,Gut", ("Good; ok", "Gut")),
        ("I know.\tTom, ja.", ("I know.", "Tom, ja.")),
        ("one,two", ("one", "two")),
        ("one, two", ("one", " two")),
    ],
)
def test_mark_before_a_space_or_between_digits_is_text(
    folder: Path, line: str, pair: tuple[str, str]
):
    assert read(write(folder / "x.csv", f"{line}\n" * 3), ("en", "tw")) == [pair] * 3
