"""Which of a model's own languages a text is in, learnt from the model's own training text."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# This many tokens are added to the counts of each language, distributed as in the average of all
# languages: little text does not show that a token is missing. A constant for each token would
# make the tokens that two languages lack more probable in the one with less text.
PRIOR_TOKENS = 500
# This share of the tokens of a text comes from the same average: names, citations, words of other
# languages. So no token excludes a language, however much of its text lacks it.
FOREIGN = 0.05
ABSENT = 1e-30  # the probability of each token in a language without text: it is never the answer
MAX_REPEATS = 3  # counted per token of a text: a translation that loops is not decided by its loop
CHUNK = 2**24  # tokens: a count in one piece would copy the whole corpus as int64


def count_tokens(ids: np.ndarray, vocab_size: int) -> np.ndarray:
    """How often each id below `vocab_size` is among the `ids` [V]; larger ones are ignored."""
    counts_V = np.zeros(vocab_size, dtype=np.int64)
    for first in range(0, len(ids), CHUNK):
        chunk = ids[first : first + CHUNK]
        counts_V += np.bincount(chunk, minlength=vocab_size)[:vocab_size]
    return counts_V


@dataclass(frozen=True)
class Identifier:
    """Naive Bayes over token ids; all languages are equally probable before the text is read."""

    languages: tuple[str, ...]  # as the run writes them, each once
    log_probs_LV: np.ndarray  # float16; of a token in no training text: 0 in all languages

    @classmethod
    def of(cls, languages: Sequence[str], counts_LV: np.ndarray) -> "Identifier":
        """From how often each token stands in the training text of each language [L, V]."""
        assert len({*languages}) == len(languages) == len(counts_LV)
        counts_LV = np.asarray(counts_LV, dtype=np.float64)
        totals_L1 = counts_LV.sum(axis=1, keepdims=True)
        average_V = (counts_LV / np.maximum(totals_L1, 1)).mean(axis=0)
        own_LV = (counts_LV + PRIOR_TOKENS * average_V) / (totals_L1 + PRIOR_TOKENS)
        probs_LV = np.where(totals_L1 > 0, own_LV * (1 - FOREIGN) + average_V * FOREIGN, ABSENT)
        probs_LV[:, average_V == 0] = 1
        return cls(tuple(languages), np.log(probs_LV).astype(np.float16))

    def identify(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """The most probable language of each text, given its token ids.

        "" if no token of the text is in the training text of a language.
        """
        scores = map(self._score, texts)
        return [self.languages[scores_L.argmax()] if known else "" for scores_L, known in scores]

    def probabilities(self, ids: Sequence[int]) -> dict[str, float]:
        """The probability of each language for one text; all are equal if no token is known.

        The tokens of a text are not independent, and naive Bayes is too certain of long texts.
        With log-odds divided by the fourth root of the number of tokens, the probability of the
        answer was within 0.01 of the share of right answers for phrases and for sentences.
        """
        scores_L, known = self._score(ids)
        probs_L = np.exp((scores_L - scores_L.max()) / max(known, 1) ** 0.25)
        return dict(zip(self.languages, (probs_L / probs_L.sum()).tolist(), strict=True))

    def _score(self, ids: Sequence[int]) -> tuple[np.ndarray, int]:
        """The log-likelihood of a text in each language [L], and how many tokens were counted."""
        all_ids = np.asarray(ids, dtype=np.int64)
        in_vocabulary = all_ids[all_ids < self.log_probs_LV.shape[1]]
        found_N, counts_N = np.unique(in_vocabulary, return_counts=True)
        counts_N = np.minimum(counts_N, MAX_REPEATS)
        log_probs_LN = self.log_probs_LV[:, found_N]
        # The products are float64, in which their sum is exact: in any order, on every machine.
        return (log_probs_LN * counts_N).sum(axis=1), int(counts_N[log_probs_LN[0] < 0].sum())

    def to_dict(self) -> dict[str, Any]:
        """The languages, and the bytes of the float16 values in base64."""
        content = self.log_probs_LV.astype("<f2").tobytes()
        values = base64.b64encode(content).decode()
        return {"languages": list(self.languages), "log_probs_LV": values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Identifier":
        """From the dict that `to_dict` made."""
        languages, content = tuple(values["languages"]), base64.b64decode(values["log_probs_LV"])
        return cls(languages, np.frombuffer(content, "<f2").reshape(len(languages), -1))
