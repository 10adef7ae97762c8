"""Files that cannot be read, or only in part: messages name the file, the line and the way out."""

import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from tests.helpers.corpora import EN_DE, error_of, notices_of, read, write, write_parallel
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs


def latin1(lines: int, every: int) -> bytes:
    rows = (f"s{n}\tcaf{'é' if n % every == 0 else 'e'} {n}\n" for n in range(1, lines + 1))
    return "".join(rows).encode("latin-1")


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("ending", [".tsv", ".jsonl", ".csv", ""])
def test_few_lines_that_are_not_utf8_are_counted_in_a_notice(
    folder: Path, ending: str, compression: str
):
    content = latin1(500, 100)
    name = "x" + ending
    if ending == ".csv":
        content = content.replace(b"\t", b",")
    if ending == ".jsonl":
        rows = (row.split(b"\t") for row in content.splitlines())
        content = b"".join(b'{"en": "%s", "de": "%s"}\n' % (en, de) for en, de in rows)
    if not ending:
        name = "x.en"
        write(folder / "x.de", "x\n" * 500)
    file = write(folder / f"{name}{compression}", content)
    source = file if ending else folder / "x"
    (notice,) = notices_of(source)
    assert notice.startswith(f"{file}: 5 of 500 lines are not UTF-8, first line 100.")
    texts = [en if not ending else de for en, de in read(source)]
    assert [row for row, text in enumerate(texts, 1) if text and "\ufffd" in text] == [
        *range(100, 501, 100)
    ]


def test_notices_are_those_of_the_last_reading(folder: Path):
    write(folder / "x.tsv", latin1(500, 100))
    write(folder / "x.en", latin1(500, 100))
    write(folder / "x.de", latin1(500, 100))
    for name, count in (("x.tsv", 1), ("x", 2), ("x.e*", 2)):
        rows = read_pairs(str(folder / name), EN_DE)
        for _ in range(2):
            assert len(list(rows.read(ignore_progress))) == 500
            assert len(rows.notices) == count


def test_one_line_that_is_not_utf8_is_no_error(folder: Path):
    source = write(folder / "x.tsv", latin1(7, 7))
    assert "1 of 7 lines is not UTF-8, first line 7." in notices_of(source)[0]


@pytest.mark.parametrize("compression", ["", ".gz", ".xz"])
def test_many_lines_that_are_not_utf8_are_an_error_with_the_command(folder: Path, compression: str):
    source = write(folder / f"my corpus.tsv{compression}", latin1(500, 50))
    text = error_of(source)
    assert text.startswith(
        f"{source} cannot be read: 10 of 500 lines are not UTF-8, first line 50."
    )
    assert text.endswith("convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW")


@pytest.mark.parametrize(
    ("language", "text", "encoding"),
    [
        ("ru", "ребёнок", "WINDOWS-1251"),
        ("pl", "książka", "WINDOWS-1250"),
        ("sr-Latn", "kuća", "WINDOWS-1250"),
        ("jpn", "犬が庭で寝ています", "CP932"),
        ("zh", "狗在睡觉", "GB18030"),
        ("zh_TW", "狗在睡覺", "CP950"),
        ("ko", "개가 잔다", "CP949"),
        ("fr", "« SANTÉ\u00a0! » élève", "WINDOWS-1252"),
    ],
)
def test_encoding_to_convert_from_is_that_of_the_language(
    folder: Path, language: str, text: str, encoding: str
):
    rows = f"line\t{text}\n".encode(encoding) * 500 + "one\tÉ\xa0\n".encode(
        "cp1252"
    )  # as UTF-8, it is ɠ
    advice = f"If it is {encoding}, convert it: iconv -f {encoding} -t UTF-8 FILE > NEW"
    assert error_of(write(folder / "x.tsv", rows), ("en", language)).endswith(advice)
    write(folder / "y.ru", "да\n" * 501)
    write(folder / f"y.{language}", rows)
    if language != "ru":  # each file of parallel text has its own language
        assert error_of(folder / "y", (language, "ru")).endswith(advice)


