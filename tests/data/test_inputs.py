"""Texts and pairs that commands read: all formats of training, with a text for each line."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.corpora import EN_DE, write
from translate_ddp.data.inputs import (
    Texts,
    read_given_pairs,
    read_glossary,
    read_sources,
    read_texts,
)
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.errors import UserError, cleanup

EN_IT = ("en", "it")
JSON = '{"en": "a {b}", "it": "x"}\n{"en": "c", "it": "y"}\n'
SGM = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="1" genre="news" origlang="en">
<hl><seg id="1">Tom &amp; &#39;J&#39; </seg></hl><p>
<SEG id="2"> one
two</SEG><seg id="3"></seg></p></doc></srcset>
"""


def sources(path: str) -> list[str | None]:
    return list(read_sources(Path(path), "en"))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\n\n two\n", ["one", "", " two"]),
        ("a.txt", "no final newline", ["no final newline"]),
        ("a.txt", "one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        ("a.txt", "", []),
        ("a.txt", "\n", [""]),
        ("a.txt.gz", "one\n\n", ["one", ""]),
        ("a.txt.gz", "", []),
        ("a", '{"en": 1}\n', ['{"en": 1}']),
        ("a.tsv", 'one "x"\tuno\ntwo\tdue\n', ['one "x"', "two"]),
        ("a.tsv", "one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        ("a.tsv.gz", "id\ten\n1\tone\n2\tNA\n", ["one", "NA"]),
        ("a.csv", 'it,en\nx,"a, b"\ny,c\n', ["a, b", "c"]),
        ("a.csv", 'src\n"a\nb"\n', ["a\nb"]),
        ("a.csv", "en,it\na\rb,c\nd,e\n", ["a b", "d"]),
        ("a.jsonl", JSON, ["a {b}", "c"]),
        ("a.jsonl.gz", JSON, ["a {b}", "c"]),
        ("a.jsonl", '{"en": "a"}\n{"en": null}\n{"en": "b"}\n', ["a", None, "b"]),
        ("a.json", '[{"translation": {"en": "a", "it": "b"}}]', ["a"]),
        ("a.json", '[{"src": "a"}, {"src": "b"}]', ["a", "b"]),
        ("a.sgm", SGM, ["Tom & 'J'", "one\ntwo", ""]),
        ("a.en.SGML.gz", SGM.replace("\n", "\r\n"), ["Tom & 'J'", "one\ntwo", ""]),
        (
            "a.txt",
            "a\x0bb\x0c\u2028\x85\u2029c\x1c\nd\re\r\n",
            ["a\x0bb\x0c\u2028\x85\u2029c\x1c", "d\re"],
        ),
        ("a.tmx", '<tmx><tu><tuv lang="en-GB"><seg>a</seg></tuv></tu></tmx>', ["a"]),
        ("a.html", "plain\n<3\n", ["plain", "<3"]),
        ("a.docx", "plain\n", ["plain"]),
    ],
)
def test_every_format_gives_its_texts(
    folder: Path, name: str, content: str, expected: list[str | None]
):
    path = folder / name
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    assert sources(str(path)) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n', "has no column en, but text"),
        ("a.tsv", "a\tb\tc\n", "has no column en: its first row is a, b, c. Name"),
        ("a.jsonl", "", "is empty"),
        ("a.txt", b"caf\xe9\n", "1 of 1 lines is not UTF-8, first line 1.*iconv -f WINDOWS-1252"),
        ("a.txt.gz", gzip.compress(b"one\n" * 99, mtime=0)[:-9], "cannot be read"),
    ],
)
def test_unusable_file_is_reported(folder: Path, name: str, content: str | bytes, message: str):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=message):
        sources(str(path))
    with pytest.raises(UserError, match="There is no file"):
        sources(str(folder / "nothing.txt"))


