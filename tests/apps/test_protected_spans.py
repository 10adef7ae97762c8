"""Spans that every translation holds once and unchanged, glossaries, and what is searched again."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.states import make_facts
from translate_ddp.data.model_facts import LengthRatios
from translate_ddp.data.tokenizer import NO_EXTRA_TOKENS, Tokenizer
from translate_ddp.decoding import Decoder
from translate_ddp.directions import LanguagePair
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.settings import Split
from translate_ddp.spans import MARK, Line, Protection, Span
from translate_ddp.translator import Translator

TEXT = (
    "  sun %s moon https://a.example.org/b?c=d. tree <b>fish</b> {x} wolf {x}\n- <i>sun</i> 123456"
)
SPANS = ["%s", "https://a.example.org/b?c=d", "<b>", "</b>", "{x}", "<i>", "</i>", "123456"]
MANY = " ".join(f"sun %{number}$s" for number in range(1, 20))


def check(text: str) -> None:
    """The spans of TEXT stand in the text as often as in TEXT, and elements are nested."""
    assert [text.count(span) for span in SPANS] == [1, 1, 1, 1, 2, 1, 1, 1]
    assert text.index("<b>") < text.index("</b>") < text.index("<i>") < text.index("</i>")
    assert text.startswith("  ") and text.count("\n- ") == 1


@pytest.fixture
def model(trained: Path) -> Translator:
    return Translator.open(str(trained))


def test_any_model_keeps_spans_in_each_translation(model: Translator):
    assert model.facts.extra.num_spans == 8
    check(model.translate([TEXT], 1)[0])
    for temperature in (0.0, 2.0):
        (found,) = model.translate([TEXT], 3, n_best=3, temperature=temperature)
        assert len(found) == 3
        for each in found:
            check(each.text)
            spans = [t for s in each.sentences for t in zip(s.tokens, s.log_probs, strict=True)]
            assert all(value == 0 for token, value in spans if token in SPANS)
    (many,) = model.translate([MANY])
    assert all(many.count(f"%{number}$s") == 1 for number in range(1, 20))


def test_a_model_without_span_tokens_translates_the_text_between(model: Translator):
    bare = Translator(model.engine, replace(model.facts, extra=NO_EXTRA_TOKENS))
    check(bare.translate([TEXT])[0])
    sun, moon = bare.translate(["sun", "moon"])
    assert bare.translate(["sun %s (moon)"]) == [f"{sun} %s ({moon})"] != [""]
    # It is said of such a translation, and of no other.
    found = bare.translate(["sun %s (moon)", "sun", "%s", "%s {x}"], n_best=1)
    assert ["spans" in best.warnings for (best,) in found] == [True, False, False, False]
    ((many,), (few,)) = model.translate([MANY, "sun"], n_best=1)
    assert "spans" in many.warnings and "spans" not in few.warnings


def test_html_keeps_its_tags_and_escapes_its_text(model: Translator):
    source = "<ul>\n <li>sun <b>moon</b> &amp; tree<br></li><pre>a  b</pre></ul>"
    (found,) = model.translate([source], markup="html")
    assert found.startswith("<ul>\n <li>") and found.endswith("<br></li><pre>a  b</pre></ul>")
    assert found.index("<b>") < found.index("</b>")
    assert "&" not in found.replace("&amp;", "")
    ((best,),) = model.translate(["sun &amp; <b>&lt;i&gt;</b>"], markup="html", n_best=1)
    assert best.sentences[0].source == "sun &amp; <b>&lt;i&gt;</b>"


def test_html_file_is_one_text_with_its_lines(trained: Path, tmp_path: Path):
    page = (
        "<!doctype html>\n<html>\n<p>sun\nmoon <b>tree</b>.\n</p>\n<pre>a\n\n  b</pre>\n</html>\n"
    )
    (tmp_path / "a.html").write_text(page)
    flags = ["--model_folder", str(trained), "--input", str(tmp_path / "a.html")]
    flags += ["--output", str(tmp_path / "b.html")]
    code, output = translate_ddp(tmp_path, "translate", *flags, "--markup", "html")
    assert code == 0, output
    found = (tmp_path / "b.html").read_text()
    assert found.startswith("<!doctype html>\n<html>\n<p>") and "<b>" in found
    assert found.endswith("\n</p>\n<pre>a\n\n  b</pre>\n</html>\n") and "sun" not in found
    code, output = translate_ddp(tmp_path, "translate", *flags)
    assert code == 2 and "a.html is HTML: pass --markup html." in " ".join(output.split())
    (tmp_path / "a.html").write_bytes(b"<p>\xff</p>")
    code, output = translate_ddp(tmp_path, "translate", *flags, "--markup", "html")
    assert code == 2 and "Save it in UTF-8." in output and "Traceback" not in output


def test_text_around_sentences_is_kept_but_for_terms(model: Translator):
    protection = Protection([], {"moon": "luna"})
    (found,) = model.translate(["(moon) sun"], protection=protection)
    assert found.startswith("(luna) ")
    assert model.translate(["%s  :\t{x}", "%s  moon"], protection=protection) == [
        "%s  :\t{x}",
        "%s luna",
    ]


class Scripted:
    """An engine that returns given translations, first of a search, then of another one."""

    fingerprint = "scripted"

    def __init__(self, *searches: Sequence[Sequence[list[int]]]) -> None:
        self.searches, self.calls = iter(searches), list[tuple[Any, ...]]()

    def translate(
        self, sources: Any, config: NBestConfig, on_done: Any = None, unrepeated: int = 0
    ) -> list[list[Hypothesis]]:
        self.calls.append((list(map(list, sources)), config.beam_width, unrepeated))
        return [[Hypothesis(ids, 0.0) for ids in several] for several in next(self.searches)]


def scripted(
    model: Translator, *searches: Any, most: float = 2.0, median: float = 0.0
) -> tuple[Scripted, Decoder]:
    engine, ratios = Scripted(*searches), {"en-it": LengthRatios(most, median)}
    facts = replace(model.facts, longest_source=50, length_ratios=ratios)
    return engine, Decoder(engine, facts, LanguagePair("en", "it"))  # type: ignore[arg-type]


def with_elements(source: str) -> Line:
    """A line of HTML."""
    parts = [Span(part, part) if part[:1] == "<" else part for part in re.split("(<.*?>)", source)]
    return Protection().line(parts)


def decoded(decoder: Decoder, line: Line, beam_width: int = 1, **settings: Any) -> Any:
    config = NBestConfig(beam_width=beam_width, **settings)
    ((found,),) = decoder.translate([line], config, scored=False)
    return found


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text in which [1] to [8] are span tokens."""
    numbers = [int(each) - 1 for each in re.findall(r"\[(\d)\]", text)]
    return tokenizer.encode_marked([re.sub(r"\[\d\]", MARK, text)], [numbers])[0]


