"""Spans: what is found in a text, how it is replaced, and how it is restored."""

import html
from functools import partial

import pytest

from translate_ddp.data.sentences import find_sentences
from translate_ddp.errors import UserError
from translate_ddp.span_rules import find_spans
from translate_ddp.spans import (
    MARK,
    Line,
    Markup,
    Protection,
    Span,
    keeps_elements,
    lines_of,
    restore,
    sentences_of_line,
    terms_of,
)

ESCAPE = partial(html.escape, quote=False)


@pytest.mark.parametrize(
    "text",
    [
        "See ⟦https://en.wikipedia.org/wiki/Foo_(bar)⟧. Then (⟦http://a.b/c⟧) or ⟦www.bbc.co.uk⟧!",
        "访问⟦https://a.cn/b⟧。谢谢 ⟦info@x.de⟧, ⟦example.com/a?b=c&d⟧: all",
        "Write to ⟦me.you+x@mail.example.org⟧ or ⟦@john_doe⟧. ⟦#Berlin⟧ is #1, C#; ⟦#हिन्दी⟧ भाषा",
        "⟦%1$s⟧ has ⟦%d⟧ of ⟦%s⟧ files (⟦%.2f%%⟧), 50% discount, 5% de",
        "⟦%(name)s⟧ ⟦%-10s⟧ ⟦%USER%⟧",
        "⟦{name}⟧ ⟦{{x}}⟧ ⟦${x}⟧ ⟦{0}⟧ ⟦{}⟧ ⟦{{ user.name }}⟧ {see below} ⟦#{y}⟧",
        "10⟦&nbsp;⟧km ⟦&amp;⟧ M&uuml;ller &co; ⟦&#160;⟧",
        'Where ⟦<x id="1"/>⟧ is ⟦<b>⟧my⟦</b>⟧ a < b and c > d, x<y and z>w ⟦<br/>⟧ <3',
        "Open ⟦readme.txt⟧. Or ⟦src/main.py⟧ and ⟦/usr/local/bin⟧; and/or ⟦Node.js⟧ He left.Go on",
        "⟦C:\\Users\\me\\x.doc⟧. A line⟦\\n⟧another",
        "Version ⟦2.13.0⟧, ⟦v1.2⟧, ⟦1.0.0-rc1⟧, ⟦192.168.1.10⟧. 12.05.2024 1.234.567 2013.05.12.",
        "Call ⟦+49 30 123456⟧ 2.5 h or ⟦0301234567⟧; ⟦DE89 3704 0044 0532 0130 00⟧, 1,234",
        "⟦079 123 45 67⟧, ⟦01 23 45 67 89⟧, ⟦0803/123-4567⟧; ⟦555-1234⟧ or ⟦555-123-4567⟧. 100 000",
        "01/02/2024, 05-11-2024, 03 04 ⟦2025⟧, 0.12 007 5 2-3 10-20 1-0 on 01 May, 09:30 0 1 2 3",
        "In ⟦2020⟧: 12 May ⟦2024⟧, ⟦2019-2020⟧, ⟦1914–1918⟧, ⟦2019/2020⟧, $⟦1500⟧ (⟦9000⟧ of 345)",
        "2024-05-12, 12/05/2024, 05-2024, 14:2024, 2024:30, 1990s, 1990er, 1234th, 1234.5, 2019-20",
        # Placeholders of programs and templates, and words that only look so
        "⟦%{name}⟧ ⟦{{{x}}}⟧ ⟦{ $name }⟧ ⟦{{ x | upper }}⟧ ⟦%1⟧ ⟦%n⟧ ⟦$1⟧ ⟦:name⟧ ⟦%Y-%m-%d⟧",
        "⟦%<n>d⟧ ⟦%@⟧ ⟦%d%%⟧ ⟦{$x}⟧ ⟦$x->y⟧ ⟦$t(a)⟧ ⟦@{{ x }}⟧ ⟦*|NAME|*⟧ ⟦[[x]]⟧ ⟦[X14X]⟧",
        "⟦###1234###⟧ and ⟦__x__⟧, ⟦--no_color⟧ or --, ⟦|count|⟧, ⟦@.lower:a.b⟧",
        "⟦{n, plural, one {# file} other {{n} files of {x}}}⟧ and ⟦{0, number}⟧, {yes, we can}",
        "⟦<%= a b %>⟧ ⟦{% if x %}⟧you⟦{% endif %}⟧ ⟦<?php x y ?>⟧ ⟦{\\i1}⟧go⟦{\\i0}⟧ ⟦{#a}⟧b⟦{/a}⟧",
        "⟦<color=#ff0000>⟧my⟦</color>⟧ ⟦<v Ann Lee>⟧We ⟦[b]⟧my⟦[/b]⟧ ⟦[u=x]⟧it⟦[/u]⟧ ⟦<i a='b'/>⟧",
        '⟦\\textbf{my mother}⟧ ⟦\\cite[a]{b}⟧ ⟦$\\alpha$⟧ ⟦a="b c"⟧ ⟦std::x⟧ ⟦a_b⟧ ⟦x^2⟧ ⟦%A%\\x⟧',
        '⟦{x}⟧\'s ⟦{n}⟧-day, "⟦%s⟧" ⟦file_{n}.txt⟧ ⟦{0}/{1}⟧: [a](⟦http://b.c/d_e⟧) **⟦{x}⟧**',
        "⟦./a.sh⟧ ⟦~/.b⟧ ⟦../c⟧ ⟦/help⟧ ⟦usr/local/x⟧; 12/05/2024, $5/day/person, ⟦me.com⟧'s",
        "$5m US$5 $5-$10 R$20 $20/month $1 million 100%-owned 5€ ~5 5~10 <3 =D ^_^ :-) >5 -> AT&T",
        "U.S. at 3:30, e.g. tod@s amig@, *a* _b_ ~~c~~ ==d== #1 5@3 (a) [sic] {see this} 3 @ 5 = x",
        # Numbers and codes
        "⟦12345⟧km ⟦localhost:8080⟧ ⟦6171-1231-1311-1231⟧ ⟦10.0.0.1:8080⟧ ⟦1-800-555-1234⟧ ⟦A1234⟧",
        "⟦B-1234⟧ 文件⟦C:\\a\\b.txt⟧是，电话⟦010-12345678⟧。",
        "⟦550e8400-e29b-41d4-a716-446655440000⟧ ⟦ISO-8859-1⟧ Windows-⟦1252⟧ UTF-8 No.⟦1234⟧ ٢٠٢٤",
        # Scripts without spaces, Korean and Cyrillic
        "在⟦2024⟧年打开⟦report.pdf⟧文件，见⟦https://a.b/c⟧をご覧 ⟦2024⟧년 ⟦%s⟧个 ⟦{x}⟧さん",
        "联系@小明 ⟦#话题#⟧今天 ⟦C:\\x\\文件⟧ 文件⟦/usr/bin⟧是 ⟦2024⟧г. ⟦2024-2025⟧гг. ดี⟦{x}⟧ครับ",
        # Emoji, of several characters each
        "I ⟦👍🏽⟧ it ⟦👩‍👩‍👧⟧, ⟦🇮🇹🇫🇷⟧ ⟦1️⃣⟧ ⟦❤️⟧ end⟦😀⟧. ⟦↔️⟧ 1 © ← 5",
        "THE CAT AB12 WENT HOME at 10:30, 12345.50 or .5 e.g. U.S. p.m. etc.",
    ],
)
def test_spans_of_a_text_are_found_and_no_other_text(text: str):
    plain = text.replace("⟦", "").replace("⟧", "")
    found = "".join(
        f"⟦{part}⟧" if number % 2 else part
        for number, part in enumerate(_divided(plain, find_spans(plain)))
    )
    assert found == text


