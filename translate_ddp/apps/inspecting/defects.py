"""Defects of text that a pattern shows: markup, wrong encodings, private characters.

It imports little, because every worker process imports it.
"""

import html.entities
import re
from dataclasses import dataclass

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
