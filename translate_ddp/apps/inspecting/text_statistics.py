"""Lengths, characters and defects of pairs of texts, computed in batches by worker processes.

The module imports little, because every worker process imports it.
"""

from __future__ import annotations

import html.entities
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from translate_ddp.console import ProgressBar
from translate_ddp.data.cleaning import EXAMPLES, shortened
from translate_ddp.data.languages import count_letters
from translate_ddp.data.pair_store import Pair
from translate_ddp.directions import LanguagePair
from translate_ddp.runtime.workers import map_in_processes

SIDES = range(2)  # source, target
CONTEXT_CHARACTERS = 16  # before a defect, in an example
# A character that a byte from 0x80 to 0xBF becomes in Windows-1252 or Latin-1.
CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
# The same in Windows-1251, which has Р and С for the first bytes of Cyrillic letters.
CYRILLIC_CONTINUATION = "[\xa0-\xbfЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—™љ›њќћџЎўЈҐЁЄЇІіґё№єјЅѕї]"
ELEMENTS = (
    "a|abbr|b|blockquote|body|br|button|center|code|div|em|font|form|h[1-6]|head|hr|html|i|img|"
    "input|label|li|link|meta|ol|option|p|pre|s|script|select|small|span|strong|style|sub|sup|"
    "table|tbody|td|th|thead|title|tr|tt|u|ul"
)


@dataclass(frozen=True)
class Defect:
    """A sign of text that should be repaired before training."""

    pattern: re.Pattern[str]
    advice: str


DEFECTS = {
    "HTML tags": Defect(
        re.compile(rf"</?(?:{ELEMENTS})(?:\s[^<>]{{0,300}})?/?>|<!--", re.IGNORECASE),
        "Remove the markup before training.",
    ),
    "HTML entities": Defect(
        re.compile(rf"&(?:#\d{{1,7}}|#x[0-9a-f]{{1,6}}|{'|'.join(html.entities.name2codepoint)});"),
        "Decode them before training, as Python's html.unescape does.",
    ),
    # "Ã¤" for ä, "â€™" for ’, "Ð¿Ñ€" and "РїСЂ" for пр
    "UTF-8 that was read in another encoding": Defect(
        re.compile(
            rf"[ÃÂ]{CONTINUATION}|â€{CONTINUATION}|ðŸ|ï»¿|(?:[ÐÑ]{CONTINUATION}){{2}}"
            rf"|(?:[РС]{CYRILLIC_CONTINUATION}){{3}}"
        ),
        "Take the original text, or repair it with ftfy.",
    ),
    "private-use characters": Defect(
        re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]"),
        "They have a meaning in one font only: replace or remove them.",
    ),
    "tokens of another program (@-@, @@, ▁)": Defect(
        re.compile(r"(?:^| )(?:@[-/,.:]@|▁\S+|\S+@@)(?= |$)"),
        "Train on text that is not tokenized.",
    ),
}


def find_defects(text: str) -> dict[str, int]:
    """The place of the first defect of each name."""
    if text.isascii() and not any(sign in text for sign in "<&@"):
        return {}  # most text
    found = ((name, defect.pattern.search(text)) for name, defect in DEFECTS.items())
    return {name: match.start() for name, match in found if match}


@dataclass
class TextStatistics:
    """What `measure` has found in some pairs. Arrays are N pairs x 2 sides."""

    characters: np.ndarray
    words: np.ndarray  # separated by spaces
    languages: np.ndarray
    counts: dict[str, Counter[str]]  # how often each character occurs, per language
    defects: Counter[str] = field(default_factory=Counter)  # pairs with each
    examples: dict[str, list[Pair]] = field(default_factory=dict)  # some pairs with each defect

    def __len__(self) -> int:
        return len(self.characters)

    @cached_property
    def scripts(self) -> dict[str, Counter[str]]:
        """The number of letters by script, per language."""
        return {language: count_letters(counts) for language, counts in self.counts.items()}


def measure_batch(batch: tuple[LanguagePair, list[Pair]]) -> TextStatistics:
    """The statistics of a batch and its direction, in a worker process."""
    direction, pairs = batch
    result = TextStatistics(
        characters=_numbers([len(text) for pair in pairs for text in pair]),
        words=_numbers([len(text.split()) for pair in pairs for text in pair]),
        languages=np.array([direction] * len(pairs)),
        counts={language: Counter() for language in direction},
    )
    for pair in pairs:
        for side in SIDES:
            result.counts[direction[side]].update(pair[side])
        places = [find_defects(text) for text in pair]
        for name in places[0] | places[1]:
            result.defects[name] += 1
            if len(examples := result.examples.setdefault(name, [])) < EXAMPLES:
                source, target = map(partial(_from, name), pair, places)
                examples.append(shortened((source, target)))
    return result


def measure(batches: Iterable[tuple[LanguagePair, list[Pair]]], total: int) -> TextStatistics:
    """The statistics of all pairs of the batches. `total` is their number."""
    counts: dict[str, Counter[str]] = {}
    parts: list[TextStatistics] = []
    with ProgressBar("Reading texts", total, leave=False) as progress:
        for part in map_in_processes(measure_batch, batches):
            progress.advance(len(part))
            parts.append(part)
            for language, found in part.counts.items():
                counts.setdefault(language, Counter()).update(found)
    return TextStatistics(
        characters=np.concatenate([part.characters for part in parts]),
        words=np.concatenate([part.words for part in parts]),
        languages=np.concatenate([part.languages for part in parts]),
        counts=counts,
        defects=sum((part.defects for part in parts), Counter()),
        examples={
            name: [pair for part in parts for pair in part.examples.get(name, [])][:EXAMPLES]
            for name in DEFECTS
        },
    )


def _from(name: str, text: str, places: dict[str, int]) -> str:
    """The text, from a little before the defect if it has that."""
    start = places.get(name, 0) - CONTEXT_CHARACTERS
    return f"…{text[start:]}" if start > 0 else text


def _numbers(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32).reshape(-1, len(SIDES))