def _divided(text: str, places: list[tuple[int, int]]) -> list[str]:
    ends = [0, *(end for place in places for end in place), len(text)]
    return [text[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def items(text: str, markup: Markup = "text", protection: Protection | None = None) -> str:
    """The text as it is translated: sentences in brackets, spans in them as their targets in |."""
    escape = ESCAPE if markup == "html" else str
    found = ""
    for line in lines_of(text, markup):
        if isinstance(line, str):
            found += line
            continue
        marked = (protection or Protection()).line(line, escape)
        for each in sentences_of_line(marked, _sentences, escape):
            is_text = isinstance(each, str)
            found += each if is_text else f"⟦{restore(each.text, _targets(each), escape)}⟧"
    return found


def _targets(line: Line) -> list[str]:
    return [f"|{span.target}|" for span in line.spans]


def _sentences(line: str) -> list[slice]:
    """Sentences end at `. `."""
    starts = [0] + [at + 2 for at in range(len(line)) if line.startswith(". ", at)]
    ends = [start - 1 for start in starts[1:]] + [len(line)]
    return [slice(a, b) for a, b in zip(starts, ends, strict=True) if line[a:b].strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi you.<br>Bye now.<BR />Go.", "⟦Hi you.⟧<br>⟦Bye now.⟧<BR />⟦Go.⟧"),
        (r"Hi you.\nBye now\Nagain\r\n\nGo", r"⟦Hi you.⟧\n⟦Bye now⟧\N⟦again⟧\r\n\n⟦Go⟧"),
        (r"In C:\new\Name or C:\Program Files\node or a\b\no", None),
        (r"The \nabla of $\nu$", None),
    ],
)
def test_written_breaks_end_lines(text: str, expected: str | None):
    found = items(text)
    assert found.replace("|", "").replace("⟦", "").replace("⟧", "") == text
    assert found == expected or (expected is None and found.count("⟦") == 1)
    assert sum(isinstance(each, list) for each in lines_of(text, whole=True)) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read.{0} Next one.", ["Read.", "{0} ", "Next one."]),
        ("Read {0}. Next one.{1}{2}", ["Read {0}.", " ", "Next one.", "{1}{2}"]),
        ("Read config.{env} Next one.", ["Read config.{env} Next one."]),
        ("Read.{env}Next one.", ["Read.{env}Next one."]),
        ("Read. %s is next.", ["Read.", " ", "%s is next."]),
        ("Hi 😀. Read.👍🏽Go 1️⃣ on. 😀", ["Hi 😀.", " ", "Read.", "👍🏽", "Go 1️⃣ on.", " 😀"]),
        (
            "In 2019. 2020 came. See No. {n}, 1 Jan. 2021.",
            ["In 2019.", " ", "2020 came.", " ", "See No. {n}, 1 Jan. 2021."],
        ),
    ],
)
def test_a_span_at_the_end_of_a_sentence_does_not_hide_the_end(text: str, expected: list[str]):
    found = sentences_of_line(Protection().line([text]), find_sentences)
    assert [x if isinstance(x, str) else x.restored() for x in found if x] == expected


