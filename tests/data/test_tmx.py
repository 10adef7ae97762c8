"""Translation memories: languages, inline elements, entities, and files that are no TMX."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.corpora import error_of, notices_of, read, write
from translate_ddp.data.inputs import read_sources
from translate_ddp.data.readers.tmx import find_language

HEAD = '<?xml version="1.0" encoding="{}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
HEAD += '<tmx version="1.4"><header srclang="en"/><body>\n'


def unit(**texts: str) -> str:
    variants = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f'<tu tuid="1"><prop type="x">no text</prop>{"".join(variants)}</tu>\n'


def tmx(*units: str, encoding: str = "UTF-8") -> bytes:
    return (HEAD.format(encoding) + "".join(units) + "</body></tmx>\n").encode(encoding)


def test_text_of_inline_elements_is_kept_and_formatting_codes_are_not(folder: Path):
    english = (
        '<bpt i="1">&lt;b&gt;</bpt>A <hi type="x">new</hi><ept i="1">&lt;/b&gt;</ept> car<ph/>!'
    )
    source = write(folder / "x.tmx", tmx(unit(en=english, de="Tom &amp; Käthe &#x263A;&nbsp;z")))
    assert read(source) == [("A new car!", "Tom & Käthe ☺\u00a0z")]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1"])
def test_encoding_is_that_of_the_first_line(folder: Path, encoding: str):
    source = write(folder / "x.tmx.gz", tmx(unit(en="one", de="schön"), encoding=encoding))
    assert read(source) == [("one", "schön")]


def test_units_are_read_in_any_order_of_languages_and_without_one(folder: Path):
    units = [unit(de="eins", en="one"), unit(en="two", fr="deux"), unit(en="three", de="drei")]
    source = write(folder / "x.tmx", tmx(*units))
    assert read(source) == [("one", "eins"), ("two", None), ("three", "drei")]
    assert read(source, ("deu", "eng"))[0] == ("eins", "one")
    assert read(source, ("fr", "en"))[1] == ("deux", "two")


def test_text_without_a_language_is_of_none(folder: Path):
    unlabelled = '<tuv><seg>ein</seg></tuv><tuv xml:lang="fr"><seg>un</seg></tuv>'
    other = f'<tu><tuv xml:lang="en"><seg>a</seg></tuv>{unlabelled}</tu>'
    source = write(folder / "x.tmx", tmx(unit(en="one", de="eins"), other))
    assert read(source) == [("one", "eins"), ("a", None)]


def test_error_for_languages_that_are_not_in_the_file_names_those_that_are(folder: Path):
    texts = {"en-US": "a", "de-DE": "b"}
    source = write(folder / "x.tmx", tmx(*[unit(**texts)] * 3, unit(en="a")))
    message = error_of(source, ("en", "fr"))
    assert "no translation unit in en and fr" in message
    assert "en-US (3), de-DE (3), en (1)" in message


@pytest.mark.parametrize(
    ("wanted", "held", "found"),
    [
        ("en", ["de", "en-US", "en"], "en"),
        ("en", ["de", "EN_us", "en-GB"], "EN_us"),
        ("eng", ["en-US"], "en-US"),
        ("pt_BR", ["pt", "pt-PT", "PT-br"], "PT-br"),
        ("pt_BR", ["pt", "pt-PT"], None),
        ("zh-Hans", ["zh", "zh-Hans-CN"], "zh-Hans-CN"),
        ("en", ["enm", "eo"], None),
    ],
)
def test_language_is_found_with_its_regions(wanted: str, held: list[str], found: str | None):
    assert find_language(wanted, held) == found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (tmx(unit(en="a", de="b"))[:-9], "line 5 is not XML"),
        (tmx(unit(en="a", de="b < c")), "line 4 is not XML"),
        (
            tmx(unit(en="a", de="ü"), unit(en="b", de="ö")).decode().encode("latin-1"),
            "iconv -f LATIN1 -t UTF-8",
        ),
        (b"<tmx><body></body></tmx>", "no translation unit in en and de"),
        (b"one\teins\n", "line 1 is not XML"),
    ],
)
def test_unusable_file_is_reported(folder: Path, content: bytes, expected: str):
    source = write(folder / "x.tmx", content)
    message = error_of(source)
    assert message.startswith(source) and expected in message, message


def test_entities_that_expand_are_not_read(folder: Path):
    bomb = '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa">'
    bomb += "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise("abcdefghi"))
    bomb += "]><tmx><body>" + unit(en="&i;", de="b") + "</body></tmx>"
    assert "cannot be read: EntitiesForbidden" in error_of(write(folder / "x.tmx", bomb))


def test_file_outside_is_not_read(folder: Path):
    secret = write(folder / "secret", "secret")
    content = f'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file://{secret}">]><tmx><body>'
    content += unit(en="&a;", de="b") + "</body></tmx>"
    assert "cannot be read: EntitiesForbidden" in error_of(write(folder / "x.tmx", content))


MESSY = [  # what stands in the file, what is read, characters dropped, & kept
    ("Ab&#x1F;satz", "Absatz", 1, 0),
    ("a\x0bb\x00c\x1fd", "a bcd", 3, 0),
    ("&#0;&#xFFFE;&#1114112;&#99999999;x", "x", 4, 0),
    ("&#xD83D;&#xDE00; &#xD83D;!", "\U0001f600 !", 1, 0),
    ("AT&T & Co &; R&D;", "AT&T & Co &; R&D;", 0, 4),
    ("&#x; &#xZZ; &#", "&#x; &#xZZ; &#", 0, 3),
    ("<![CDATA[AT&T &amp; \x0c<b>]]>&lt;", "AT&T &amp;  <b><", 1, 0),
    ("&uuml;&nbsp;&#252; &quot;&apos;&amp;lt;", "ü\xa0ü \"'&lt;", 0, 0),
]


@pytest.mark.parametrize("size", [64, 67, 2**20])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "UTF-16-LE", "ISO-8859-1"])
@pytest.mark.parametrize(("content", "expected", "dropped", "kept"), MESSY)
def test_characters_that_xml_does_not_allow_end_no_reading(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    expected: str,
    dropped: int,
    kept: int,
    encoding: str,
    size: int,
):
    monkeypatch.setattr("translate_ddp.data.readers.byte_stream.BLOCK_BYTES", 2 * size)
    units = [unit(en=f"n{number} é", de=content) for number in range(9)]
    source = write(folder / "x.tmx", tmx(*units, encoding=encoding))
    assert read(source) == [(f"n{number} é", expected) for number in range(9)]
    counts = (f"dropped ({9 * dropped})", f"text ({9 * kept})")
    notices = notices_of(source)
    assert len(notices) == bool(dropped or kept)
    assert all(count in notices[0] for count in counts if notices)


def test_commands_read_a_memory_with_such_characters_and_report_them_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    texts = read_sources(Path(write(folder / "x.tmx", tmx(unit(en="a&b", de="c")))), "en")
    assert [list(texts), list(texts)] == [["a&b"]] * 2
    assert capsys.readouterr().err.count("x.tmx: characters that XML does not allow") == 1


@pytest.mark.parametrize(
    ("declarations", "text", "expected"),
    [
        ('<!ENTITY nbsp " ">', "a&nbsp;b", "a b"),
        ("<!ENTITY company 'A & B \"C\"'>".replace("& B", "&#38; B"), "&company;!", 'A & B "C"!'),
        ('<!ENTITY lt "&#38;#60;"> <!ENTITY mdash "&#8212;" >', "a&mdash;b &lt; c", "a—b < c"),
        ('<!-- <!ENTITY nbsp "old"> --><!ENTITY nbsp " ">', "a&nbsp;b", "a b"),
        ('<!ELEMENT tmx ANY> <!ENTITY e "é">', "caf&e;&e2;", "café&e2;"),
    ],
)
def test_entities_of_short_text_are_read(folder: Path, declarations: str, text: str, expected: str):
    content = f"<!DOCTYPE tmx [{declarations}]><tmx><body>{unit(en='a', de=text)}</body></tmx>"
    assert read(write(folder / "x.tmx", content)) == [("a", expected)]


def test_entities_in_comments_and_sections_are_not_read(folder: Path):
    bomb = '<!-- <![CDATA[ --><!ENTITY a "aa"><!ENTITY b "&a;&a;"><!-- ]]> -->'
    content = f"<!DOCTYPE tmx [{bomb}]><tmx><body>{unit(en='&b;', de='b')}</body></tmx>"
    assert "cannot be read: EntitiesForbidden" in error_of(write(folder / "x.tmx", content))


@pytest.mark.parametrize(
    ("actual", "declared", "expected"),
    [
        ("utf-16", "UTF-8", "it is UTF-16, but its first line declares UTF-8. Convert it"),
        ("utf-16-be", "utf-8", "it is UTF-16BE, but its first line declares utf-8. Convert it"),
        ("utf-8", "UTF-16", 'declares UTF-16. Write encoding="UTF-8" there.'),
        ("utf-8", "klingon", "unknown encoding: klingon"),
    ],
)
def test_encoding_that_is_not_the_declared_one_is_named(
    folder: Path, actual: str, declared: str, expected: str
):
    content = tmx(unit(en="one", de="schön")).decode().replace("UTF-8", declared)
    source = write(folder / "x.tmx", content.encode(actual))
    message = error_of(source)
    assert expected in message and "LATIN1" not in message, message
    if "iconv" in message:
        command = message.partition(": iconv")[2]
        subprocess.run(f"iconv{command}", shell=True, check=True)
        assert read(folder / "x.utf8.tmx") == [("one", "schön")]


def test_invalid_byte_in_a_file_of_utf8_is_no_reason_to_convert_it(folder: Path):
    units = [unit(en=f"a{number}", de="schön") for number in range(200)]
    content = tmx(*units).replace("schön".encode(), b"sch\xf6n", 1)
    source = write(folder / "x.tmx", content)
    assert read(source)[:2] == [("a0", "sch\ufffdn"), ("a1", "schön")]
    (notice,) = notices_of(source)
    assert "1 of 204 lines is not UTF-8, first line 4" in notice
    assert "do not convert the file" in notice and "iconv" not in notice