@pytest.mark.parametrize(
    ("hypotheses", "expected"),
    [
        (["a [1] b [2] c [3]"], "a %s b <b>c</b>"),
        (["a [2] b [3] c [1]"], "a <b>b</b> c %s"),
        (["a [1] b [3] c [2]", "a [1] b", "[1]. [2]c[3]"], "%s. <b>c</b>"),
        (["[1] [1] [2] [3]", "a [1] [2] [3] [4]", "x [3] [1] [2]"], ""),
    ],
)
def test_the_first_hypothesis_with_each_span_once_and_nested_elements_is_taken(
    model: Translator, hypotheses: list[str], expected: str
):
    line = Protection().line(["sun %s moon <b>tree</b>"])
    several = [ids(model.tokenizer, each) for each in hypotheses]
    parts = [[ids(model.tokenizer, each)] for each in ("A", "B", "C")]
    engine, decoder = scripted(model, [several], [several], parts)
    assert decoded(decoder, line, 3).text == (expected or "A %s B <b>C</b>")
    assert len(engine.calls) == (1 if expected else 3)
    if not expected:  # the texts between the spans
        texts = model.tokenizer.encode(["sun", "moon", "tree"])
        assert engine.calls[2][0] == texts


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("sun https://a.b/c moon 12345", "a https://a.b/c b 12345 c"),
        ("iPhones 12345", "aiPhoneb12345c"),
        ("用硬盘见硬盘", "a HDD b HDD c"),
    ],
)
def test_no_word_becomes_a_part_of_a_span(model: Translator, source: str, expected: str):
    line = Protection(["iPhone"], {"硬盘": "HDD"}).line([source])
    engine, decoder = scripted(
        model,
        [[ids(model.tokenizer, "a[1]b[2]c")]],
        [[ids(model.tokenizer, each)] for each in "AB"],
    )
    assert decoded(decoder, line).text == expected
    if source == "用硬盘见硬盘":
        ((found,),) = decoder.translate([line], NBestConfig(1), scored=False, divided=True)
        assert found.text == "A HDD B HDD"