KEYED = [
    ("a.properties", "# of the menu\n\nwhere.mother=Where is she?\nbye = Goodbye\n"),
    ("a.toml", "[menu]\ngreeting = 'Good morning'\nbye = 'Bye'\n"),
    ("a.ftl", "-brand = Letters\nhello =\n    .label = Good morning\n"),
    ("a.strings", '/* menu */\n"Good morning" = "Good morning";\n"bye"="Bye";\n'),
    ("a.yaml", "en:\n  greeting: Good morning\n  menu:\n    - bye: Goodbye\n"),
    ("a.yml", 'greeting: "Good morning"\nbye: "Goodbye"\n'),
    ("a.lrc", "[ti:Song]\n[00:12.00]Where is she?\n[01:15.30]Good morning.\n"),
    ("a.txt", '{\n  "greeting": "Good morning",\n  "bye": "Goodbye"\n}\n'),
    ("a.arb", '{\n  "@@locale": "en",\n  "bye": "Goodbye"\n}\n'),
    ("a.php", "<?php return [\n  'bye' => 'Goodbye',\n  'hi' => 'Hi',\n];\n"),
    ("a.js", "export default {\n  bye: 'Goodbye',\n  menu: {\n    hi: 'Hi'\n  }\n}\n"),
    ("a.conf", "# letters\nbye = Goodbye\nhi = Hi\n"),
    ("prod.env", 'BYE="Goodbye"\nHI="Hi"\n'),
]


@pytest.mark.parametrize(("name", "content"), KEYED)
def test_file_with_keys_is_refused_by_its_content_and_by_its_name(
    folder: Path, name: str, content: str
):
    for path in (folder / name, folder / "a.txt.gz", folder / "a"):
        path.write_bytes(
            gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode()
        )
        with pytest.raises(UserError, match="has keys, times or code: save it as text"):
            sources(str(path))
    if name != "a.txt":
        with pytest.raises(UserError, match="has keys, times or code"):
            sources(write(folder / name, "one\nGood morning.\n"))


@pytest.mark.parametrize("name", [".env", "a.tex", "strings.xml", "A.ARB.gz"])
def test_file_with_code_or_one_key_is_refused_by_its_name(folder: Path, name: str):
    content = b'{"bye": "Goodbye"}\n'
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(UserError, match="has keys, times or code"):
        sources(str(folder / name))
    assert list(read_sources(Path(write(folder / "a.sub", "one\n")), "sub")) == ["one"]  # Suku


