"""The encoded corpus: tokenized once, stored as flat arrays that all ranks map into memory.

The name of a prepared folder has a hash of the settings and of the files that it was made from, and
one of its tokenizer, or of the settings that learn it. So later starts find it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

from translate_ddp.console import ProgressBar, counted, print_line, size
from translate_ddp.data.augmentation import count_variants, perturb_some
from translate_ddp.data.cleaned_corpus import delete_cleaned
from translate_ddp.data.corpus import CleanedCorpus, clean_corpus, corpus_signature
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.identifier import Identifier
from translate_ddp.data.model_facts import MORE_TOKENS, LengthRatios, ModelFacts
from translate_ddp.data.prepared_folder import Summary, is_usable, publish, read_summary
from translate_ddp.data.selection import parts
from translate_ddp.data.span_pairs import Lexicon, MarkedPair, SpanPairs
from translate_ddp.data.tagged_corpus import TaggedCorpus, TaggedPairs
from translate_ddp.data.tokenizer import (
    NO_EXTRA_TOKENS,
    ExtraTokens,
    Tokenizer,
    build_tokenizer,
    existing_tokenizer,
    loss_of,
)
from translate_ddp.directions import LanguagePair, languages_of
from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import SyncedFile
from translate_ddp.runtime.workers import map_in_processes
from translate_ddp.settings import CorpusConfig, TokenizerConfig

PREPARED_FORMAT = 17  # raise it with every change: corpora are then prepared again
SIDES = ("src", "tgt")
VARIANTS = "variants"  # the stem of their files; variants of one pair are adjacent
CHECKED_PAIRS = 1000  # with a tokenizer of another program
MIN_LONGEST = 20  # tokens of a longest source; shorter parts of sentences are no clauses
MAX_TOKEN_CHARACTERS = 64  # a text with more of them per token than this is not encoded


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    seq_len: int,
    folder: Path,
    shown: bool = True,
    extra: ExtraTokens = NO_EXTRA_TOKENS,
    text: str = "",
) -> Path:
    """The prepared folder below `folder`: read, tokenized and stored, unless it exists intact.

    `text` holds the tokenizer to encode with; '': the settings choose one. Pairs with more
    than `seq_len` tokens on one side, end marker included, are dropped and counted. With --perturb,
    the tokenizer is trained on perturbed sources, and the folder has several variants of each
    training pair, too. If `extra` has span tokens, training pairs have them,
    and validation pairs have none. Raises UserError if the corpus cannot be read or stored.
    """
    if not text and (file := existing_tokenizer(tokenizer, corpus.languages_name)) is not None:
        text = file.text
    inputs = [PREPARED_FORMAT, asdict(corpus), seq_len, asdict(extra)]

    def name(signature: str, end: str) -> str:
        return f"{corpus.languages_name}-{_hash([signature, inputs])}-{end}"

    signature, end = corpus_signature(corpus), _hash(text or asdict(tokenizer))
    # A learnt tokenizer has a folder named by its settings, and a text that later starts know.
    prepared = _find(folder, name(signature, "*" if text else end), text)
    if prepared is None:
        cleaned = clean_corpus(corpus, folder, shown)

        def write(partial: Path) -> tuple[Path, Summary]:
            settings = corpus, tokenizer, seq_len, shown, extra, text
            summary = _write(partial, cleaned, *settings)
            # Later starts read the file that may have been written just now, or write it again.
            last = _hash(summary["fingerprint"]) if tokenizer.tokenizer_file else end
            # The sources may have changed since they were read.
            return folder / name(cleaned.signature, last), summary

        prepared = publish(folder, write)
    delete_cleaned(folder)
    return prepared


def _find(folder: Path, pattern: str, text: str) -> Path | None:
    """The intact folder of this name, with the tokenizer of this text unless it is ''."""
    for prepared in filter(is_usable, sorted(folder.glob(pattern))):
        if not text or read_summary(prepared)["facts"]["tokenizer"] == text:
            return prepared
    return None


def _hash(inputs: Any) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:12]


def _write(
    folder: Path,
    corpus: CleanedCorpus,
    config: CorpusConfig,
    tokenizer_config: TokenizerConfig,
    seq_len: int,
    shown: bool,
    extra: ExtraTokens,
    text: str,
) -> Summary:
    """Fill the folder; returns the summary, without digests."""
    fault_point("tokenizing")
    tagged = TaggedCorpus(corpus, config)
    chosen = tagged.sample()
    lines = tagged.lines(chosen, config.perturb)
    learn = lambda: build_tokenizer(lines, tokenizer_config, config.languages_name)  # noqa: E731
    tokenizer = Tokenizer(text) if text else learn()
    tagged.tags = {pair: extra.tag(tokenizer, pair.tgt) for pair in tagged.directions}
    checked = corpus.validation()[:CHECKED_PAIRS] if text and shown else []
    if loss := loss_of(tokenizer, list(chain.from_iterable(checked))):
        print_line(loss)
    num_variants = count_variants(sum(corpus.sizes)) if config.perturb else 0
    lexicons = tagged.learn_lexicons() if extra.num_spans else None
    encoder = Encoder(tokenizer.text, seq_len, num_variants, lexicons)
    fits = _encode_splits(folder, corpus, tagged, encoder, shown)
    sizes, validation_sizes = _sizes(corpus, tagged, fits, seq_len)
    over = zip(("", " in validation"), (int((~of).sum()) for of in fits), strict=True)
    dropped = {f"over {seq_len} tokens{where}": pairs for where, pairs in over if pairs}
    train = ParallelDataset.open(folder / "train")
    facts = _learn_facts(tagged, chosen, tokenizer, extra, train, sizes)
    summary: Summary = {
        "facts": facts.to_dict(),
        "dropped": corpus.dropped | dropped,
        "blocks": [(*of, size) for of, size in zip(tagged.blocks, sizes, strict=True)],
        "validation_sizes": validation_sizes,
        "fingerprint": _fingerprint(folder / "train", tokenizer.text),
        "validation_fingerprint": _fingerprint(folder / "validation"),
    }
    if num_variants:
        summary["variants_fingerprint"] = _fingerprint(folder / VARIANTS)
        if shown:
            variants = counted(num_variants, "variant")
            on_disk = sum(file.stat().st_size for file in folder.glob(f"{VARIANTS}.*"))
            print_line(f"Augmentation: {variants} of each pair, {size(on_disk)} on disk.")
    return summary


def _encode_splits(
    folder: Path, corpus: CleanedCorpus, tagged: TaggedCorpus, encoder: "Encoder", shown: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Write the token ids of both splits and the texts of validation, which has no variants.

    Returns a mark for each pair of training, then of validation: whether it fits.
    """
    pairs, plain = corpus.validation(), replace(encoder, num_variants=0, lexicons=None)
    train, num_pairs = tagged.pairs(corpus.is_train), sum(corpus.sizes)
    fits = encode(train, num_pairs, encoder, folder / "train", shown)
    validation_fits = encode(tagged.validation(), len(pairs), plain, folder / "validation", shown)
    kept = list(compress(pairs, validation_fits.tolist()))
    for side, name in enumerate(SIDES):
        lines = "".join(f"{pair[side]}\n" for pair in kept)
        (folder / f"validation.{name}.txt").write_text(lines, encoding="utf-8")
    return fits, validation_fits


