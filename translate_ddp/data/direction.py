"""Whether pairs have their languages in the right columns, by language identification."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache
from itertools import islice
from typing import Any

from translate_ddp.data.pair_store import SAMPLE_PAIRS, Pair
from translate_ddp.data.rows import BY_POSITION, Rows
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig
from translate_ddp.text import base_language

SCANNED_CHARACTERS = 300  # of a side
# The log-odds grow with the text, but its words are not independent: those of a clear text are at
# least this value times the root of its bytes (py3langid scales its probabilities in this way).
CLEAR = math.log(9)
MIN_PAIRS = 100  # fewer do not show that columns are swapped
MIN_SHARE = 0.01  # of the pairs; single ones may look swapped by chance


@cache
def language_identifier() -> Any:
    """The model of py3langid: loaded in 0.7 s, without a network; 70 MiB until it is cleared."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


class Direction:
    """Compares texts with two languages, if py3langid knows both."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._identifier = copy(language_identifier())
        self._codes = [base_language(code) for code in languages]
        self.unknown = [code for code in self._codes if code not in self._identifier.labels]
        if not self.unknown:
            self._identifier.set_languages(self._codes)

    def lean(self, text: str) -> float:
        """The log-odds of the first language and the second; 0: one is unknown."""
        if self.unknown:
            return 0.0
        scores = dict(self._identifier.rank(text))
        return scores[self._codes[0]] - scores[self._codes[1]]

    def __call__(self, pair: Pair) -> int:
        """1 if the sides are in the languages of their columns, -1 if in each other's, else 0.

        Both sides must show it clearly.
        """
        texts = [text[:SCANNED_CHARACTERS] for text in pair]
        src, tgt = (self.lean(text) / math.sqrt(len(text.encode()) or 1) for text in texts)
        return int(src >= CLEAR and tgt <= -CLEAR) - int(tgt >= CLEAR and src <= -CLEAR)


def check_direction(config: CorpusConfig, rows: Rows, sample: Iterable[Pair]) -> list[str]:
    """A notice if the sides of these pairs of a source seem swapped or, without names, may be.

    Raises UserError if only their order tells which is the source, and it is wrong in most of 100
    pairs or more. Names of columns and files are not doubted, nor columns that the user gives.
    """
    pairs = list(islice(dict.fromkeys(sample), SAMPLE_PAIRS))
    is_by_position = BY_POSITION in rows.remarks
    if (config.src_column and config.tgt_column) or rows.name.startswith("demo:"):
        return []
    if len(pairs) < MIN_PAIRS and not is_by_position:
        return []
    (src, tgt), direction = config.languages, Direction(config.languages)
    found = Counter(map(direction, pairs))
    swapped = (
        f"{rows.name}: {found[-1]:,} of {len(pairs):,} sampled pairs have {tgt} as source and {src}"
        " as target"
    )
    if is_by_position and 2 * found[-1] > len(pairs) >= MIN_PAIRS:
        raise UserError(
            f"{swapped}. Add a first line that names the columns, {tgt} and {src}, or pass"
            " --src_column 2 --tgt_column 1, or 1 and 2 if they are right."
        )
    if found[-1] > MIN_SHARE * len(pairs):
        return [f"{swapped}. Swap their sides, or the names of the columns or files."]
    if not is_by_position or 2 * found[1] > len(pairs):
        return []
    why = f"{direction.unknown[0]} is unknown" if direction.unknown else "they are not clear"
    return [f"{rows.name} has no header: columns 1 and 2 are read as {src} and {tgt}, but {why}."]
