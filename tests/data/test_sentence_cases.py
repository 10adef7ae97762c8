"""Where the sentences of lines of many languages are, as sentence_cases.tsv marks them."""

import re
from pathlib import Path

import pytest

from translate_ddp.data.sentences import find_sentences

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