def _sizes(
    corpus: CleanedCorpus, tagged: TaggedCorpus, fits: Sequence[np.ndarray], seq_len: int
) -> tuple[list[int], list[int]]:
    """The pairs that fit, of each block of training and of each direction of validation.

    Raises UserError if a direction has none.
    """
    sizes, validation_sizes = (
        [int(part.sum()) for part in np.split(of, np.cumsum(counts)[:-1])]
        for of, counts in zip(fits, (corpus.sizes, corpus.validation_sizes), strict=True)
    )
    for number, direction in enumerate(tagged.directions):
        in_training = sum(compress(sizes, (of == number for of, _ in tagged.blocks)))
        if not (in_training and validation_sizes[number]):
            split = "validation" if in_training else "training"
            raise UserError(f"No {split} pair of {direction} fits --seq_len {seq_len}: raise it.")
    return sizes, validation_sizes


def _learn_facts(
    tagged: TaggedCorpus,
    is_chosen: np.ndarray,
    tokenizer: Tokenizer,
    extra: ExtraTokens,
    train: ParallelDataset,
    sizes: Sequence[int],
) -> ModelFacts:
    """The facts of a model that is trained on these pairs, of which each block has `sizes`."""
    identifier = None
    if extra.num_tags:
        counts_LV = tagged.count_tokens(train, sizes, len(tokenizer))
        identifier = Identifier.of(languages_of(tagged.directions), counts_LV)
    return ModelFacts(
        tokenizer,
        extra,
        tagged.directions,
        longest_source=longest_source(train.source.lengths),
        abbreviations=tagged.learn_abbreviations(is_chosen),
        length_ratios=_length_ratios(tagged, train, sizes),
        identifier=identifier,
    )