def test_lines_keep_their_breaks_and_the_spaces_around_them():
    text = "  Hello.  See www.x.com. It is %s.\r\n\n\tGo <b>home now</b>.  "
    assert items(text) == (
        "  ⟦Hello.⟧ ⟦See |www.x.com|.⟧ ⟦It is |%s|.⟧\r\n\n\t⟦Go |<b>|home now|</b>|.⟧  "
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("The dog\nsees it. Then\r\n it goes.\n\nSo", "⟦The dog sees it.⟧ ⟦Then it goes.⟧\n\n⟦So⟧"),
        ("- The dog\n  sees.\n- So\n1. It\n", "⟦- The dog sees.⟧\n⟦- So⟧\n⟦1.⟧ ⟦It⟧\n"),
        ("1. a\n    - The dog\n      sees", "⟦1.⟧ ⟦a⟧\n    ⟦- The dog sees⟧"),
        ("Hard  \nbreak\\\nhere\nso", "⟦Hard⟧  \n⟦break\\⟧\n⟦here so⟧"),
        ("It\n==\nThe\ndog\n--\n# So\nit", "⟦It⟧\n⟦==⟧\n⟦The dog⟧\n⟦--⟧\n⟦# So⟧\n⟦it⟧"),
        ("> The\n> dog\n**It**\n*is*", "⟦> The⟧\n⟦> dog **It** *is*⟧"),
        ("    a = 1\n    b = 2", "    ⟦a = 1⟧\n    ⟦b = 2⟧"),
        ("| a b | c |\n|---|--:|\n|a \\| c||", "| ⟦a b⟧ | ⟦c⟧ |\n|⟦---⟧|⟦--:⟧|\n|⟦a \\| c⟧||"),
        ("<pre>\na\n\nb\nc\n</pre>\nd\ne", "<pre>\n⟦a⟧\n\n⟦b⟧\n⟦c⟧\n</pre>\n⟦d e⟧"),
        (":::note\na\nb\n:::\nc\n: d", "⟦:::note⟧\n⟦a b⟧\n⟦:::⟧\n⟦c⟧\n⟦: d⟧"),
        ("See:\na | b\n--- | ---\nc | d", "⟦See:⟧\n⟦a | b⟧\n⟦--- | ---⟧\n⟦c | d⟧"),
        ("---\na: b\n---\n# So\n\n---\nc\n---", "---\na: b\n---\n⟦# So⟧\n\n⟦---⟧\n⟦c⟧\n⟦---⟧"),
        ("---\r\na: b\r\n---\r\nSo", "---\r\na: b\r\n---\r\n⟦So⟧"),
        ("---\nSo it is", "⟦---⟧\n⟦So it is⟧"),
        ("a\n```py\nb\n\nc\n```\nd", "⟦a⟧\n```py\nb\n\nc\n```\n⟦d⟧"),
        ("- a\n  ~~~\n  b\n  ```\n  ~~~~\nc", "⟦- a⟧\n  ~~~\n  b\n  ```\n  ~~~~\n⟦c⟧"),
        ("````\n```\na\n```\n````\nb", "````\n```\na\n```\n````\n⟦b⟧"),
        ("a\n```\nb", "⟦a⟧\n```\nb"),
        ("+++\na = 1\n+++\nSo", "+++\na = 1\n+++\n⟦So⟧"),
        ("---\na: b\n...\nSo...\n---", "---\na: b\n...\n⟦So...⟧\n⟦---⟧"),
        ("Hi\n+++\nyou\n+++", "⟦Hi⟧\n⟦+++⟧\n⟦you⟧\n⟦+++⟧"),
        ("> a\n> ```\n> b\n> ```\n> c", "⟦> a⟧\n> ```\n> b\n> ```\n⟦> c⟧"),
        ("1. ~~~\n   b\n   ~~~\nc", "1. ~~~\n   b\n   ~~~\n⟦c⟧"),
        ("```a``` is\nb `c`", "⟦|```a```| is b |`c`|⟧"),
    ],
)
def test_paragraphs_and_cells_of_markdown_are_lines_and_code_is_kept(source: str, expected: str):
    assert items(source, "markdown") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>Where is <b>my mother</b>?</p>", "<p>⟦Where is |<b>|my mother|</b>|?⟧</p>"),
        ("<b><i>Hi. How</i> so. </b>Fine", "<b><i>⟦Hi.⟧ ⟦How|</i>| so.⟧ </b>⟦Fine⟧"),
        ("<b>Hi. You. </b>Fine", "<b>⟦Hi.⟧ ⟦You.⟧ </b>⟦Fine⟧"),
        ("<li> <b>All of it</b> \n</li>", "<li> <b>⟦All of it⟧</b> \n</li>"),
        ("<b>Hi</b> you<br>", "⟦|<b>|Hi|</b>| you⟧<br>"),
        ("a &amp; b&nbsp;c &lt; d &euro; &copy 1", "⟦a &amp; b|&nbsp;|c &lt; d € © 1⟧"),
        ("one<div>two</div>three", "⟦one⟧<div>⟦two⟧</div>⟦three⟧"),
        ("Use <code>a b</code> now<!-- c -->", "⟦Use |<code>a b</code>| now⟧<!-- c -->"),
        ("in <i translate=no>Bad <i>x</i></i> now", "⟦in |<i translate=no>Bad <i>x</i></i>| now⟧"),
        ("<pre>a\n b</pre><style>c</style> d", "<pre>a\n b</pre><style>c</style> ⟦d⟧"),
        ("&lt;b&gt; and %s &amp;nbsp; x", "⟦|&lt;b&gt;| and |%s| |&amp;nbsp;| x⟧"),
        ("<p>a <b", "<p>⟦a &lt;b⟧"),
        ("<![a b]>c <![d", "⟦|<![a b]>|c &lt;![d⟧"),
    ],
)
def test_tags_within_sentences_are_spans_and_others_are_kept(source: str, expected: str):
    assert items(source, "html") == expected


