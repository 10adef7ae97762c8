"""What each format keeps as text, and the names under which files and columns are found."""

from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from tests.helpers.corpora import EN_DE, error_of, read, write, write_parallel
from translate_ddp.data.readers.records import dataset_rows
from translate_ddp.data.rows import Wanted, ignore_progress
from translate_ddp.data.sources import NO_OPTIONS, source_identity
from translate_ddp.settings import SourceOptions

PAIR = Wanted.pair(EN_DE, SourceOptions())

PAIRS = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
TSV = "en\tde\n" + "".join(f"{en}\t{de}\n" for en, de in PAIRS)
TABLES = {
    "x.tsv": TSV,
    "x.csv": TSV.replace("\t", ","),
    "x.jsonl": "".join(f'{{"source": "{en}", "target": "{de}"}}\n' for en, de in PAIRS),
    "x.json": "[" + ", ".join(f'{{"en": "{en}", "de": "{de}"}}' for en, de in PAIRS) + "]",
    "x.tmx": "<tmx><body>"
    + "".join(
        f'<tu><tuv xml:lang="EN-us"><seg>{en}</seg></tuv><tuv lang="de"><seg>{de}</seg></tuv></tu>'
        for en, de in PAIRS
    )
    + "</body></tmx>",
}


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_with_any_compression(folder: Path, name: str, compression: str):
    assert read(write(folder / f"{name}{compression}", TABLES[name])) == PAIRS


def test_folder_of_mtdata_has_its_splits(folder: Path):
    for name in ("train", "dev", "test1"):
        for side, code in enumerate(("eng", "deu")):
            write(folder / f"{name}.{code}", f"{name} {side}\n")
    write(folder / "train-parts/a.eng", "not read\n")
    for split, name in (("train", "train"), ("validation", "dev"), ("test", "test1")):
        assert read(f"{folder}:{split}", ("eng", "deu")) == [(f"{name} 0", f"{name} 1")]


@pytest.mark.parametrize("pattern", ["part-*.en.gz", "part-*.de", "part-?", "part-*"])
def test_shards_of_parallel_text_are_joined_in_order(folder: Path, pattern: str):
    for number in (1, 0, 2):
        write(folder / f"part-{number}.en.gz", f"{PAIRS[number][0]}\n")
        write(folder / f"part-{number}.de", f"{PAIRS[number][1]}\n")
        write(folder / f"part-{number}.fr", "un\n")
    if pattern == "part-?":
        assert f"No file matches {folder / pattern}" in error_of(folder / pattern)
        return
    assert read(folder / pattern) == PAIRS
    (folder / "part-1.de").unlink()
    if pattern != "part-*.de":
        assert f"there is only {folder / 'part-1.en.gz'}" in error_of(folder / pattern)


def test_shards_of_tables_are_joined_in_order(folder: Path):
    for number in (1, 0, 2):
        write(folder / f"part-{number}.tsv.gz", "de\ten\n" + "\t".join(PAIRS[number][::-1]))
    source = str(folder / "part-*.tsv.gz")
    assert read(source) == PAIRS
    before = source_identity(source, EN_DE, NO_OPTIONS)
    write(folder / "part-3.tsv.gz", "en\tde\nfour\tvier\n")
    assert read(source)[-1] == ("four", "vier")
    after = source_identity(source, EN_DE, NO_OPTIONS)
    assert after[: len(before)] == before != after
    write(folder / "part-4.jsonl", '{"source": "x"}\n')
    assert "part-4.jsonl has no columns en and de" in error_of(folder / "part-*")


def test_shards_without_a_language_are_reported(folder: Path):
    write_parallel(folder / "part", PAIRS)
    message = error_of(folder / "part*", ("fr", "es"))
    assert "part.de, part.en: neither tables nor parallel text in fr and es" in message


NAMED = {
    "x.tsv": "a\tb\tc\n1\tone\teins\n",
    "x.csv": "a,b,c\n1,one,eins\n",
    "x.jsonl": '{"a": 1, "b": "one", "c": "eins"}\n',
    "nested.jsonl": '{"translation": {"b": "one", "c": "eins"}}\n',
}


@pytest.mark.parametrize("name", [*NAMED, "x.parquet"])
def test_columns_are_those_that_the_user_names(folder: Path, name: str):
    if name in NAMED:
        source = write(folder / name, NAMED[name])
    else:
        source = str(folder / name)
        write_table(pa.table({"a": [1], "b": ["one"], "c": ["eins"]}), source)
    assert read(source, src_column="b", tgt_column="c") == [("one", "eins")]
    message = error_of(source, src_column="b", tgt_column="nothing")
    assert "columns b and nothing" in message and "--tgt_column" in message
    assert "columns b and de" in error_of(source, src_column="b")


def test_columns_of_a_table_without_header_are_numbered(folder: Path):
    source = write(folder / "x.tsv", "7\tone\t0.5\teins\n8\ttwo\t0.7\tzwei\n")
    assert read(source, src_column="2", tgt_column="4") == PAIRS[:2]
    assert "first row is 7, one, 0.5, eins" in error_of(source, src_column="2", tgt_column="5")


def test_header_of_columns_chosen_by_number_is_no_pair(folder: Path):
    source = write(folder / "x.tsv", TSV)
    assert read(source, src_column="2", tgt_column="1") == [(de, en) for en, de in PAIRS]