def longest_source(lengths: np.ndarray) -> int:
    """The tokens that at most one source in a thousand exceeds; at least `MIN_LONGEST`."""
    return max(MIN_LONGEST, int(np.quantile(lengths, 0.999, method="inverted_cdf")))


def _length_ratios(
    tagged: TaggedCorpus, train: ParallelDataset, sizes: Sequence[int]
) -> dict[str, LengthRatios]:
    """The ratios of each direction in the training pairs, of which each block has `sizes`."""
    ends = np.cumsum(sizes)[:-1]
    sides = (np.split(side.lengths, ends) for side in (train.source, train.target))
    found: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for (number, _), source_N, target_N in zip(tagged.blocks, *sides, strict=True):
        most, median = found.setdefault(str(tagged.directions[number]), ([], []))
        most.append((target_N / (source_N + MORE_TOKENS)).astype(np.float32))
        median.append((target_N / np.maximum(source_N, 1)).astype(np.float32))
    shares = 0.999, 0.5
    return {
        name: LengthRatios(
            *(float(np.quantile(np.concatenate(n), q)) for n, q in zip(of, shares, strict=True))
        )
        for name, of in found.items()
    }


def _fingerprint(stem: Path, text: str = "") -> str:
    """sha256 of the text and of both sides of all pairs."""
    digest = hashlib.sha256(text.encode())
    pairs = ParallelDataset.open(stem)
    for side in (pairs.source, pairs.target):
        for array in (side.offsets, side.tokens):
            for part in parts(len(array)):
                digest.update(np.ascontiguousarray(array[part]).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Encoded:
    """The pairs of a batch that fit, and which ones these are."""

    pairs: ParallelDataset
    variants: ParallelDataset | None  # only of pairs that fit; variants of one pair are adjacent
    fits: np.ndarray  # for each pair of the batch


@dataclass(frozen=True)
class Encoder:
    """Encodes batches of pairs, in a worker process."""

    text: str  # the tokenizer as a text
    seq_len: int
    num_variants: int = 0  # per pair, with perturbed sources
    lexicons: Mapping[LanguagePair, Lexicon] | None = None  # if span tokens stand for spans

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.text)

    def __call__(self, batch: TaggedPairs) -> Encoded:
        # Tokens of a text of 5 MB would take 1 GB.
        limit = self.seq_len * MAX_TOKEN_CHARACTERS
        is_short = [max(map(len, pair)) <= limit for pair in batch.pairs]
        pairs = zip(batch.pairs, is_short, strict=True)
        batch = replace(batch, pairs=[pair if fit else ("", "") for pair, fit in pairs])
        forms = self._forms(batch)
        rows = dict(enumerate(forms[0]))
        plain = [[*self._encode(side, rows, batch.prefix).values()] for side in range(2)]
        encoded = self._with_tag(plain, batch.tag)
        longest = np.maximum(encoded.source.lengths, encoded.target.lengths)  # without end marker
        fits = (longest < self.seq_len) & np.array(is_short, dtype=bool)
        kept, variants = np.flatnonzero(fits), None
        if self.num_variants:
            found = [self._variant(n, batch, forms, plain) for n in range(self.num_variants)]
            sides = [[form[side][row] for row in kept for form in found] for side in range(2)]
            variants = self._with_tag(sides, batch.tag)
        return Encoded(encoded.take(kept), variants, fits)

    def _with_tag(self, sides: list[list[list[int]]], tag: Sequence[int]) -> ParallelDataset:
        """The ids of both sides, with the tag before the sources."""
        sources, targets = sides
        return ParallelDataset(Ragged.of([*tag, *ids] for ids in sources), Ragged.of(targets))

    def _forms(self, batch: TaggedPairs) -> list[list[MarkedPair]]:
        """The pairs with their spans in the plain form and in each variant."""
        if self.lexicons is None:
            return [[MarkedPair(pair) for pair in batch.pairs]] * (1 + self.num_variants)
        lexicon = self.lexicons[batch.direction]
        spans = SpanPairs(batch.pairs, batch.direction, batch.first_row, lexicon)
        return [spans.form(number) for number in range(1 + self.num_variants)]

    def _encode(
        self, side: int, pairs: Mapping[int, MarkedPair], prefix: str
    ) -> dict[int, list[int]]:
        """The token ids of one side of these pairs, by row."""
        texts = [prefix * (side == 0) + pair.texts[side] for pair in pairs.values()]
        numbers = [pair.numbers[side] for pair in pairs.values()]
        return dict(zip(pairs, self._tokenizer.encode_marked(texts, numbers), strict=True))

    def _variant(
        self,
        number: int,
        batch: TaggedPairs,
        forms: Sequence[Sequence[MarkedPair]],
        plain: Sequence[list[list[int]]],
    ) -> list[list[list[int]]]:
        """The token ids of both sides of the pairs in the variant of this number, without tag.

        A sentence whose variant would have `seq_len` tokens or more, end marker included, is plain;
        with span tokens, which belong together, so is its translation.
        """
        marked, sides = forms[number + 1], [list(rows) for rows in plain]
        targets = {row: pair for row, pair in enumerate(marked) if pair != forms[0][row]}
        texts = [pair.texts[0] for pair in marked]
        found = perturb_some(texts, batch.direction.src, batch.first_row, number)
        sources = targets | {
            row: marked[row]._replace(texts=(text, "")) for row, text in found.items()
        }
        for side, changed in enumerate((sources, targets)):
            for row, ids in self._encode(side, changed, batch.prefix).items():
                sides[side][row] = ids
        limit = self.seq_len - len(batch.tag)
        fits = [[0 < len(ids) < limit for ids in side] for side in sides]
        if self.lexicons is not None:
            fits = [list(map(all, zip(*fits, strict=True)))] * 2
        return [
            [row if fit else before for row, fit, before in zip(*side, strict=True)]
            for side in zip(sides, fits, plain, strict=True)
        ]


