"""The vocabulary of a corpus: a sample as tokens, and how well the vocabulary covers validation."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from translate_ddp.apps.inspecting.text_statistics import TextStatistics
from translate_ddp.data.corpus import CleanedCorpus
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.encoding import Encoder, encode
from translate_ddp.data.tagging import TaggedCorpus
from translate_ddp.data.tokenizer import UNK, Tokenizer, build_tokenizer
from translate_ddp.settings import Config

SIDES = range(2)
VALIDATION_PAIRS = 10_000  # at most, in the coverage
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")  # of SentencePiece


@dataclass(frozen=True)
class Coverage:
    """Shares of the validation text of one side."""

    unknown: float  # of tokens: [UNK]
    bytes: float  # of tokens: a part of a character
    unseen: float  # of characters: not in the training sample
    unseen_characters: str  # the most frequent of them


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer, and the sample as its tokens."""

    tokenizer: Tokenizer
    is_trained: bool  # here, instead of read from a file
    dataset: ParallelDataset  # the pairs that fit --seq_len
    fits: np.ndarray  # for each pair of the sample
    coverage: tuple[Coverage, Coverage]

    def tokens_per(self, units: np.ndarray, side: int) -> float:
        """Tokens for each of the units (words or characters), given their number per pair.

        Sources are counted with their tags.
        """
        rows = (self.dataset.source, self.dataset.target)[side]
        return len(rows.tokens) / max(int(units[self.fits, side].sum(dtype=np.int64)), 1)


def build_vocabulary(
    corpus: CleanedCorpus,
    is_chosen: np.ndarray,
    texts: TextStatistics,
    config: Config,
    folder: Path,
    shown: bool,
) -> Vocabulary:
    """The vocabulary for the marked pairs. Nothing is written but below `folder`.

    Raises UserError if `--tokenizer_file` exists and is no tokenizer.
    """
    languages = config.corpus.language_pair
    file = config.tokenizer.file(languages)
    is_trained = file is None or not file.exists()
    settings = replace(config.tokenizer, tokenizer_file="") if is_trained else config.tokenizer
    tagged = TaggedCorpus(corpus, config.corpus)
    lines = tagged.lines(is_chosen, config.augment.perturb)
    tokenizer = build_tokenizer(lines, settings, languages)
    encoder = Encoder(tokenizer.text, config.batches.seq_len)
    stem = folder / "sample"
    fits = encode(tagged.pairs(is_chosen), len(texts), encoder, stem, shown)
    dataset = ParallelDataset(*(Ragged.open(Path(f"{stem}.{side}")) for side in ("src", "tgt")))
    validation = corpus.validation()[:VALIDATION_PAIRS]
    source, target = (
        _cover([pair[side] for pair in validation], tokenizer, set(texts.counts[side]))
        for side in SIDES
    )
    return Vocabulary(tokenizer, is_trained, dataset, fits, (source, target))


def _cover(lines: list[str], tokenizer: Tokenizer, seen: set[str]) -> Coverage:
    ids = np.concatenate([np.array(row, dtype=np.int64) for row in tokenizer.encode(lines)])
    counts = np.bincount(ids, minlength=len(tokenizer))
    pieces, names = tokenizer.pieces(range(len(tokenizer))), tokenizer.names
    is_part = [
        "\ufffd" in piece or BYTE_PIECE.fullmatch(name) is not None
        for piece, name in zip(pieces, names, strict=True)
    ]
    unseen = Counter(character for line in lines for character in line if character not in seen)
    frequent = sorted(unseen, key=lambda character: (-unseen[character], character))
    return Coverage(
        unknown=counts[UNK] / max(len(ids), 1),
        bytes=float(counts[np.array(is_part)].sum()) / max(len(ids), 1),
        unseen=unseen.total() / max(sum(map(len, lines)), 1),
        unseen_characters="".join(frequent[:10]),
    )
