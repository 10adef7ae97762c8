"""Which rows of a table are read where a column has their languages or splits, and which cells."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from tests.helpers.corpora import corpus_error, corpus_of, error_of, read, read_corpus, write
from tests.helpers.spreadsheets import write_spreadsheet
from translate_ddp.data.inputs import read_sources
from translate_ddp.data.readers.records import dataset_rows
from translate_ddp.data.rows import Row, Wanted, ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.settings import CorpusConfig, SourceOptions

EN_IT = ("en", "it")
Table = Sequence[Sequence[str]]
TABLE: Table = [
    ("source", "tgt_lang", "target"),
    ("a", "it", "A"),
    ("b", "swh", "B"),
    ("c", "ita", "C"),
    ("d", "", "D"),
]
NOTICE = "column tgt_lang has it (1), swh (1), ita (1), no value (1). Of these, it, ita is read"


def csv_of(table: Table, separator: str = ",") -> str:
    return "".join(separator.join(row) + "\n" for row in table)


def rows_of(folder: Path, kind: str, table: Table) -> tuple[list[Row], list[str]]:
    """The rows of en-it and the notices of the table in a format."""
    header, *cells = table
    columns = dict(zip(header, map(list, zip(*cells, strict=True)), strict=True))
    path = folder / f"x.{kind}"
    if kind == "hub":
        wanted = Wanted.pair(EN_IT, SourceOptions())
        rows = dataset_rows(str(path), datasets.Dataset.from_dict(columns), wanted)
        return list(rows.read(ignore_progress)), rows.notices
    if kind == "parquet":
        write_table(pa.table(columns), path)
    elif kind == "xlsx":
        write_spreadsheet(path, {"Sheet": [list(row) for row in table]})
    elif kind == "jsonl":
        write(
            path, "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in cells)
        )
    else:
        write(path, csv_of(table, "\t" if kind == "tsv" else ";"))
    rows = read_pairs(str(path), EN_IT)
    return list(rows.read(ignore_progress)), rows.notices


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "xlsx", "hub"])
def test_column_of_languages_selects_rows_in_every_format(folder: Path, kind: str):
    if kind == "xlsx" and find_spec("python_calamine") is None:
        pytest.skip("python-calamine is not installed")
    rows, notices = rows_of(folder, kind, TABLE)
    assert rows == [("a", "A"), ("c", "C")]
    assert [text.partition(": ")[2] for text in notices] == [f"{NOTICE} for en-it."]


@pytest.mark.parametrize(
    ("header", "values", "languages", "chosen"),
    [
        ("Target Language", ["Italian", "SWAHILI", "ITALIAN"], ("en", "it"), [0, 2]),
        ("target_lang", ["ita_Latn", "swh_Latn", "eng_Latn"], ("en", "sw"), [1]),
        ("tl", ["mina", "it", "ber-Latn"], ("en", "mina"), [0]),
        ("sourceLang", ["en", "eng", "de"], ("en", "it"), [0, 1]),
        ("lp", ["en-it_IT", "en-pt_BR", "en-pt_PT"], ("en", "it"), [0]),
        ("lp", ["en-it_IT", "en-pt_BR", "en-pt_PT"], ("en", "pt-PT"), [2]),
        ("langs", ["en-it", "it-en", "en-itx"], ("it", "en"), [1]),
        ("direction", ["en>it", "en>de", "de>it"], ("en", "it"), [0]),
        ("Language pair", ["English to Italian", "English to Irish", "x"], ("en", "it"), [0]),
        ("lang", ["de", "it", "fr"], ("it", "en"), [1]),
        # These hold other things than the languages of the texts.
        ("orig_lang", ["en", "it", "de"], ("en", "it"), [0, 1, 2]),
        ("country", ["IT", "DE", "FR"], ("en", "it"), [0, 1, 2]),
        ("language", ["formal", "slang of it", "it"], ("en", "it"), [0, 1, 2]),
        ("set", ["1", "2", "2"], ("en", "it"), [0, 1, 2]),
        ("direction", ["en2sw", "en2it", "en2sw", "sw2it"], ("en", "it"), [1]),
        ("target lang", ["pcm", "luo", "kam", "swa"], ("en", "luo"), [1]),
        # Their values tell what they hold.
        ("iso", ["it", "sw", "IT"], ("en", "it"), [0, 2]),
        ("Sprache", ["ita", "swh", "Italian"], ("en", "it"), [0, 2]),
        ("task", ["en2sw", "en-it", "en2it"], ("en", "it"), [1, 2]),
        ("pronoun", ["he", "she", "it"], ("en", "it"), [0, 1, 2]),
        ("checked", ["yes", "no", "yes"], ("en", "no"), [0, 1, 2]),
        ("type", ["test", "training", "valid"], ("en", "it"), [1]),
        ("fold", ["train", "dev", "extra", "test"], ("en", "it"), [0]),
        ("type", ["unit", "spoken", "test"], ("en", "it"), [0, 1, 2]),
        ("split", ["train", "Dev", "TRAINING"], ("en", "it"), [0, 2]),
        ("Set", ["test", "train", ""], ("en", "it"), [1]),
    ],
)
def test_names_and_values_of_columns_that_select_rows(
    folder: Path, header: str, values: list[str], languages: tuple[str, str], chosen: list[int]
):
    rows = [(f"s{n}", value, f"t{n}") for n, value in enumerate(values)]
    path = write(folder / "x.csv", csv_of([("src", header, "trg"), *rows]))
    expected = [(f"s{n}", f"t{n}") for n in chosen]
    assert list(read_pairs(path, languages, split="train").read(ignore_progress)) == expected
    sources = [row[0] for row in rows]
    assert list(read_sources(Path(path), "en", "it")) == sources  # a line for each


@pytest.mark.parametrize(
    ("column", "values"), [("tgt_lang", ["italiano", "kiswahili"]), ("iso", ["sw", "sw"])]
)
def test_column_that_may_have_other_languages_is_named(
    folder: Path, column: str, values: list[str]
):
    path = write(folder / "x.csv", f"src,tgt,{column}\na,A,{values[0]}\nb,B,{values[1]}\n")
    rows = read_pairs(path, EN_IT)
    assert list(rows.read(ignore_progress)) == [("a", "A"), ("b", "B")]
    shown = ", ".join(dict.fromkeys(values))
    assert f"column {column} has {shown}, which is not known as en-it" in " ".join(rows.notices)


def test_codes_without_a_header_select_rows_of_numbered_columns(folder: Path):
    path = write(folder / "x.csv", "en,sw,a,A\nen,it,b,B\nen,sw,c,C\n")
    rows = read_pairs(path, EN_IT, SourceOptions(src_column="3", tgt_column="4"))
    assert list(rows.read(ignore_progress)) == [("b", "B")] and "sw (2)" in rows.notices[0]


@pytest.mark.parametrize("kind", ["csv", "short.csv", "jsonl"])
def test_languages_that_begin_after_the_sample_select_rows(folder: Path, kind: str):
    table = [
        ("src", "tgt", "tgt_lang"),
        *[("a", "b", "")] * 1000,
        ("c", "C", "it"),
        ("d", "D", "sw"),
    ]
    content = csv_of(table).replace("a,b,\n", "a,b\n" if kind == "short.csv" else "a,b,\n")
    if kind == "jsonl":
        rows = (dict(zip(table[0], row, strict=True)) for row in table[1:])
        content = "".join(json.dumps(row) + "\n" for row in rows)
    assert read(write(folder / f"x.{kind}", content), EN_IT) == [("c", "C")]
    empty = write(folder / "empty.csv", csv_of([TABLE[0], ("a", "", "b")]))
    assert read(empty, EN_IT) == [("a", "b")]


def test_column_named_by_its_language_needs_no_column_of_languages(folder: Path):
    # It tells in which language a text was written first.
    path = write(folder / "x.csv", "en,it,source_lang\na,A,en\nb,B,it\n")
    assert read(path, EN_IT) == [("a", "A"), ("b", "B")]


@pytest.mark.parametrize(
    ("column", "values", "languages"),
    [("lp", ["en-pt_BR", "en-pt_PT"], ("en", "pt")), ("lang", ["en", "it"], EN_IT)],
)
def test_values_that_may_both_be_wanted_are_an_error(
    folder: Path, column: str, values: list[str], languages: tuple[str, str]
):
    path = write(
        folder / "x.csv", csv_of([("src", "tgt", column), *[("a", "b", v) for v in values]])
    )
    message = error_of(path, languages)
    assert f"{', '.join(values)} may be {'-'.join(languages)}: ask for one" in message


def test_language_that_no_row_has_is_an_error_and_a_direction_without_rows_a_notice(folder: Path):
    more = [(f"e{n}", "it", f"i{n}") for n in range(9)]
    path = write(folder / "x.csv", csv_of([*TABLE, ("f", "sw", "F"), *more]))
    message = corpus_error(path, ("en", "fr"))
    assert "it (10), swh (1)" in message and "nothing is read for en-fr" in message
    other = write(folder / "y.csv", csv_of([TABLE[0], ("f", "it", "F")]))
    corpus = read_corpus(CorpusConfig((path, other), "", ("en",), ("it", "sw"), clean="none"))
    assert [report.rows for report in corpus.reports] == [11, 1, 2]  # it, it, sw
    notice = "column tgt_lang has it (1). Of these, nothing is read for en-sw"
    assert notice in " ".join(corpus.reports[0].notices)


def test_splits_of_a_table_are_for_training_validation_and_exclusion(folder: Path):
    names = ["train", "dev", "test", "train", "valid"]
    rows = [(f"s{n}", f"t{n}", name) for n, name in enumerate(names)]
    path = write(folder / "x.csv", csv_of([("en", "de", "split"), *rows]))
    config = corpus_of(path, path)
    corpus = read_corpus(CorpusConfig(config.dataset, path, ("en",), ("de",), exclude=(path,)))
    assert corpus.train == [("s0", "t0"), ("s3", "t3")]
    assert corpus.validation == [("s1", "t1"), ("s4", "t4")]
    assert [report.kept for report in corpus.reports] == [2, 1, 2]
    (notice,) = corpus.reports[0].notices
    assert notice.endswith(f"read for en-de. For validation on others: --validation {path}.")
    only = write(folder / "y.csv", csv_of([("en", "de", "split"), *rows[2:3]]))
    assert "test (1). Of these, nothing is read" in corpus_error(only)


def test_split_of_a_dataset_has_the_rows_of_its_name(folder: Path):
    rows = {"en": ["a", "b"], "de": ["A", "B"], "split": ["dev", "train"]}
    table = datasets.Dataset.from_dict(rows)
    datasets.DatasetDict({"train": table, "validation": table}).save_to_disk(folder / "x")
    assert read(f"{folder / 'x'}:validation") == [("a", "A")]
    assert read(f"{folder / 'x'}:train") == [("b", "B")]


OBJECTS = {
    "python.csv": """id,translation\n0,"{'en': 'a', 'de': 'b'}"\n""",
    "json.csv": 'id;translation\n0;"{""en"": ""a"", ""de"": ""b""}"\n',
    "one.tsv": "translation\n{'en': 'a', 'de': 'b'}\n",
    "numpy.csv": """en,de\n"['a' 'b']","['c' 'd']"\n""",
    "string.jsonl": '{"translation": "{\\"en\\": \\"a\\", \\"de\\": \\"b\\"}"}\n',
    "object.jsonl": '{"en": {"text": "a"}, "de": {"text": "b"}}\n',
    "rows.csv": """en,de\n[{'text': 'a'}],x\n[{'text': 'b'}],y\n""",
    "bytes.csv": "en,de\nb'a',b'b'\n",
    "tuple.csv": """en,de\n"('a',)",x\n"('b', 1)",y\n""",
    "array.csv": """en,de\n"array(['a'], dtype=object)",x\n"array(['b', 'c'])",y\n""",
    "list.json": '[{"src": ["a", "b"], "tgt": ["c", "d"]}]',
}


@pytest.mark.parametrize("name", [*OBJECTS, "x.parquet"])
def test_dictionary_or_list_in_a_cell_is_an_error_that_shows_one(folder: Path, name: str):
    if name in OBJECTS:
        path = write(folder / name, OBJECTS[name])
    else:
        path = str(folder / name)
        write_table(pa.table({"en": [["a", "b"]], "de": [["c", "d"]]}), path)
    message = error_of(path)
    assert (
        "is a dictionary, a list or bytes, not a text: " in message and "to_json(FILE)" in message
    )
    shown = message.partition("a text: ")[2]
    assert shown.startswith(
        ("{'en'", '{"en"', "['a'", "{'text'", "[{'t", "b'a'", "('a'", "array([")
    )


def test_single_text_in_brackets_and_other_columns_of_lists_are_no_error(folder: Path):
    table = """en,de,tags\n"['x', 'y'] is a list",b,"['x', 'y']"\n('Tis),b'a,['z']\n[a],('b'),\n"""
    pairs = [("['x', 'y'] is a list", "b"), ("('Tis)", "b'a"), ("[a]", "('b')")]
    assert read(write(folder / "x.csv", table)) == pairs


@pytest.mark.parametrize(
    ("name", "content", "short"),
    [
        ("x.csv", "en;de;note\r\na;A\r\nb;B;x\r\nc;C;\r\n", 1),
        ("x.csv", "de,note,en\nA,,a\nB,x,b\nC,,c\nD,\n", 1),
        ("x.csv", "Text (en);Text (de);note;page\na;A\nb;B;x\nc;C;;4\n", 2),
        ("x.tsv", 'en\tde\tnote\n"a"\tA\n"b"\tB\tx\n"c"\tC\t""\n', 1),
        ("x.tsv", "en\tde\na\tA\nx\nb\tB\ny\nc\tC\n", 2),
        ("x.tsv", 'en\tde\n"a"\t"A"\n"x"\n"b"\t"B"\t""\t\n"c"\t"C"\t\n', 1),
        ("x.csv", "en,de\na,A,\nx\nb,B,,,\nc,C, \n", 1),
    ],
)
def test_rows_without_their_empty_last_fields_are_counted_and_others_have_more_of_them(
    folder: Path, name: str, content: str, short: int
):
    rows = read_pairs(write(folder / name, content), ("en", "de"))
    pairs = [pair for pair in rows.read(ignore_progress) if all(pair)]
    assert pairs == [("a", "A"), ("b", "B"), ("c", "C")]
    noun = "row, first" if short == 1 else "rows, first"
    assert f"the last fields of {short} {noun} in line" in " ".join(rows.notices)