def test_elements_of_any_markup_are_paired():
    for source in ("<color=red>a <b>b</b></color>", "[url=a]a [b]b[/b][/url]"):
        assert [span.element for span in Protection().line([source]).spans] == [6, 7, -7, -6]
    assert not any(span.element for span in Protection().line(["{name} [X1] %s"]).spans)


def test_elements_of_a_translation_must_be_nested():
    b, b_, i, i_, br = (Span("", "", number) for number in (2, -2, 3, -3, 1))
    assert keeps_elements([]) and keeps_elements([br]) and keeps_elements([i_, b_])
    assert keeps_elements([b, i, br, i_, b_]) and keeps_elements([i, i_, b, b_])
    assert not keeps_elements([b_, b]) and not keeps_elements([b, i, b_, i_])
    # The other half of an element is in another sentence.
    assert keeps_elements([b, i]) and keeps_elements([i, i_, b_]) and keeps_elements([b, i, i_])
    assert not any(map(keeps_elements, ([i, b], [b_, i_], [i, b, i_], [i, b_, i_])))


@pytest.mark.parametrize(
    "source",
    [
        "a</i> b</b> <u>c <img>d</u> <i>e <b>f",
        "<b>a <sub> b</b> </i> <a title='>\"<'>c</A> d <u>",
        "<b>a </q> b</b> <!-- c --> <i>d <i>e</i>",
    ],
)
def test_the_order_of_a_source_is_one_of_nested_elements(source: str):
    (line,) = (each for each in lines_of(source, "html") if each)
    assert not isinstance(line, str)
    spans = Protection().line(line).spans
    assert keeps_elements(spans)
    halves = [span for span in spans if abs(span.element) > 1]
    swapped = (
        [*halves[:at], halves[at + 1], halves[at], *halves[at + 2 :]]
        for at in range(len(halves) - 1)
    )
    assert not any(map(keeps_elements, swapped))


