"""Translation memories: languages, inline elements, references, and files that are no TMX."""

from pathlib import Path

import pytest

from tests.helpers.corpora import error_of, notices_of, read, write
from translate_ddp.data.readers.markup import find_language

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
    english = "<ph x='a>\"b'/>A <hi type=\"x>\">new</hi> <it pos='>'>i<sub>j<it/></sub>k</it>"
    english += "car<ph>&lt;</ph>!"
    source = write(folder / "y.tmx", tmx(unit(en=english, de="x").replace("tuid", "o='>' tuid")))
    assert read(source) == [("A new car!", "x")]


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


def test_first_of_several_texts_in_a_language_is_read(folder: Path):
    second = '<tuv xml:lang="de"><seg>eines</seg></tuv></tu>'
    source = write(folder / "x.tmx", tmx(unit(en="one", de="eins").replace("</tu>", second)))
    assert read(source) == [("one", "eins")]


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
        (tmx(unit(en="a", de="b"))[:-9], "before line 5, a <tmx> is not closed"),
        (tmx(unit(en="a", de="b"))[:-40], "a <tu> is not closed"),
        (tmx("<tu><tuv>", unit(en="a", de="b")), "a <tu> is not closed"),
        (tmx("<!-- ", unit(en="a", de="b")), "a <tu> is not closed"),
        (
            tmx(unit(en="a", de="ü"), unit(en="b", de="ö")).decode().encode("latin-1"),
            "iconv -f WINDOWS-1252 -t UTF-8",
        ),
        (tmx(unit(en="a", de="b")).replace(b"UTF-8", b"klingon"), "unknown encoding: klingon"),
        (b"<tmx><body></body></tmx>", "no translation unit in en and de"),
        (b"one\teins\n", "a <tmx> is not closed"),
    ],
)
def test_unusable_file_is_reported(folder: Path, content: bytes, expected: str):
    source = write(folder / "x.tmx", content)
    message = error_of(source)
    assert message.startswith(source) and expected in message, message


@pytest.mark.parametrize(
    "entity", ['a "aaaaaaaaaa"> <!ENTITY b "&a;&a;"', 'a SYSTEM "file:///etc/passwd"', 'a "b"']
)
def test_entity_of_a_file_is_an_error(folder: Path, entity: str):
    content = f"<!DOCTYPE tmx [<!ENTITY {entity}>]><tmx><body>{unit(en='&a;', de='b')}</body></tmx>"
    assert "cannot be read: it defines entities" in error_of(write(folder / "x.tmx", content))


MARKED = {  # what stands in the file -> what is read
    "Ab&#xE4;nde &#228;": "Abände ä",
    "AT&T & Co &; R&D; &#x; &#xZZ; &#": "AT&T & Co &; R&D; &#x; &#xZZ; &#",
    "<![CDATA[AT&T &amp; <b> <!-- ]]>&lt;": "AT&T &amp; <b> <!-- <",
    "&uuml;&nbsp;&#252; &quot;&apos;&amp;lt;": "ü\xa0ü \"'&lt;",
    "a <!-- <seg>b</seg> <![CDATA[ -->c": "a c",
    "a < b > c": "a < b > c",
    "see <www.x.org>, <i>now</i> <x y> <b a='>'/>": "see <www.x.org>, now <x y> ",
    "&#128512; &#xD83D;x": "😀 \ufffdx",
}


@pytest.mark.parametrize("size", [64, 67, 2**20])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "UTF-16-LE", "ISO-8859-1"])
def test_texts_do_not_depend_on_the_blocks_and_the_encoding(
    folder: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, size: int
):
    monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", 2 * size)
    units = [unit(en=f"n{number} é", de=content) for number, content in enumerate(MARKED)]
    source = write(folder / "x.tmx", tmx(*units, encoding=encoding))
    assert read(source) == [(f"n{number} é", text) for number, text in enumerate(MARKED.values())]
    assert not notices_of(source)


@pytest.mark.parametrize(
    ("actual", "declared"), [("utf-16", "UTF-8"), ("utf-16-be", "utf-8"), ("utf-8", "UTF-16")]
)
def test_encoding_of_the_bytes_counts_where_the_declared_one_is_impossible(
    folder: Path, actual: str, declared: str
):
    content = tmx(unit(en="one", de="schön"), unit(en="a b", de="c d")).decode()
    source = write(folder / "x.tmx", content.replace("UTF-8", declared).encode(actual))
    assert read(source) == [("one", "schön"), ("a b", "c d")]


def test_invalid_byte_in_a_file_of_utf8_is_no_reason_to_convert_it(folder: Path):
    units = [unit(en=f"a{number}", de="schön") for number in range(200)]
    content = tmx(*units).replace("schön".encode(), b"sch\xf6n", 1)
    source = write(folder / "x.tmx", content)
    assert read(source)[:2] == [("a0", "sch\ufffdn"), ("a1", "schön")]
    (notice,) = notices_of(source)
    assert "1 of 204 lines is not UTF-8, first line 4" in notice
    assert "do not convert the file" in notice and "iconv" not in notice