def test_text_of_which_parts_are_cut_off_is_not_converted(folder: Path):
    rows = b"".join(f"{n}\t{'狗在睡觉' * 3}".encode()[:-1] + b"\n" for n in range(500))
    assert "do not convert" in error_of(write(folder / "x.tsv", rows), ("en", "zh"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("text", ["one\teins\r\ntwo\tzwei\r\n", "一\t个 词\r\n这 是\t句\r\n" * 20])
@pytest.mark.parametrize("name", ["x.tsv", "x.json.gz"])
def test_utf16_is_an_error_with_the_command(folder: Path, name: str, encoding: str, text: str):
    if name == "x.json.gz":
        text = "[" + text
    source = write(folder / name, text.encode(encoding))
    message = error_of(source)
    if encoding == "utf-32" and name == "x.json.gz":
        assert "cannot be read" in message
        return
    assert message.startswith(f"{source} cannot be read: line 1 is not UTF-8, but UTF-")
    if name == "x.tsv":
        command = message.partition("convert it: ")[2].replace("FILE", source)
        subprocess.run(command.replace("NEW", str(folder / "y.tsv")), shell=True, check=True)
        expected = [tuple(line.split("\t")) for line in text.splitlines()]
        assert read(folder / "y.tsv") == expected


def test_nul_characters_are_no_utf16(folder: Path):
    source = write(folder / "x.tsv", "a\0b\tx\nc\0\0\ty\n" + "d\te\n" * 9)
    assert read(source)[:2] == [("a\0b", "x"), ("c\0\0", "y")]


def test_texts_of_parquet_that_are_not_utf8_are_marked_as_invalid(folder: Path):
    values = pa.array([b"caf\xe9", b"x", None] * 100)
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
    write_table(pa.table({"en": text, "de": text}), folder / "x.parquet")
    both = [("caf\ufffd", "caf\ufffd"), ("x", "x"), (None, None)]
    assert read(folder / "x.parquet") == both * 100


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_damaged_compression_is_reported_with_the_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ending: str
):
    monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", 2**16)
    lines = [f"{number} {number**9}\tx\n" for number in range(30_000)]
    path = Path(write(folder / f"x.tsv{ending}", "".join(lines)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    message = error_of(path)
    found = re.match(rf"{re.escape(str(path))} after line ([\d,]+) cannot be read: ", message)
    assert found and 1000 < int(found[1].replace(",", "")) < 22_000, message
    path.write_bytes(b"one\teins\n" * 99)
    message = error_of(path)
    assert message.startswith(f"{path} cannot be read: it is not compressed by ")
    assert message.endswith("rename it to x.tsv.")
    path.write_bytes(b"\0" * 99)
    assert error_of(path).startswith(f"{path} cannot be read: ")
    path.rename(folder / "y.tsv")
    (folder / "y.tsv").write_bytes(whole)
    assert f"rename it to y.tsv{ending}" in error_of(folder / "y.tsv")


@pytest.mark.parametrize(("row", "line"), [(0, 1), (1, 3), (2, 4), (3, 5)])
def test_quote_that_is_never_closed_is_reported_with_its_line(folder: Path, row: int, line: int):
    rows = ['"a\nb",c', 'd,"e ""f"""', "g,h", "i,j", "k,l"]
    source = write(folder / "x.csv", "\n".join(rows))
    assert read(source) == [("a\nb", "c"), ("d", 'e "f"'), ("g", "h"), ("i", "j"), ("k", "l")]
    rows = [*rows[:row], 'm,"n', *(["k,l"] * (4 - row))]
    assert f"a quote in line {line} is never closed" in error_of(
        write(folder / "x.csv", "\n".join(rows) + "\n")
    )


def test_folder_of_an_unknown_user_is_reported():
    assert error_of("~unknown_user/train").startswith("~unknown_user/train cannot be read: ")


def test_stray_quote_in_csv_is_reported_where_it_would_join_texts(folder: Path):
    assert read(write(folder / "x.csv", 'a,5" disk\n')) == [("a", '5" disk')]
    message = error_of(write(folder / "x.csv", 'a,b\n"c, no end\n"d","e"\n'))
    assert "cannot be read: text follows a quote in line 3 that ends a field of line 2." in message
    message = error_of(write(folder / "x.csv", 'a,b\n"c" is a letter,d\n'))
    assert "cannot be read: text follows a quote in line 2 that ends a field of line 2." in message


def test_endless_quoted_field_does_not_fill_memory(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("translate_ddp.data.readers.delimited.MAX_FIELD", 1000)
    source = write(folder / "x.csv", 'a,b\nc,"d\n' + "e,f\n" * 1000)
    assert "a quote in line 2 is never closed" in error_of(source)


@pytest.mark.parametrize("name", ["x.tsv", "x.csv"])
@pytest.mark.parametrize("row", ["a|b|c", "a|b||c", "|||c"])
def test_row_with_text_in_too_many_fields_is_reported_with_its_line(
    folder: Path, name: str, row: str
):
    separator = "\t" if name == "x.tsv" else ","
    rows = ["en|de", "a|b", "", " ", "c|d", row, "e|f"]
    message = error_of(write(folder / name, "\n".join(rows).replace("|", separator)))
    assert f"line 6 has {row.count('|') + 1} fields, but the first row has 2" in message
    rows.remove(row)
    source = write(folder / name, "\n".join(rows).replace("|", separator))
    assert read(source) == [("a", "b"), ("c", "d"), ("e", "f")]


def test_lines_of_unequal_parallel_text_are_counted_to_the_end(folder: Path):
    write_parallel(folder / "x", [("a", "b")] * 300_000)
    with (folder / "x.de").open("a") as file:
        file.write("c\n" * 200_000)
    assert "x.en has 300,000 lines and " in error_of(folder / "x")
    assert "x.de 500,000" in error_of(folder / "x")
    assert "x.de has 500,000 lines and " in error_of(folder / "x", ("de", "en"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"en": "a", "de": "b"}\n\n{"en": "a" "de": "b"}\n', "line 3 is no JSON"),
        ('{"en": "a", "de": "b"}, {"en": "a", "de": "b"}\n', "line 1 is no JSON"),
        ('{"en": "a", "de": "b"}\n' + '{"en":' * 50_000 + "\n", "line 2 is no JSON"),
        ('[{"en": "a", "de": "b"},\n{"en": "c"', "object in line 2 is no JSON, or incomplete"),
        ('[{"en": "a", "de": "b"}', "object in line 1 is no JSON, or incomplete"),
        (
            '[{"en": "a", "de": "b"}\n]\n[{"en": "c", "de": "d"}]\n',
            "the end of its array in line 2",
        ),
        ('[{"en": "a", "de": "b"}]' + " " * 2_000_000 + "x", "the end of its array in line 1"),
    ],
)
def test_invalid_json_is_reported_with_its_line(folder: Path, content: str, expected: str):
    assert expected in error_of(write(folder / "x.jsonl", content))


def test_parquet_in_another_compression_is_reported(folder: Path):
    assert "compressed inside" in error_of(write(folder / "x.parquet.gz", "x"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("train,other", "Several datasets have spaces between them"),
        ("https://huggingface.co/datasets/a/b", "is an address. Download the file"),
        ("x.tar.gz", "must be unpacked first"),
        ("x.zip", "must be unpacked first"),
        ("x.txt", "with a tab between them, rename it to x.tsv"),
        (
            "only",
            "only {folder}/only.en, and no file in the language .de. of --lang_tgt .*only.en, x.ta",
        ),
        ("train", "nor the two files .* {folder} holds .*only.en"),
    ],
)
def test_message_says_what_to_pass_instead(folder: Path, source: str, expected: str):
    for name in ("only.en", "x.tar.gz", "x.txt", "x.zip"):
        write(folder / name, "one\teins\n")
    message = error_of(source if "://" in source else folder / source)
    assert re.search(expected.format(folder=folder), message), message


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n"


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl.zst", "parquet", "xlsx", "tmx", "en"])
def test_pointer_of_git_lfs_is_named_in_every_format(folder: Path, ending: str):
    if ending == "xlsx":
        pytest.importorskip("python_calamine")
    path = folder / f"x.{ending}"
    path.write_bytes(POINTER.encode())
    (folder / "x.de").write_bytes(POINTER.encode())
    message = error_of(folder / "x" if ending == "en" else path)
    assert message.startswith(f"{path} cannot be read: it is a pointer")
    assert "run git lfs pull" in message


def test_file_that_a_program_keeps_beside_an_open_spreadsheet_is_no_corpus(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write(folder / "a.tsv", "en\tde\na\tb\n")
    write(folder / "~$a.tsv", "user")
    assert read(folder / "*.tsv") == read(folder / "*a.tsv") == [("a", "b")]
    monkeypatch.chdir(folder)
    for name in ("~$a.tsv", folder / "~$a.tsv"):
        assert error_of(name).endswith("a program keeps it while a.tsv is open. Pass a.tsv.")
    for name, document in ((".~lock.b c.ods#", "b c.ods"), ("~$b#.xls", "b#.xls")):
        message = error_of(write(folder / name, ",user,"))
        assert message.endswith(f"while {document} is open. Pass {document}.")
