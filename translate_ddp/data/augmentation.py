"""The training pairs of a step as the model sees them in one epoch.

Both changes are a pure function of seed, epoch and row: they do not depend on ranks, passes or on
where a run was resumed. Validation and translation use neither.

Axes: N rows, C draws of a row, K cases, V tokens of the vocabulary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.perturbation import CASE_ENDS, CASES, RATES_C, TYPOS, draw, perturb
from translate_ddp.data.plan import Lengths
from translate_ddp.data.subword_dropout import SubwordDropout
from translate_ddp.data.tokenizer import UNK, Tokenizer

SOURCE, TARGET = range(2)

ROWS_AT_ONCE = 1 << 17  # bounds the memory
TYPO_TOKENS = 3  # that typos add to a sentence: usually 0 to 4


@dataclass(frozen=True)
class Perturbation:
    """Perturbs some of the source sentences, others in each epoch."""

    tokenizer: Tokenizer
    seq_len: int
    seed: int
    languages: Mapping[str, str]  # of sources, by the tags before them, which stay as they are

    @cached_property
    def _decoded_tags(self) -> dict[str, str]:
        """`languages` by the tags as the tokenizer decodes them, which may change them."""
        decoded = self.tokenizer.decode(self.tokenizer.encode(list(self.languages)))
        tags = [text and f"{text.rstrip()} " for text in decoded]
        return dict(zip(tags, self.languages.values(), strict=True))

    def apply(self, source: Ragged, rows: np.ndarray, epoch: int) -> dict[int, list[int]]:
        """The new token ids of the perturbed ones of `source`, by their place in it.

        `rows` are their rows in the training set. A sentence that would be longer than `seq_len`
        is left out, and so is one with [UNK], whose text is not known.
        """
        draws_NC, keys = draw(self.seed, epoch, rows)
        places = np.flatnonzero((draws_NC < RATES_C).any(axis=1)).tolist()
        places = [place for place in places if UNK not in source[place]]
        texts = self.tokenizer.decode([source[place].tolist() for place in places])
        changed = []
        for place, text in zip(places, texts, strict=True):
            tags = max(filter(text.startswith, self._decoded_tags), key=len, default="")
            rest, language = text[len(tags) :], self._decoded_tags.get(tags, "")
            changed.append(tags + perturb(rest, draws_NC[place], int(keys[place]), language))
        encoded = self.tokenizer.encode(changed)
        return {
            place: ids
            for place, ids in zip(places, encoded, strict=True)
            if 0 < len(ids) < self.seq_len  # without end marker
        }

    def lengths(self, source: Ragged, before: Lengths, epoch: int) -> Lengths:
        """The lengths of the training set in an epoch, those of perturbed sources estimated.

        Exact lengths would need all perturbed text in advance. `source` are all sources as they
        are, `before` has the lengths of those that are not perturbed.
        """
        found = before.source.copy()
        for rows in blocks(len(source)):
            draws_NC, _ = draw(self.seed, epoch, rows)
            case_N, _, typos_N, _ = draws_NC.T
            kinds_N = np.searchsorted(CASE_ENDS, case_N, side="right")
            for kind, lengths_V in enumerate(self._lengths_KV):
                chosen = rows[kinds_N == kind]
                changed = source.take(chosen)
                ends = np.concatenate([[0], np.cumsum(lengths_V[changed.tokens])])
                found[chosen] = np.diff(ends[changed.offsets]) + 1
            found[rows[typos_N < TYPOS]] += TYPO_TOKENS
        found = np.where(found <= self.seq_len, found, before.source)
        return Lengths(found, before.target)

    @cached_property
    def _lengths_KV(self) -> np.ndarray:
        """How many tokens each token of the vocabulary becomes in each of the `CASES`."""
        pieces = self.tokenizer.pieces(range(len(self.tokenizer)))
        lengths_KV = np.ones((len(CASES), len(pieces)), dtype=np.int64)
        for lengths_V, change in zip(lengths_KV, CASES, strict=True):
            changed = [change(piece, "") for piece in pieces]
            differ = [n for n, piece in enumerate(pieces) if changed[n] != piece]
            # After a mark, the first letters of a piece have no other blank than its own.
            encoded = self.tokenizer.encode([".", *(f".{changed[n]}" for n in differ)])
            lengths_V[differ] = [len(ids) - len(encoded[0]) for ids in encoded[1:]]
        return lengths_KV


@dataclass(frozen=True)
class Augmentation:
    """The changes of training pairs in each epoch, of which at least one is not None."""

    perturbation: Perturbation | None
    dropout: SubwordDropout | None

    def apply(self, pairs: ParallelDataset, rows: np.ndarray, epoch: int) -> ParallelDataset:
        """`pairs`, which are these rows of the training set, in another form.

        A perturbed source is segmented plainly.
        """
        source, target = pairs.source, pairs.target
        if self.dropout is not None:
            source = self.dropout.segment(SOURCE, rows, epoch)
            target = self.dropout.segment(TARGET, rows, epoch)
        if self.perturbation is not None:
            changed = self.perturbation.apply(pairs.source, rows, epoch)
            source = Ragged.of(changed.get(n, source[n]) for n in range(len(source)))
        return ParallelDataset(source, target)

    def lengths(self, pairs: ParallelDataset, epoch: int) -> Lengths:
        """About the lengths in an epoch, end markers included, of `pairs`: the training set."""
        found = Lengths.of(pairs)
        if self.dropout is not None:
            for side, lengths in ((SOURCE, found.source), (TARGET, found.target)):
                for rows in blocks(len(pairs)):
                    lengths[rows] = self.dropout.lengths(side, rows, epoch) + 1
        if self.perturbation is not None:
            found = self.perturbation.lengths(pairs.source, found, epoch)
        return found

    def target_lengths(self, lengths: np.ndarray, rows: np.ndarray, epoch: int) -> np.ndarray:
        """Tokens of the targets that `apply` returns for these rows, end marker included.

        `lengths` are those of the unchanged ones.
        """
        if self.dropout is None:
            return lengths
        return self.dropout.lengths(TARGET, rows, epoch) + 1


def blocks(count: int) -> Iterator[np.ndarray]:
    """The rows from 0 to `count`, at most `ROWS_AT_ONCE` at once."""
    for first in range(0, count, ROWS_AT_ONCE):
        yield np.arange(first, min(first + ROWS_AT_ONCE, count))
