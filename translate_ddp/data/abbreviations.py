"""Abbreviations of a language, learnt from a corpus in which most lines are one sentence.

As in Punkt (Kiss and Strunk 2006), an abbreviation is a short word that is seldom without a period.
Punkt decides from the words after it whether a sentence ends; here, the ends of the lines do.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable

from translate_ddp.data.sentences import CLOSING, LONGEST_ABBREVIATION, OPENING, ORDINAL

MIN_COUNT = 2  # periods after a word inside lines, or of a letter at their ends
MIN_SHARE = 0.3  # of a word's occurrences: "said." is more frequent inside lines, "said" even more
NATS_PER_LETTER = 1.15  # of evidence: a long word that occurs twice is probably none
MARKS = rf"\s\d{OPENING}{CLOSING}{re.escape(string.punctuation)}…"
# The end of a token. U.S. and numbers of more digits are not found: they are not learnt.
WORD = re.compile(
    rf"(?:^|[{OPENING}])(\d{{1,3}}|[^{MARKS}]{{1,{LONGEST_ABBREVIATION}}})(\.?)[{CLOSING}“‘,;:!?…]*$"
)
ITEM = re.compile(r"^\s*\(?\d+\.\s")  # of a list: "1. Go home"


def learn_abbreviations(lines: Iterable[str]) -> list[str]:
    """The words after which a period ends no sentence, in lower case, sorted.

    `ORDINAL` is among them if that is so after numbers, and "a." if the letter is a word whose
    period does end sentences. Lines may have several sentences: the periods of an abbreviation are
    inside lines more often than those of other words, by a log-likelihood ratio.
    """
    tokens, last = Counter[str](), Counter[str]()
    for line in lines:
        words = ITEM.sub("", line).split()
        tokens.update(words)
        last.update(words[-1:])
    inside, at_end, others = Counter[str](), Counter[str](), Counter[str]()
    for token, count in tokens.items():
        for stem, period in WORD.findall(token[-2 * LONGEST_ABBREVIATION :]):
            word = ORDINAL if stem.isdigit() else stem.lower() + "." * (len(stem) == 1)
            others[word] += count * (not period)
            inside[word] += (count - last[token]) * len(period)
            at_end[word] += last[token] * len(period)
    usual = [w for w, n in others.items() if inside[w] + at_end[w] < n and w != ORDINAL]
    ends_inside, ends = (1 + sum(counts[word] for word in usual) for counts in (inside, at_end))
    share = ends_inside / (ends_inside + ends)
    return sorted(w for w in others if _is_learnt(w, inside[w], at_end[w], others[w], share))


def _is_learnt(word: str, inside: int, at_end: int, others: int, share: float) -> bool:
    """Whether its periods end no sentences (a letter's do), of which `share` end inside lines."""
    if word.endswith("."):
        return at_end >= MIN_COUNT and inside < at_end < others
    total = inside + at_end
    is_usual = inside > at_end if word == ORDINAL else inside >= MIN_SHARE * (total + others)
    if not is_usual or inside < MIN_COUNT or inside <= share * total:
        return False
    evidence = inside * math.log(inside / total / share)
    evidence += at_end and at_end * math.log(at_end / total / (1 - share))
    return evidence >= NATS_PER_LETTER * len(word)