@pytest.mark.parametrize(
    ("first", "second", "expected", "warnings"),
    [
        (["a b a b a b"], ["a b c"], "a b c", ()),
        (["a b a b a b", "a c"], ["x"], "a c", ()),
        (["a b a b a b"], ["c d c d c d"], "a b a b a b", ("repetition",)),
        ([""], ["a"], "a", ()),
        ([""], [""], "", ("empty",)),
        (["a b c d e f g h i j k l m n o p q r"], ["a"], "a", ()),
        (["a b c d e f g h i j k l m n o p q r"], [""], "a b c d e f g h i j k l m n o p q r", 0),
    ],
)
def test_loops_and_long_or_empty_translations_are_searched_again_then_flagged(
    model: Translator, first: list[str], second: list[str], expected: str, warnings: Any
):
    searches = ([[ids(model.tokenizer, each) for each in way]] for way in (first, second))
    engine, decoder = scripted(model, *searches, most=1.0)
    found = decoded(decoder, Line("sun moon"), 2)
    assert (found.text, found.warnings) == (expected, warnings if warnings != 0 else ("length",))
    assert engine.calls[1:] == ([] if len(first) > 1 else [(engine.calls[0][0], 5, 3)])


def test_a_translation_that_is_missing_of_several_is_searched_again(model: Translator):
    first, second = (
        [ids(model.tokenizer, each) for each in way]
        for way in (["a", "a b a b a b"], ["a b a b a b", "a", "c"])
    )
    _, decoder = scripted(model, [first], [second])
    config = NBestConfig(beam_width=2, n_best=2)
    (found,) = decoder.translate([Line("sun moon")], config, scored=False)
    assert [(each.text, each.warnings) for each in found] == [("a", ()), ("c", ())]


def test_a_lost_number_is_a_warning_and_one_of_a_kept_part_is_not(model: Translator):
    line = Protection([], {"R 25": "R"}).line(["sun 31 %20s R 25"])
    texts = ["a 31 [1] [2]", "a 31. [1] [2]", "a [1] 13 [2]"]
    searches = [[[ids(model.tokenizer, text)]] for text in texts]
    engine, decoder = scripted(model, *searches, most=9.0)
    found = [decoded(decoder, line).warnings for _ in texts]
    assert found == [(), (), ("numbers",)]


@pytest.mark.parametrize(
    ("source", "whole", "parts", "expected"),
    [
        ("sun moon. tree fish wolf", "a b", ["a b.", "c d"], "a b. c d"),
        ("sun moon. tree fish wolf", "a b", ["a", "c"], "a b"),  # together no longer
        ("sun moon. tree fish wolf", "a b c d e f", [], "a b c d e f"),  # long enough
        ("sun moon tree fish wolf", "a b", [], "a b"),  # no inner mark
        ("Dr. moon tree fish wolf", "a b", [], "a b"),  # nor one after two words
        ("sun moon.Tree fish wolf", "a b", ["a b.", "c d"], "a b. c d"),
        ("sun <b>moon. tree</b> fish wolf", "a [1]b[2]", ["a [1]b.", "c[1] d"], "a <b>b. c</b> d"),
    ],
)
def test_parts_of_a_sentence_are_translated_if_its_translation_is_much_too_short(
    model: Translator, source: str, whole: str, parts: list[str], expected: str
):
    translated = [[ids(model.tokenizer, each)] for each in parts]
    engine, decoder = scripted(
        model, [[ids(model.tokenizer, whole)]], *[translated] * bool(parts), median=1.5
    )
    line = with_elements(source)
    found = decoded(decoder, line)
    assert (found.text, found.warnings, found.source) == (expected, (), source)
    assert len(engine.calls) == 1 + bool(parts)
    # Not without a median, as with `--split none`, and not for samples.
    for median, temperature in ((0.0, 0.0), (1.5, 1.0)):
        _, decoder = scripted(model, [[ids(model.tokenizer, whole)]], median=median)
        found = decoded(decoder, line, temperature=temperature)
        assert found.text == whole.replace("[1]", "<b>").replace("[2]", "</b>")


