"""No text takes a function of the package longer than in proportion to its length.

A server reads lines of 100 kB. Functions are found by the name and type of their first parameter:
new ones are tried without a change here.
"""

import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

import translate_ddp
from translate_ddp import spans
from translate_ddp.data.sentences import cut as cut_tokens
from translate_ddp.data.sentences import find_parts, find_sentences, learn_abbreviations
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.modeling.repetition import find_loop
from translate_ddp.settings import TokenizerConfig
from translate_ddp.spans import MARK, Glossary, Markup, Protection, keeps_elements, lines_of

CHARACTERS = 1_500  # of the shorter text: work that grows with its square is then most of all
SHORTEST = 2_000  # ns: a shorter time may be measured as none
ROUNDS = 20  # of measurements, at most: linear work passes one of them
FIRST = {"text", "line", "src", "content", "reference"}  # parameters that hold a text
# What the other parameters get; of a text.
OTHERS: Mapping[str, Callable[[str], object]] = {
    "text": lambda text: text,
    "tgt": lambda text: text,
    "markup": lambda text: "html",
    "language": lambda text: "en",
    "code": lambda text: "nb",
    "random": lambda text: Random(1),
    "draws": lambda text: [0.0] * 4,
    "key": lambda text: 1,
    "at": lambda text: 1,
    "characters": lambda text: 40,
    "spans": lambda text: [""] * text.count(MARK),
}
NO_TEXT = {  # these read a whole tokenizer, write to a stream, or compare two short texts
    "apps.reporting.translation_scores.marked",
    "data.tokenizer_models.open_json",
    "training.fine_tuning.store_tokenizer",
    "runtime.supervisor.write_stderr",
    "console.print_line",
}
UNITS = (
    'a|a.|a. |A. B|a. 5 |5. |a? |U.S. |..|?!|。|。*|。”|a.* |**a.** |__|`|~|(a. |1) |«|a. » |"a." '
    "|'a|a.[1] |a.[|a.(|[|]]|- a\n|#\ufe0f\u20e3|*\u20e3|:)|<3 |(^_^) |😀|\\n|\\N|C:\\a |\\a|\\"
    "|<br>|<br|<|<b>|</b>|<b></i>|<a |<a b=c |<a b='|<!--|<!|<?|<![CDATA[|<script>|<p>|&amp;|&nbsp;"
    f"|&#1;|&|{MARK}|ǀ|{{0}}|{{|%|%0|+1|+1 |+(|0|1 |1.|1-|1/|/|/a|a/|~/|@a|a@|a@a.|www.a|http://"
    '|http://(|x=|a-|a:|\u0301|\u200b|가|İ| |\t|\n|{"|""|,|;|@@ |▁|A1|#a|://'
    "|http://()|&a|www.|<a b=c|1 2|{a |{%|<%|[b]|[a b=|=\"a|年#|年|(|)|_|\\a{|{a, b |<a b |](|'s|."
    '|! |!"|。」| 😀| (!)'
).split("|")
# What stands once before a unit that is repeated.
STARTS = ('%|+|{{|[|[[|[a=|<a|<|</|<!--|&#|&|a@|a.|a. |"|(|@|#|http://|C:\\|**').split("|")
TEXTS = [("", unit) for unit in UNITS]
TEXTS += [(start, unit) for start in STARTS for unit in ("0", "1", " ", "a", "a.", "(")]


def modules() -> Iterator[Any]:
    """All modules, except modules of a feature whose optional packages are not installed."""
    for each in pkgutil.walk_packages(translate_ddp.__path__, "translate_ddp."):
        if not each.name.endswith("__main__"):
            with suppress(ModuleNotFoundError):
                yield importlib.import_module(each.name)


def text_functions() -> dict[str, Callable[[str], object]]:
    """Public functions of a text, by name."""
    found: dict[str, Callable[[str], object]] = {}
    for module in modules():
        for name, value in vars(module).items():
            full = f"{module.__name__}.{name}".removeprefix("translate_ddp.")
            if not inspect.isfunction(value) or value.__module__ != module.__name__:
                continue
            parameters = list(inspect.signature(value).parameters.values())
            first = parameters[0] if parameters else None
            is_text = first and first.name in FIRST and first.annotation in (str, "str")
            if is_text and full not in NO_TEXT and name[0] != "_":
                needed = [each.name for each in parameters[1:] if each.default is each.empty]
                found[full] = partial(call, value, needed)
    return found


def call(function: Callable[..., object], needed: list[str], text: str) -> object:
    return function(text, *(OTHERS[name](text) for name in needed))


def sentences_of(text: str, markup: Markup) -> None:
    """What a translator does with a text before the model."""
    protection = Protection()
    for parts in lines_of(text, markup):
        if not isinstance(parts, str):
            line = protection.line(parts)
            keeps_elements(line.spans)
            spans.sentences_of_line(line, find_sentences)


TOKENIZER = train_tokenizer(["a b c", "1. 2 <b>"] * 9, TokenizerConfig(vocab_size=300))
FUNCTIONS = {
    **text_functions(),
    "sentences of text": partial(sentences_of, markup="text"),
    "sentences of html": partial(sentences_of, markup="html"),
    "lines": lambda text: [*lines_of(text)],
    "lines of Markdown": lambda text: [*lines_of(text, "markdown")],
    "glossary": Glossary({"a": "b", "a b": "c"}).find,
    "parts": partial(find_parts, language="el"),
    "abbreviations": lambda text: learn_abbreviations([text]),
    "tokens": lambda text: cut_tokens([*text], 20),
    "loops": lambda text: find_loop([*map(ord, text)]),
    "encode": lambda text: TOKENIZER.encode([text]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_twice_the_length_takes_at_most_about_three_times_as_long(name: str):
    for start, unit in TEXTS:
        # Exponential work takes 256 times as long already in the first of these texts.
        for count, times, most in ((8, 2, 60), (16, 2, 60), (CHARACTERS // len(unit), 4, 9)):
            short, long = (f"{start}{unit * count * n}x" for n in (1, times))
            assert is_within(most, FUNCTIONS[name], short, long), (start, unit, count)


def is_within(most: float, function: Callable[[str], object], short: str, long: str) -> bool:
    """Whether the long text takes at most `most` times as long as the short one."""
    times = float("inf"), float("inf")
    for _ in range(ROUNDS):
        times = min(times[0], cpu_time(function, short)), min(times[1], cpu_time(function, long))
        if times[1] <= most * max(times[0], SHORTEST):
            return True
    return False


def cpu_time(function: Callable[[str], object], text: str) -> float:
    """CPU time of this process, which other programs do not lengthen."""
    start = time.process_time_ns()
    function(text)
    return time.process_time_ns() - start
