"""Translation memories: languages, inline elements, entities, and files that are no TMX."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.corpora import error_of, read, write
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