@pytest.mark.parametrize(
    "lines",
    [
        ["Anna: Good morning.", "Tom: Where is my mother?", "Anna: At home."],
        ["anna: good morning", "tom: hello", "note: they meet", "e.g. this one"],
        ["# Letters", "The doctor writes: x = 5.", "count = 3", "Set it as you like.", "Then go."],
        ["12:30 Lunch", "[12:45] tea", "13.30: home", "[Music]", "1. one", "a) two", "- three"],
        ["    indented verse", "        and more: verse", "", "if a == b, then", 'He said: "yes".'],
        ["E = mc²", "F = ma", "is physics.", "So it is."],
        ["[1] A citation.", "[12] Another [2][3].", "{1} so", "<b>Good</b>", "<i>", "morning</i>"],
        ["<p>", "Good <b>morning</b>.", "</p>"],
    ],
)
def test_text_with_signs_of_keys_is_no_file_with_keys(folder: Path, lines: list[str]):
    assert sources(write(folder / "a.txt", "\n".join(lines))) == lines
    write(folder / "a.lrc", "\n".join(lines))  # Northern Luri
    assert list(read_sources(folder / "a.lrc", "lrc")) == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{\n"greeting": "Good morning"\n}', "object in line 1 does not end there.*jq -c"),
        ('{"en": "a"}\n{"a": {"b": 1},\n"en": "b"}', "object in line 2 does not end there"),
        (
            '{"en": {"greeting": "Good morning"}}',
            "column en is a dictionary, a list or bytes, not a text: .*flatten",
        ),
        ('{"en": "a"}\n{"en": b}', "line 2 is no JSON: Expecting value"),
    ],
)
def test_json_that_is_no_list_of_texts_is_refused_with_what_to_do(
    folder: Path, content: str, message: str
):
    with pytest.raises(UserError, match=message):
        sources(write(folder / "a.json", content))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04\x14\0\0word", "a zip archive, as .docx"),
        (b"%PDF-1.7\n", r"document \(PDF"),
        (rb"{\rtf1\ansi", r"document \(PDF or RTF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old .xls or .doc, or has a password"),
        (b"SQLite format 3\0\x10\0", "a database"),
        (b"1\r\n00:00:01,000 --> 00:00:02,000\r\nHi\r\n", "subtitles"),
        (b"\xef\xbb\xbfWEBVTT\n\n", "subtitles"),
        (b"00:00:01,000 --> 00:00:02,000\nHi\n", "subtitles"),
        (b"0:00:01.000,0:00:02.000\nHi\n", "subtitles"),
        (b"[Script Info]\r\nTitle: A\r\n", "subtitles"),
        (b"[00:00.000 --> 00:02.000]  Good morning.\n", "subtitles"),
        (b"[01:00:00.000 --> 01:00:02.500] Hi\n", "subtitles"),
        (b"{1}{20}Good morning\n", "subtitles"),
        (b"{1}{}Good morning\n", "subtitles"),
        (b"[10][20]Good morning\n", "subtitles"),
        (b'<resources>\n  <string name="greeting">Good morning</string>\n</resources>', "XML"),
        (b"<SAMI>\r\n<HEAD>\r\n</HEAD>", "XML"),
        (b'<plist version="1.0">\n\t<dict>', "XML"),
        (b"<!-- made by hand -->\n<tt>", "XML"),
        (b'# German\n\nmsgid ""\nmsgstr ""\n', "catalogue of gettext"),
        (b'<?xml version="1.0"?>\n<xliff version="1.2">', "XML, XLIFF or HTML"),
        (b"\n<!DOCTYPE html>\n<html>", "XML, XLIFF or HTML"),
        (b'<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx>', "end in .tmx"),
        (SGM.encode(), "end in .sgm"),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a", "a.odt.gz"])
def test_document_is_one_message_that_names_it(folder: Path, name: str, content: bytes, what: str):
    path = write(folder / name, content)
    readings = [
        lambda: sources(path),
        lambda: read_given_pairs(path, path, EN_IT),
        lambda: read_texts(Path(path), "tgt", "it"),
    ]
    if "." in name:
        readings.append(lambda: list(read_pairs(path, EN_IT).read(ignore_progress)))
    for reading in readings:
        with pytest.raises(UserError, match=what) as error:
            reading()
        assert str(error.value).startswith(path) and "iconv" not in str(error.value)


@pytest.mark.parametrize("size", [9, 30, 64])
def test_segments_do_not_depend_on_the_blocks_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, size: int
):
    monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", size)
    assert sources(write(folder / "a.sgm", SGM)) == ["Tom & 'J'", "one\ntwo", ""]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<seg id="1">a <hl>b</hl> c</seg>\n<seg id="2"/>\n<SEG>d</SEG>', ["a b c", "", "d"]),
        ("<seg>a</seg>\n<seg>b\n<seg>c</seg>", None),
        ("<seg>a</seg>\n<seg>b", None),
        ("<srcset></srcset>", None),
    ],
)
def test_no_segment_is_lost(folder: Path, text: str, found: list[str] | None):
    path = write(folder / "a.sgm", f"<srcset>{text}</srcset>\n")
    if found is not None:
        assert sources(path) == found
        return
    with pytest.raises(UserError, match="a <seg> is not closed|has no segments"):
        sources(path)


def test_part_of_a_page_is_no_text(folder: Path):
    with pytest.raises(UserError, match="XML, XLIFF or HTML"):
        sources(write(folder / "a.html", "<p>Hello</p>\n"))
    assert sources(write(folder / "a.txt", "<p>Hello</p>\n")) == ["<p>Hello</p>"]


