"""Translations of texts, which consist of translations of their sentences."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
OnMessage = Callable[[int, str], None]  # of the index of a text, and a message about it


@dataclass(frozen=True)
class Sentence:
    """A sentence, or a part of a long one, with one of its translations."""

    source: str
    text: str
    tokens: list[str]  # of the translation; the last is the end of the sentence, ""
    log_probs: list[float]  # of these tokens, in nats


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
    if not parts:  # all texts are blank
        on_done(texts)

    def parts_done(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        on_done(done * texts // parts - before * texts // parts)

    return parts_done


def by_row(rows: Sequence[int], values: Sequence[T], count: int) -> list[list[T]]:
    """The values of each of `count` rows, in order; `rows` has the row of each value."""
    grouped: list[list[T]] = [[] for _ in range(count)]
    for row, value in zip(rows, values, strict=True):
        grouped[row].append(value)
    return grouped