def test_separator_is_found_when_its_sample_ends_within_a_field(folder: Path):
    rows = [(f"line {n}", f"Zeile {n}") for n in range(100)]
    rows[30:70] = [("one\ntwo", f"eins, {n}") for n in range(40)]
    text = "".join(f'"{en}";"{de}"\n' for en, de in rows)
    for start in range(2):  # one of them ends the sample between the lines of a field
        lines = "en;de\n" + "x;y\n" * start + text
        source = write(folder / f"{start}.csv", lines)
        assert read(source)[start:] == rows


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("header", ["en{0}de\r\n", ""])
def test_csv_of_a_spreadsheet_is_read(folder: Path, header: str, separator: str):
    pairs = [("Hello; you", "Hallo"), ("tea, milk", "Tee, Milch"), ('5" disk', "5\tZoll")]
    rows = "".join(
        '"{}"{}"{}"\r\n'.format(en.replace('"', '""'), separator, de) for en, de in pairs
    )
    assert read(write(folder / "x.csv", f"\ufeff{header.format(separator)}{rows}")) == pairs


def test_endings_of_tables_are_found_in_any_case(folder: Path):
    assert read(write(folder / "x.TSV", TSV)) == PAIRS
    assert read(write(folder / "x.ndjson", TABLES["x.jsonl"])) == PAIRS


KEPT = ["NA", "null", "None", "007", '5" disk', 'x"']
KEPT += ["a\u2028b\x85c\x0bd", " spaces ", "no", "\u00a0"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("kind", ["tsv", "headless.tsv", "parallel", "csv", "jsonl"])
def test_text_is_kept_whatever_it_looks_like(folder: Path, kind: str, mark: str, end: str):
    # Also without a line end after the last line.
    pairs = [(text, f"{text}!") for text in KEPT]
    if kind == "parallel":
        for side, language in enumerate(("no", "de")):
            text = mark + end.join(pair[side] for pair in pairs)
            write(folder / f"x.{language}", text.encode())
        assert read(folder / "x", ("no", "de")) == pairs
        return
    rows = [("no", "de"), *pairs] if "headless" not in kind else pairs
    lines = {
        "csv": [",".join('"' + text.replace('"', '""') + '"' for text in row) for row in rows],
        "jsonl": [f'{{"no": {as_json(no)}, "de": {as_json(de)}}}' for no, de in pairs],
    }.get(kind, ["\t".join(row) for row in rows])
    source = write(folder / f"x.{kind}", (mark + end.join(lines)).encode())
    assert read(source, ("no", "de")) == pairs


def as_json(text: str) -> str:
    return '"' + text.replace('"', '\\"').replace("\x0b", "\\u000b") + '"'


def test_null_and_other_types_are_no_text(folder: Path):
    table = pa.table(
        {
            "en": pa.array(["a", None, "c"], pa.large_string()),
            "de": pa.array(["x", "y", "x"]).dictionary_encode(),
            "n": [1, 2, 3],
        }
    )
    write_table(table, folder / "x.parquet")
    assert read(folder / "x.parquet") == [("a", "x"), (None, "y"), ("c", "x")]
    assert read(folder / "x.parquet", src_column="n")[0] == (None, "x")


def test_nested_null_of_parquet_is_no_text(folder: Path):
    fields = {"en": pa.array(["a", "hidden"]), "de": pa.array(["b", "hidden"])}
    rows = pa.StructArray.from_arrays(
        list(fields.values()), list(fields), mask=pa.array([False, True])
    )
    table = pa.table({"translation": rows})
    assert list(dataset_rows("x", datasets.Dataset(table), PAIR).read(ignore_progress)) == [
        ("a", "b"),
        (None, None),
    ]
    write_table(table, folder / "x.parquet")
    assert read(folder / "x.parquet") == [("a", "b"), (None, None)]


def test_half_of_a_surrogate_pair_in_json_becomes_a_replacement(folder: Path):
    source = write(folder / "x.jsonl", r'{"en": "a \ud83d", "de": "b \ud83d\ude00"}' + "\n")
    assert read(source) == [("a \ufffd", "b \U0001f600")]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "json", "tmx", "parallel"])
def test_texts_of_five_megabytes_are_read(folder: Path, kind: str):
    long = "word " * 1_000_000
    if kind == "parallel":
        write(folder / "x.en", f"a\n{long}\nb\n")
        write(folder / "x.de", f"a\n\n{long}")
        assert read(folder / "x") == [("a", "a"), (long, ""), ("b", long)]
        return
    content = TABLES[f"x.{kind}"].replace("two", long)
    assert read(write(folder / f"x.{kind}", content))[1] == (long, "zwei")


@pytest.mark.parametrize("size", range(7, 14))  # the first block has the end of a line
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_lines_do_not_depend_on_the_blocks_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, compression: str, size: int
):
    monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", size)
    english = "\ufeffé\r\n\r\n😀b\rc\n\r\n\nd\r"
    write(folder / f"x.en{compression}", english)
    write(folder / f"x.de{compression}", "1\n2\n3\n4\n5\n6")
    assert [en for en, _ in read(folder / "x")] == ["é", "", "😀b\rc", "", "", "d\r"]
    write(folder / f"y.en{compression}", english.replace("\r\n", "\r").replace("\n", "\r"))
    write(folder / f"y.de{compression}", "1\r2\r3\r4\r5\r6\r7")
    assert [en for en, _ in read(folder / "y")] == ["é", "", "😀b", "c", "", "", "d"]
    assert read(write(folder / f"x.json{compression}", TABLES["x.json"])) == PAIRS


def test_line_without_end_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("translate_ddp.data.readers.streams.MAX_LINE_BYTES", 2**21)
    write(folder / "x.tsv", "en\tde\n" + "x" * 2**22)
    assert "line 2 has more than 2 MiB" in error_of(folder / "x.tsv")