@pytest.mark.parametrize("name", ["pipe", "a.tsv", "a.txt.gz"])
def test_pipe_is_read_as_a_file_of_its_name_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    (folder / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    content = write(folder / f"content-{name}", "a cat\tun gatto\n" * 30_000)
    os.mkfifo(folder / name)
    with subprocess.Popen(["cp", content, str(folder / name)]):
        found = sources(str(folder / name))
    assert found == ["a cat" if name == "a.tsv" else "a cat\tun gatto"] * 30_000
    assert sources(str(folder / name)) == found  # the copy
    if name == "a.tsv":
        assert read_given_pairs(str(folder / name), "", EN_IT)[1] == ["un gatto"] * 30_000
    cleanup.close()
    assert list((folder / "temporary").iterdir()) == []


def test_compressed_pipe_without_an_ending_is_decompressed(folder: Path):
    content = write(folder / "content.gz", "a cat\n" * 3)
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(["cp", content, str(folder / "pipe")]):
        assert sources(str(folder / "pipe")) == ["a cat"] * 3


def test_pipe_is_not_read_by_several_processes(folder: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(folder / "pipe")
    for variable, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "1")
    with pytest.raises(UserError, match="pipe is a pipe, which one process can read"):
        sources(str(folder / "pipe"))


def test_pairs_are_read_from_one_table_or_from_two_files(folder: Path):
    expected = (["a {b}", "c"], ["x", "y"])
    table = write(folder / "a.jsonl", JSON)
    assert read_given_pairs(table, "", EN_IT) == expected
    english = write(folder / "b.en", "a {b}\nc\n")
    italian = write(folder / "b.it.gz", "x\ny\n")
    assert read_given_pairs(english, italian, EN_IT) == expected
    assert read_given_pairs(english, table, EN_IT) == expected
    assert read_given_pairs(table, italian, EN_IT) == expected
    assert read_given_pairs(str(folder / "b"), "", EN_IT) == expected  # as for --dataset
    assert read_texts(Path(table), "tgt", "it") == ["x", "y"]


def test_missing_side_of_a_pair_is_reported(folder: Path):
    english = write(folder / "a.en", "a\nb\n")
    with pytest.raises(UserError, match="pass their translations as --reference"):
        read_given_pairs(english, "", EN_IT)
    with pytest.raises(UserError, match="has 2 lines and .* 1:"):
        read_given_pairs(english, write(folder / "a.it", "x\n"), EN_IT)
    gap = write(folder / "a.jsonl", '{"en": "a", "it": "x"}\n{"en": "b", "it": null}\n')
    blank = write(folder / "a.csv", "en,it\na,x\nb,\n")
    for source, row in ((gap, 2), (blank, 3)):  # as an editor or a spreadsheet shows it
        with pytest.raises(
            UserError, match=rf"no text in row {row} \(tgt\), and in 1 rows in total"
        ):
            read_given_pairs(source, "", EN_IT)
    italian = write(folder / "a.it", "x\n\n")
    assert read_given_pairs(english, italian, EN_IT) == (["a", "b"], ["x", ""])


def test_source_without_pairs_is_reported(folder: Path):
    for name, content in (("a.tsv", "en\tit\n"), ("a.json", "[]")):
        with pytest.raises(UserError, match=f"{name} has no pairs"):
            read_given_pairs(write(folder / name, content), "", EN_IT)


def test_parts_of_a_file_in_ascending_order_need_one_reading(folder: Path):
    lines = [f"line {number}" for number in range(100)]
    path = folder / "a.txt"
    readings: list[int] = []

    def read() -> list[str]:
        readings.append(1)
        return lines

    texts = Texts(path, read)
    assert len(texts) == 100 and len(readings) == 2  # to count, and to use
    for start in (0, 30, 90):
        part = range(start, start + 10)
        assert texts.part(part) == [lines[row] for row in part]
    assert len(readings) == 2
    assert texts.part(range(5, 7)) == ["line 5", "line 6"]
    assert len(readings) == 3
    del lines[50:]
    with pytest.raises(UserError, match="has changed while it was read"):
        texts.part(range(45, 55))


def test_lines_that_are_not_utf8_are_an_error_though_training_drops_them(folder: Path):
    data = b"one\tuno\n" * 999 + b"caf\xe9\tx\n"
    path = write(folder / "a.tsv", data)
    for read in (sources, lambda path: read_given_pairs(path, "", EN_IT)):
        with pytest.raises(UserError, match="1 of 1,000 lines is not UTF-8, first line 1,000"):
            read(path)


def test_plain_files_are_read_without_the_library_of_the_hub(folder: Path):
    # It takes 0.6 s to import.
    for name in ("a.txt", "a.tsv", "a.jsonl.gz"):
        write(folder / name, '{"en": "a", "it": "b"}\n')
    code = "import sys; from pathlib import Path; from translate_ddp.data.inputs import *; "
    code += "[list(read_sources(Path(sys.argv[1], name), 'en')) for name in sys.argv[2:]]; "
    code += "sys.exit(bool({'datasets', 'pyarrow'} & set(sys.modules)))"
    command = [sys.executable, "-c", code, str(folder), "a.txt", "a.tsv", "a.jsonl.gz"]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])


