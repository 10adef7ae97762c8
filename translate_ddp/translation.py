"""Translations of texts, which consist of translations of their sentences."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.modeling.engine import StoredEngine
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.text import normalize

T = TypeVar("T")
Ids = list[list[int]]
Hypotheses = list[list[Hypothesis]]
OnMessage = Callable[[int, str], None]  # of the index of a text, and a message about it


@dataclass(frozen=True)
class Sentence:
    """A sentence, or a part of a long one, with one of its translations."""

    source: str
    text: str
    tokens: list[str]  # of the translation; the last is the end of the sentence, ""
    log_probs: list[float]  # of these tokens, in nats

    @classmethod
    def scored(
        cls, engine: StoredEngine, tokenizer: Tokenizer, tag: str, parts: Ids, found: Hypotheses
    ) -> "list[list[Sentence]]":
        """The translations `found` of each part, with their text and the scores of their tokens."""
        sources = [part for part, n_best in zip(parts, found, strict=True) for _ in n_best]
        targets = [hypothesis.ids for n_best in found for hypothesis in n_best]
        texts = tokenizer.decode(sources), tokenizer.decode(targets)
        scored = (
            cls(
                source.strip().removeprefix(tag).strip(),
                normalize(target),
                [*tokenizer.pieces(ids), ""],
                p.tolist(),
            )
            for source, target, ids, p in zip(
                *texts, targets, engine.log_probs(sources, targets), strict=True
            )
        )
        return [[next(scored) for _ in n_best] for n_best in found]


@dataclass(frozen=True)
class Translation:
    """One of the translations of a text."""

    text: str
    sentences: list[Sentence]

    @property
    def score(self) -> float:
        """The mean log-probability of a token, in nats, at most 0; 0 of an empty text."""
        log_probs = [value for sentence in self.sentences for value in sentence.log_probs]
        return sum(log_probs) / max(len(log_probs), 1)


def as_warning(row: int, message: str) -> None:
    """A message of the Python API."""
    warnings.warn(f"Text {row}: {message}", stacklevel=4)  # the line that calls `translate`


def in_texts(on_done: Callable[[int], None], texts: int, parts: int) -> Callable[[int], None]:
    """A function of finished parts that calls `on_done` with their share of the texts."""
    done = 0
    if not parts:  # all texts are blank or kept
        on_done(texts)

    def parts_done(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        on_done(done * texts // parts - before * texts // parts)

    return parts_done


def by_row(
    rows: Sequence[int],
    parts: Sequence[object],
    found: Iterable[T],
    keep: Callable[[str], T],
    count: int,
) -> list[list[T]]:
    """The translations of each row's parts: of ids the next one `found`, of a text what is kept."""
    grouped: list[list[T]] = [[] for _ in range(count)]
    rest = iter(found)
    for row, part in zip(rows, parts, strict=True):
        grouped[row].append(keep(part) if isinstance(part, str) else next(rest))
    return grouped
