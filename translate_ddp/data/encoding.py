"""Encodes pairs of texts as token ids, in worker processes, into files of any size."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from translate_ddp.data.dataset import RaggedWriter
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.progress import Progress
from translate_ddp.runtime.workers import map_in_processes

MAX_TOKEN_CHARACTERS = 64  # a text with more of them per token than this is not encoded


@dataclass(frozen=True)
class Encoded:
    """The pairs of a batch that fit, as token ids one after another, and which ones these are."""

    tokens: tuple[np.ndarray, np.ndarray]  # of source and target
    lengths: tuple[np.ndarray, np.ndarray]  # of each pair that fits
    fits: np.ndarray  # for each pair of the batch


@dataclass(frozen=True)
class Encoder:
    """Encodes batches of pairs, in a worker process."""

    text: str  # of the tokenizer
    seq_len: int

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.text)

    def __call__(self, pairs: list[Pair]) -> Encoded:
        # Tokens of a text of 5 MB would take 1 GB.
        limit = self.seq_len * MAX_TOKEN_CHARACTERS
        is_short = np.array([max(map(len, pair)) <= limit for pair in pairs], dtype=bool)
        short = [pair if fit else ("", "") for pair, fit in zip(pairs, is_short, strict=True)]
        sides = [self._tokenizer.encode([pair[side] for pair in short]) for side in range(2)]
        lengths = [np.fromiter(map(len, side), dtype=np.int32, count=len(side)) for side in sides]
        fits = (np.maximum(*lengths) < self.seq_len) & is_short  # without end marker
        kept = [
            [row for row, fit in zip(side, fits.tolist(), strict=True) if fit] for side in sides
        ]
        tokens = [np.fromiter(chain.from_iterable(side), dtype=np.int32) for side in kept]
        return Encoded((tokens[0], tokens[1]), (lengths[0][fits], lengths[1][fits]), fits)


def encode(
    batches: Iterable[list[Pair]], total: int, encoder: Encoder, stem: Path, shown: bool
) -> np.ndarray:
    """Write the token ids of all pairs that fit; returns a mark for each pair: whether it does.

    `total` is the number of pairs. The files are `stem`.src and `stem`.tgt, as `Ragged` has them.
    """
    fits = []
    with (
        RaggedWriter(Path(f"{stem}.src")) as source,
        RaggedWriter(Path(f"{stem}.tgt")) as target,
        Progress("Encoding", total, shown=shown, leave=False) as progress,
    ):
        for encoded in map_in_processes(encoder, batches):
            source.append(encoded.tokens[0], encoded.lengths[0])
            target.append(encoded.tokens[1], encoded.lengths[1])
            fits.append(encoded.fits)
            progress.advance(len(encoded.fits))
    return np.concatenate(fits)