def test_a_run_of_spans_is_one_for_a_model():
    line = Protection().line(["See <b>%s</b> now %d"])
    assert line.text == f"See {MARK * 3} now {MARK}"
    assert [[span.source for span in run] for run in line.runs()] == [["<b>", "%s", "</b>"], ["%d"]]


def test_terms_are_whole_words_the_longest_first_and_in_any_case_if_written_in_lower_case():
    terms = {"hard disk": "Festplatte", "disk": "Scheibe", "US": "USA", "R&D": "F&E", "हिन्दी": "H"}
    terms |= {
        "Node.js": "Knoten",
        "硬盘": "HDD",
        "서울": "Seoul",
        "ọmọ": "child",
        "a.example.org": "b",
    }
    protection = Protection(glossary=terms)

    def found(text: str, markup: Markup = "text") -> str:
        return items(text, markup, protection)

    assert found("A Hard disk, DISK or disks, a hard\u00a0disk") == (
        "⟦A |Festplatte|, |Scheibe| or disks, a |Festplatte|⟧"
    )
    assert found("Tell us of US, Us and USB") == "⟦Tell us of |USA|, Us and USB⟧"
    assert found("R&D of Node.js, a.example.org, x.a.example.org") == (
        "⟦|F&E| of |Knoten|, |b|, |x.a.example.org|⟧"
    )
    assert found("R&amp;D is", "html") == "⟦|F&amp;E| is⟧"
    assert found("हिन्दी हिन्दीमें, o\u0323mo\u0323 ọmọlẹ́") == "⟦|H| हिन्दीमें, |child| ọmọlẹ́⟧"
    assert found("我们用硬盘。서울은 크다") == "⟦我们用|HDD|。|Seoul|은 크다⟧"
    once = protection.of_targets()
    assert items("die F&E in USA und Festplatte", protection=once) == (
        "⟦die |F&E| in |USA| und |Festplatte|⟧"
    )
    assert items("Die USA und USAid", protection=once) == "⟦Die |USA| und USAid⟧"
    assert items("US", protection=protection.with_terms({"US": "UE"})) == "⟦|UE|⟧"


def test_expressions_of_a_user_and_terms_never_cut_other_spans():
    protection = Protection([r"\w+-\d+", r"https://x/ y"], {"abc": "x"})
    assert items("foo-12 is https://x/ y abc-1", protection=protection) == (
        "⟦|foo-12| is |https://x/ y| |abc-1|⟧"
    )
    protection = Protection([r"[A-Z]+-\d+", "b c"], {"no. %d": "Nr. %d", "x": "y", "d x": "z"})
    assert items("a https://b.c/AB-12/x, {AB-12} AB-12", protection=protection) == (
        "⟦a |https://b.c/AB-12/x|, |{AB-12}| |AB-12|⟧"
    )
    assert items('Go <i a="AB-12"> no. %d a b c_x', protection=protection) == (
        '⟦Go |<i a="AB-12">| |Nr. %d| a |b c_x|⟧'
    )
    assert items("b c d x", protection=protection) == "⟦|b c| |z|⟧"
    for expression in ("(", "a*", "^"):
        with pytest.raises(UserError, match="--protect"):
            Protection([expression])


def test_text_that_holds_the_mark_is_no_span():
    line = Protection().line([f"a {MARK} b %s"])
    assert line.restored() == "a \ufffd b %s"


def test_terms_that_cannot_be_used_are_errors():
    assert terms_of({"a": "\ud800"}) == {"a": "?"}  # which can be written
    for value in (5, ["a"], {"a": 5}, {"a": ""}, "a", "a\tb\tc", "a\t", "\tb", "a\tb\na\tc"):
        with pytest.raises(UserError):
            terms_of(value)