def test_glossary_may_be_empty_or_begin_with_a_code_that_stays(tmp_path: Path):
    assert read_glossary(write(tmp_path / "empty.tsv", ""), EN_DE) == {}
    path = write(tmp_path / "terms.tsv", "IT\tIT\ndisk\tScheibe\n")
    for languages in (EN_DE, EN_IT):
        assert read_glossary(path, languages) == {"IT": "IT", "disk": "Scheibe"}


TERMS = {"hard disk": "Festplatte", "disk": "Scheibe, rund"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("terms.tsv", "\ufeffhard disk\tFestplatte\n\ndisk \tScheibe, rund\ndisk\tScheibe, rund\n"),
        ("terms.tsv", "source\ttarget\tnote\nhard disk\tFestplatte\t\ndisk\tScheibe, rund\tx\n"),
        ("terms.csv", 'hard disk,Festplatte\ndisk,"Scheibe, rund"\n'),
        ("terms.csv", "English;German\nhard disk;Festplatte\ndisk;Scheibe, rund\n"),
        ("terms.csv", "German;English\nFestplatte;hard disk\nScheibe, rund;disk\n"),
        ("terms.csv", 'id,en,it,de\n1,hard disk,disco,Festplatte\n2,disk,x,"Scheibe, rund"\n'),
        ("terms.txt", "hard disk\tFestplatte\ndisk\tScheibe, rund\n"),
    ],
)
def test_glossary_is_two_columns_of_a_table(tmp_path: Path, name: str, content: str):
    assert read_glossary(write(tmp_path / name, content), EN_DE) == TERMS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("terms.tsv", "one\ntwo\n", "it has no columns en and de"),
        ("terms.csv", "id,en,fr\n1,dog,chien\n", "it has no columns en and de"),
        ("terms.csv", "English,French\ndog,chien\n", "it has no columns en and de"),
        ("terms.csv", "1,dog,Hund\n", "it has no columns en and de"),
        ("terms.tsv", "a\tb\nc\n", "entry 2 must be a term"),
        ("terms.tsv", "a\tb\nc\t\n", "entry 2 must be a term"),
        ("terms.csv", "a,b\na,c\n", "'a' has two translations"),
        ("terms.txt", "a, b\n", "entry 1 must be a term"),
        ("terms.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save a spreadsheet as .xlsx"),
        ("nowhere.tsv", None, "There is no file"),
    ],
)
def test_unusable_glossary_is_an_error(
    tmp_path: Path, name: str, content: str | bytes | None, message: str
):
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(UserError) as caught:
        read_glossary(str(tmp_path / name), EN_DE)
    text = str(caught.value)
    assert text.startswith(f"--glossary {tmp_path / name} cannot be used: ") and message in text