def encode(
    batches: Iterable[TaggedPairs], total: int, encoder: Encoder, stem: Path, shown: bool
) -> np.ndarray:
    """Write the token ids of all pairs that fit; returns a mark for each pair: whether it does.

    `total` is the number of pairs. `ParallelDataset.open` reads the files of `stem`; of an
    encoder with variants, `VARIANTS` names further files beside them.
    """
    fits = []
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressBar("Encoding", total, shown=shown, leave=False))
        plain = stack.enter_context(PairWriter(stem))
        variants = encoder.num_variants and stack.enter_context(PairWriter(stem.parent / VARIANTS))
        for encoded in map_in_processes(encoder, batches):
            plain.append(encoded.pairs)
            if variants and encoded.variants:
                variants.append(encoded.variants)
            fits.append(encoded.fits)
            progress.advance(len(encoded.fits))
    return np.concatenate(fits)


class PairWriter:
    """Writes the files of a `ParallelDataset` in parts, so that it need not fit into memory."""

    def __init__(self, stem: Path) -> None:
        self._sides = [
            [SyncedFile(Path(f"{stem}.{side}.{part}")) for part in ("tokens", "offsets")]
            for side in SIDES
        ]
        self._lengths = [0, 0]  # tokens written of each side
        for _, offsets in self._sides:
            offsets.write(np.zeros(1, np.int64))

    def __enter__(self) -> "PairWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in chain.from_iterable(self._sides):
            file.close()

    def append(self, pairs: ParallelDataset) -> None:
        for side, rows in enumerate((pairs.source, pairs.target)):
            tokens, offsets = self._sides[side]
            offsets.write(self._lengths[side] + rows.offsets[1:])
            tokens.write(rows.tokens)
            self._lengths[side] += len(rows.tokens)
