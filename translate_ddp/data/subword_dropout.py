"""Other segmentations of the words of the training set in each epoch (BPE-dropout).

Words (the tokenizer's pre-tokens) are segmented at preparation: each word type several times, with
dropped merges. A step only chooses among them, by a hash, so that it costs little and a resumed
run chooses the same.

Axes: N words, L letters or tokens of a word.
"""

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from translate_ddp.data.dataset import PreparedData, Ragged, RaggedWriter, load_prepared, save_array
from translate_ddp.data.hashing import hashes
from translate_ddp.data.json_model import open_json
from translate_ddp.data.merges import MAX_LETTERS, Merges
from translate_ddp.data.prepared_folder import Summary, is_usable, publish, read_summary
from translate_ddp.data.selection import parts
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError
from translate_ddp.runtime.long_calls import heartbeat

FORMAT = 1  # of the stored segmentations; raise it with every change
VARIANTS = 16  # segmentations of a word type, beside the plain one
MAX_TYPES = 65_536  # the most frequent types have variants
LETTERS_AT_ONCE = 1_000_000
ROWS_AT_ONCE = 1000
SIDES = ("src", "tgt")
SALT = 0x64726F70  # keeps the draws apart from those of other modules


class SubwordDropout:
    """The training pairs in segmentations that are a pure function of seed, epoch and row."""

    def __init__(self, folder: Path, seq_len: int, seed: int) -> None:
        """Map the folder of `prepare_dropout` into memory."""
        self._segmentations = Ragged.open(folder / "segmentations")
        self._lengths = self._segmentations.lengths
        # Segmentation i is the plain one of type i; its variants begin at first[i], if it has any.
        self._first = np.load(folder / "first.npy", allow_pickle=False)
        self._words = [Ragged.open(folder / f"{side}.words") for side in SIDES]
        self._seq_len, self._seed = seq_len, seed

    def segment(self, side: int, rows: np.ndarray, epoch: int) -> Ragged:
        """The rows of the source (0) or target (1), in the segmentations of this epoch."""
        chosen, offsets = self._choose(side, rows, epoch)
        return Ragged(self._segmentations.take(chosen).tokens, offsets)

    def lengths(self, side: int, rows: np.ndarray, epoch: int) -> np.ndarray:
        """Tokens of each of the rows that `segment` returns."""
        return np.diff(self._choose(side, rows, epoch)[1])

    def _choose(self, side: int, rows: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The segmentation of each word of the rows, and the offsets of the rows in tokens.

        A row that would be longer than `seq_len` is segmented plainly.
        """
        words = self._words[side]
        positions, offsets = words.positions(rows)
        types = words.tokens[positions].astype(np.int64)
        variants = hashes(SALT, self._seed, epoch, side, positions) % np.uint64(VARIANTS)
        first = self._first[types]
        chosen = np.where(first < 0, types, first + variants.astype(np.int64))
        too_long = np.diff(self._token_offsets(chosen, offsets)) >= self._seq_len
        chosen = np.where(np.repeat(too_long, np.diff(offsets)), types, chosen)
        return chosen, self._token_offsets(chosen, offsets)

    def _token_offsets(self, chosen: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self._lengths[chosen])])[offsets]


def prepare_dropout(prepared: Path, probability: float) -> Path:
    """The folder of the segmentations of a prepared corpus; written unless it exists intact.

    Raises UserError if the tokenizer is not BPE or loses text, or the disk is full.
    """
    folder = dropout_folder(prepared, probability)
    if is_usable(folder):
        return folder
    return publish(
        prepared, lambda partial: (folder, _write(partial, load_prepared(prepared), probability))
    )


def dropout_folder(prepared: Path, probability: float) -> Path:
    """Where `prepare_dropout` stores the segmentations: inside the prepared corpus."""
    return prepared / f"bpe_dropout_{probability}_v{FORMAT}"


def dropout_fingerprint(folder: Path) -> str:
    """sha256 of all segmentations."""
    return read_summary(folder)["fingerprint"]


def _write(folder: Path, data: PreparedData, probability: float) -> Summary:
    """Fill the folder; returns the summary, without digests."""
    try:
        merges = Merges(data.tokenizer.text)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            "--bpe_dropout needs a BPE tokenizer, but this one has no merges."
        ) from error
    types: dict[bytes, int] = {}  # the token ids of a word -> its type
    sides = (data.train.source, data.train.target)
    for name, rows in zip(SIDES, sides, strict=True):
        with RaggedWriter(folder / f"{name}.words") as writer:
            for found, lengths in _word_types(rows, data.tokenizer, types):
                writer.append(found, lengths)
    words = [Ragged.open(folder / f"{name}.words") for name in SIDES]
    plain = Ragged.of(np.frombuffer(word, dtype=np.int32) for word in types)
    counts, digest = np.zeros(len(types), dtype=np.int64), hashlib.sha256()
    for tokens in (side.tokens for side in words):
        for part in parts(len(tokens)):
            counts += np.bincount(tokens[part], minlength=len(types))
            digest.update(np.ascontiguousarray(tokens[part]).data)
    most_frequent = np.argsort(-counts, kind="stable")[:MAX_TYPES]
    segmentations, first = _segment_types(plain, most_frequent, merges, probability)
    segmentations.save(folder / "segmentations")
    save_array(folder / "first.npy", first)
    for array in (segmentations.tokens, segmentations.offsets, first):
        digest.update(array.data)
    return {"types": len(types), "fingerprint": digest.hexdigest()}


def _word_types(
    rows: Ragged, tokenizer: Tokenizer, types: dict[bytes, int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The types of the words of some rows, and the words of each row. New types go to `types`.

    Raises UserError if the tokenizer does not encode the rows' text to the same ids.
    """
    model = open_json(tokenizer.text)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        heartbeat()
        part = rows.take(range(start, min(start + ROWS_AT_ONCE, len(rows))))
        texts = tokenizer.decode([part[row].tolist() for row in range(len(part))])
        encoded = model.encode_batch(texts, add_special_tokens=False)
        if not np.array_equal([i for row in encoded for i in row.ids], part.tokens):
            raise UserError(
                "--bpe_dropout needs a tokenizer that brings text back exactly, which that of "
                "--tokenizer_file does not: leave bpe_dropout at 0, or pass another file."
            )
        rows_of = np.repeat(np.arange(len(part)), part.lengths)
        # As floats, None becomes NaN: a token outside of words is one of its own.
        words_of = np.array([word for row in encoded for word in row.word_ids], dtype=float)
        begins = np.ones(len(rows_of) + 1, dtype=bool)
        begins[1:-1] = (rows_of[1:] != rows_of[:-1]) | (words_of[1:] != words_of[:-1])
        bounds = np.flatnonzero(begins)
        ids = part.tokens.tobytes()
        found = [
            types.setdefault(ids[4 * begin : 4 * end], len(types))
            for begin, end in pairwise(bounds.tolist())
        ]
        counts = np.bincount(rows_of[bounds[:-1]], minlength=len(part))
        yield np.array(found, dtype=np.int32), counts


def _segment_types(
    plain: Ragged, types: np.ndarray, merges: Merges, probability: float
) -> tuple[Ragged, np.ndarray]:
    """The plain segmentations, then `VARIANTS` of each of these types; and where they begin.

    That is -1 for a type without variants: too long, or not segmented by merges alone.
    """
    random = np.random.default_rng(0)  # not the seed of the run: runs share the result
    first = np.full(len(plain), -1)
    parts, count = [plain], len(plain)
    for chosen, words_NL in _letters(plain, types, merges):
        heartbeat()
        unchanged = _unpadded(merges.segment(words_NL, 0.0, random), merges.padding)
        kept = [np.array_equal(unchanged[n], plain[t]) for n, t in enumerate(chosen.tolist())]
        drawn_NL = np.repeat(words_NL[kept], VARIANTS, axis=0)
        drawn_NL = merges.segment(drawn_NL, probability, random)
        first[chosen[kept]] = count + np.arange(sum(kept)) * VARIANTS
        parts.append(_unpadded(drawn_NL, merges.padding))
        count += len(drawn_NL)
    if count == len(plain):
        raise UserError("--bpe_dropout cannot be used: no word is segmented by the merges alone.")
    lengths = np.concatenate([part.lengths for part in parts])
    tokens = np.concatenate([part.tokens for part in parts])
    return Ragged(tokens, np.concatenate([[0], np.cumsum(lengths)])), first


def _letters(
    plain: Ragged, types: np.ndarray, merges: Merges
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of word types with the same number of letters, and their letters."""
    letters = {word_type: merges.letters(plain[word_type]) for word_type in types.tolist()}
    for length in range(2, MAX_LETTERS + 1):
        same = [word_type for word_type, found in letters.items() if len(found) == length]
        size = LETTERS_AT_ONCE // (length * VARIANTS)
        for start in range(0, len(same), size):
            group = same[start : start + size]
            yield np.array(group), np.array([letters[word_type] for word_type in group])


def _unpadded(words_NL: np.ndarray, padding: int) -> Ragged:
    real_NL = words_NL != padding
    offsets = np.concatenate([[0], np.cumsum(real_NL.sum(axis=1))])
    return Ragged(words_NL[real_NL].astype(np.int32), offsets)