@pytest.mark.parametrize(("split", "parts"), [("sentences", 1), ("none", 0)])
def test_only_a_split_text_is_translated_in_parts(
    model: Translator, monkeypatch: pytest.MonkeyPatch, split: Split, parts: int
):
    facts = replace(model.facts, length_ratios={"en-it": LengthRatios(2.0, 1.5)})
    short = ids(model.tokenizer, "a b")
    longer = [[ids(model.tokenizer, each)] for each in ("a b.", "c d")]
    engine = Scripted([[short]], *[longer] * parts)
    monkeypatch.setattr(model, "facts", facts)
    monkeypatch.setattr(model, "engine", engine)
    assert model.translate(["Sun moon. tree fish wolf"], 1, split=split) == [
        "a b. c d" if parts else "a b"
    ]


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("sun <b>moon</b>!", "a [1] b c[2]!", "a <b>b c</b>!"),
        ("sun <b>moon</b>!", "a[1] b [2]!", "a <b>b</b>!"),
        ("sun <b>moon</b> tree", "[1] b [2]c", "<b>b</b> c"),
        ("sun <b> moon </b> tree", "a[1] b [2]c", "a<b> b </b>c"),  # as in the source
        ("sun <b><i>moon</i></b> tree", "a [1] b [2] c", "a <b><i>b</i></b> c"),
        ("sun <img>moon", "a [1] b", "a <img> b"),
    ],
)
def test_no_space_is_added_within_an_element(
    model: Translator, source: str, translation: str, expected: str
):
    _, decoder = scripted(model, [[ids(model.tokenizer, translation)]])
    assert decoded(decoder, with_elements(source)).text == expected


def test_a_repetition_of_the_source_is_no_fault(model: Translator):
    text = "ha du ha du ha du"
    engine, decoder = scripted(model, [[ids(model.tokenizer, text)]])
    found = decoded(decoder, Line(text))
    assert found.text == text and not found.warnings and len(engine.calls) == 1


def test_glossary_and_protection_are_part_of_what_a_translation_depends_on(
    trained: Path, tmp_path: Path, model: Translator
):
    terms = tmp_path / "terms.tsv"
    terms.write_text("moon\tLuna Bella\n")
    flags = ["--model_folder", str(trained), "--format", "jsonl", "--glossary", str(terms)]
    flags += ["--n_best", "2", "--protect", "t.ee"]
    code, output = translate_ddp(tmp_path, "translate", *flags, "sun Moon tree.")
    assert code == 0
    for each in json.loads(output)["translations"]:
        assert each["text"].count("Luna Bella") == 1 and each["text"].count("tree") == 1
    identities = list[Any]()
    for protection in (Protection(), Protection(["a"]), Protection([], {"a": "b"})):
        model.protection = protection
        identities.append(json.dumps(model.identity))
    model.protection = Protection()
    assert len({*identities}) == 3
    flags = ["--model_folder", str(trained), "--glossary", "none.tsv"]
    code, output = translate_ddp(tmp_path, "translate", *flags, "sun")
    assert code == 2 and "--glossary none.tsv" in output


def test_validate_counts_terms_and_warnings(trained: Path, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("moon\tLuna\nnever\tmai\n")
    (tmp_path / "pairs.tsv").write_text("sun moon\tsole luna\nmoon Moon\tluna luna\n")
    flags = ["--model_folder", str(trained), "--source", str(tmp_path / "pairs.tsv")]
    code, output = translate_ddp(
        tmp_path, "validate", *flags, "--glossary", str(tmp_path / "terms.tsv")
    )
    assert code == 0 and "Glossary: 3 of 3 terms of the sources" in output


def test_a_pivot_keeps_the_terms_of_the_first_step(model: Translator) -> None:
    facts = make_facts(model.tokenizer, ("en", "it"), ("it", "fr"), extra=model.facts.extra)
    both = Translator(model.engine, facts)
    protection = Protection([], {"moon": "la Lune"})
    (found,) = both.translate(
        ["sun moon %s"], pivot="it", source="en", to="fr", protection=protection
    )
    assert found.count("la Lune") == 1 and found.count("%s") == 1
