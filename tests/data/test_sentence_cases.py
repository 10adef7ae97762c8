"""Where the sentences of lines of many languages are, as sentence_cases.tsv marks them."""

import re
from pathlib import Path

import pytest

from translate_ddp.data.sentences import find_parts, find_sentences

LINES = Path(__file__).with_name("sentence_cases.tsv").read_text(encoding="utf-8").split("\n")
CASES = [line.split("\t") for line in LINES if line and not line.startswith("# ")]


@pytest.mark.parametrize(("language", "marked"), CASES)
def test_sentences_are_where_the_language_has_them(language: str, marked: str):
    marked = marked.replace("\\t", "\t")
    line, found = re.sub("[⟦⟧]", "", marked), ""
    at = 0
    for each in find_sentences(line, language):
        found += f"{line[at : each.start]}⟦{line[each]}⟧"
        at = each.stop
    assert found + line[at:] == marked


@pytest.mark.parametrize(
    "marked",
    [
        "The cat eats.|[who says so] Where is he?",
        "Eats fish.|(see below) The dog.|{b}But no",
        "Go.|Come here to me.|Now",
        "mi madre.|where is it",
        "A fish.ǀ |Where? |And ǀ",
        "Он спит.|[кто?]| Где она",
        "Dr. No paid 3.50 of 1234.56, e.g. in the U.S. or z. B. there",
    ],
)
def test_parts_end_at_each_mark_after_a_word(marked: str):
    parts = re.split(r"\| ?", marked)
    line = marked.replace("|", "")
    assert [line[each] for each in find_parts(line, "")] == [part.strip() for part in parts]
