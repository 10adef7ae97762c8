"""Reads a corpus as training does; collects what is known of it, and lists its rows to correct."""

import csv
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, pairwise, repeat
from pathlib import Path

import numpy as np
import torch

from translate_ddp.apps.inspecting.text_statistics import TextStatistics, measure
from translate_ddp.console import print_line
from translate_ddp.data.batches import BatchLoader, Step, padding_share
from translate_ddp.data.cleaned_corpus import CleanedCorpus, Report
from translate_ddp.data.cleaning import DUPLICATE, LABELS, NEAR_DUPLICATE, NO_LABEL, REASONS
from translate_ddp.data.corpus import clean_corpus
from translate_ddp.data.dataset import Lengths, ParallelDataset, PreparedData, TrainingPairs
from translate_ddp.data.mix import Block, Mix
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.plan import StepSampler
from translate_ddp.data.preparation import Encoder, encode
from translate_ddp.data.selection import rows_with, smallest
from translate_ddp.data.tagged_corpus import TaggedCorpus
from translate_ddp.data.tokenizer import NO_EXTRA_TOKENS, UNK, Tokenizer, build_tokenizer
from translate_ddp.runtime.device import choose_device, describe_device, fix_cuda_kernels
from translate_ddp.runtime.launch import ONE_PROCESS
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config, CorpusConfig, MixConfig
from translate_ddp.training.run import build_loader, build_model, build_step
from translate_ddp.training.run_info import count_parameters, precision

SAMPLE_PAIRS = 200_000
VALIDATION_PAIRS = 10_000  # at most, in the coverage
ROW_COLUMNS = ("file", "direction", "row", "reason", "source", "target")
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")  # as SentencePiece names a byte


@dataclass(frozen=True)
class Coverage:
    """Shares of the validation text of a language."""

    unknown: float  # share of the tokens that are [UNK], or a part of a character
    unseen: float  # share of the characters that are not in the training sample
    unseen_characters: str  # the most frequent of them


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer, and the sample as its tokens."""

    tokenizer: Tokenizer
    is_trained: bool  # here, instead of read from a file
    dataset: ParallelDataset  # the pairs that fit --seq_len
    fits: np.ndarray  # for each pair of the sample
    lengths: np.ndarray  # tokens of all sentences [N pairs x 2 sides]; 0: the pair does not fit
    coverage: dict[str, Coverage]  # by language

    def tokens_per(self, units: np.ndarray, is_chosen: np.ndarray) -> float:
        """Tokens for each unit (word or character) of the marked sentences [N x 2] that fit."""
        is_chosen = is_chosen & (self.lengths > 0)
        return self.lengths[is_chosen].sum() / max(int(units[is_chosen].sum(dtype=np.int64)), 1)


@dataclass(frozen=True)
class Epoch:
    """The first epoch of one process, extended from a sample to all pairs."""

    steps: int
    tokens: int  # on both sides, end markers included
    padding: float  # share of the computed positions


@dataclass(frozen=True)
class Pace:
    """Steps that were measured."""

    tokens_per_second: float  # on both sides, end markers included
    steps: int  # measured
    parameters: int
    device: str
    precision: str


@dataclass(frozen=True)
class Inspection:
    """What is known of a corpus. Texts, vocabulary and plan are of the sample."""

    config: Config
    suggested_preset: str
    cleaned: CleanedCorpus
    strict: Report  # what --clean strict would drop of the kept pairs: nothing if it is used
    texts: TextStatistics
    vocabulary: Vocabulary
    epoch: Epoch | None  # None: no pair fits --seq_len
    pace: Pace | None  # None: not measured

    @property
    def sides(self) -> list[str]:
        """The languages of each side."""
        sides = zip(*self.cleaned.directions, strict=True)
        return [", ".join(dict.fromkeys(side)) for side in sides]

    @property
    def is_sample(self) -> bool:
        return len(self.texts) < sum(self.cleaned.sizes)

    @property
    def fit_share(self) -> float:
        """The share of the pairs that fit --seq_len."""
        return float(self.vocabulary.fits.mean())

    @property
    def training_seconds(self) -> float | None:
        """The estimated time of all epochs by one process, without validation and saving."""
        if self.pace is None or self.epoch is None:
            return None
        return self.config.train.num_epochs * self.epoch.tokens / self.pace.tokens_per_second


def inspect(
    corpus: CorpusConfig,
    settings: Callable[[int], tuple[Config, str]],
    folder: Path,
    seconds: float,
) -> Inspection:
    """Inspect a corpus; all files are written below `folder`.

    `settings` returns the settings for a number of training pairs, and the suggested preset.
    `seconds` bounds the measured training steps; 0: none. Raises UserError if the corpus cannot be
    read, or the disk is full.
    """
    cleaned = clean_corpus(corpus, folder, shown=True, labelled=True)
    config, suggested = settings(cleaned.num_kept)
    is_chosen = smallest(cleaned.records["pair"], cleaned.is_train, SAMPLE_PAIRS)
    sampled = int(is_chosen.sum())
    batches = ((part.direction, pairs) for part, pairs, _ in cleaned.batches(is_chosen))
    texts = measure(batches, sampled)
    vocabulary = build_vocabulary(cleaned, is_chosen, texts, config, folder)
    epoch = pace = None
    if len(vocabulary.dataset):
        tagged = TaggedCorpus(cleaned, corpus)
        parts = zip(tagged.blocks, cleaned.sizes, strict=True)
        blocks = [Block(*numbers, size) for numbers, size in parts]
        drawn = sum(Mix.of(config.mix.dataset_weight, blocks, corpus.mix_temperature).counts)
        fitting = round(drawn * len(vocabulary.dataset) / sampled)
        epoch = plan_first_epoch(vocabulary.dataset, fitting, config)
        pace = measure_pace(vocabulary, config, folder, seconds) if seconds else None
    return Inspection(
        config, suggested, cleaned, cleaned.strict_report(), texts, vocabulary, epoch, pace
    )


def build_vocabulary(
    corpus: CleanedCorpus,
    is_chosen: np.ndarray,
    texts: TextStatistics,
    config: Config,
    folder: Path,
) -> Vocabulary:
    """The vocabulary for the marked pairs. Nothing is written but below `folder`.

    Raises UserError if `--tokenizer_file` exists and is no tokenizer.
    """
    languages = config.corpus.languages_name
    file = config.tokenizer.file(languages)
    is_trained = file is None or not file.exists()
    settings = replace(config.tokenizer, tokenizer_file="") if is_trained else config.tokenizer
    tagged = TaggedCorpus(corpus, config.corpus)
    lines = tagged.lines(is_chosen, config.corpus.perturb)
    tokenizer = build_tokenizer(lines, settings, languages)
    encoder = Encoder(tokenizer.text, config.batches.seq_len)
    stem = folder / "sample"
    fits = encode(tagged.pairs(is_chosen), len(texts), encoder, stem, shown=True)
    dataset, lengths = ParallelDataset.open(stem), np.zeros((len(texts), 2), dtype=np.int64)
    lengths[fits] = np.stack([dataset.source.lengths, dataset.target.lengths], axis=1)
    directions = map(repeat, corpus.directions, corpus.validation_sizes)
    held_out: dict[str, list[str]] = {}
    for pair, languages in zip(corpus.validation(), chain.from_iterable(directions), strict=True):
        for text, language in zip(pair, languages, strict=True):
            held_out.setdefault(language, []).append(text)
    coverage = {
        language: _cover(held_out[language][:VALIDATION_PAIRS], tokenizer, set(counts))
        for language, counts in texts.counts.items()
    }
    return Vocabulary(tokenizer, is_trained, dataset, fits, lengths, coverage)


def _cover(lines: list[str], tokenizer: Tokenizer, seen: set[str]) -> Coverage:
    pieces = zip(tokenizer.pieces(range(len(tokenizer))), tokenizer.names, strict=True)
    is_unknown = ["\ufffd" in piece or bool(BYTE_PIECE.fullmatch(name)) for piece, name in pieces]
    is_unknown[UNK] = True
    tokens = [is_unknown[i] for row in tokenizer.encode(lines) for i in row]
    characters = Counter("".join(lines))
    unseen = Counter({char: characters[char] for char in characters if char not in seen})
    return Coverage(
        unknown=sum(tokens) / max(len(tokens), 1),
        unseen=unseen.total() / max(characters.total(), 1),
        unseen_characters="".join(char for char, _ in unseen.most_common(5)),
    )


def plan_first_epoch(dataset: ParallelDataset, pairs: int, config: Config) -> Epoch:
    """The first epoch of one process, as if the dataset were a sample of so many pairs."""
    factor = pairs / len(dataset)
    sampler = StepSampler(TrainingPairs(dataset, config.train.seed), config.batches)
    tokens = len(dataset.source.tokens) + len(dataset.target.tokens) + 2 * len(dataset)
    steps, padding = max(1, round(len(sampler.plan) * factor)), padding_share(sampler)
    return Epoch(steps, round(tokens * factor), padding)


def measure_pace(vocabulary: Vocabulary, config: Config, folder: Path, seconds: float) -> Pace:
    """The pace of training steps of one process, measured for about so many seconds.

    A step has at most the tokens of one micro-batch, so that it ends soon; the pace is per token.
    """
    fix_cuda_kernels()
    device, _ = choose_device(ONE_PROCESS, config.distributed)
    world, batches, dataset = World(device=device), config.batches, vocabulary.dataset
    size = min(batches.batch_tokens, config.micro_batch_tokens(device.type))
    config = replace(
        config,
        mix=MixConfig(),  # the sample is one dataset
        batches=replace(batches, batch_tokens=size),
        checkpoint=replace(config.checkpoint, model_folder=str(folder)),
    )
    directions, blocks = config.corpus.requested, [Block(0, 0, len(dataset))]
    facts = ModelFacts(vocabulary.tokenizer, NO_EXTRA_TOKENS, directions, 0, {}, {}, None)
    data = PreparedData(dataset, dataset, [], [], facts, {}, "", "", blocks, [], folder)
    model = build_model(config, facts, world)
    optimizer_step = build_step(config, model, world)
    loader = build_loader(config, data, world, model.dtype)
    lengths, endless = Lengths.of(dataset), _endless_steps(loader)
    print_line(f"Measuring training steps for {seconds:g} s.", sys.stderr)
    optimizer_step(next(endless), 0).loss.item()  # the first one also allocates and compiles
    began, passed, tokens, steps = time.monotonic(), 0.0, 0, 0
    while not steps or passed < seconds:
        step = next(endless)
        steps += 1
        optimizer_step(step, steps).loss.item()  # waits for the device
        tokens += int((lengths.source + lengths.target)[step.rows].sum())
        passed = time.monotonic() - began
    threads = f"the CPU with {torch.get_num_threads()} threads"
    return Pace(
        tokens / passed,
        steps,
        count_parameters(model),
        threads if device.type == "cpu" else describe_device(device),
        precision(model),
    )


def _endless_steps(loader: BatchLoader) -> Iterator[Step]:
    for epoch in count():
        loader.sampler.set_epoch(epoch)
        yield from loader


# --- rows to correct ---


def write_row_list(corpus: CleanedCorpus, path: Path) -> int:
    """Write the rows that `--clean strict` drops as TSV, with a line of names; their number.

    They are for the people who correct a corpus, which is `labelled`. Raises OSError.
    """
    labels, first = corpus.strict_labels, first_rows(corpus)
    is_listed = labels != NO_LABEL
    # With a byte order mark, without which Excel reads another encoding.
    with path.open("x", encoding="utf-8-sig", newline="\n") as file:
        table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        table.writerow(ROW_COLUMNS)
        for part, pairs, rows in corpus.batches(is_listed):
            for pair, row in zip(pairs, rows.tolist(), strict=True):
                name, number = corpus.place(row)
                reason = REASONS[labels[row] - 1]
                if row in first:
                    other, place = corpus.place(first[row])
                    reason += f" of row {place}" + f" of {other}" * (other != name)
                table.writerow([name, part.direction, number, reason, *pair])
    return int(is_listed.sum())


def first_rows(corpus: CleanedCorpus) -> dict[int, int]:
    """For each duplicate and near duplicate, the row that it repeats."""
    found: dict[int, int] = {}
    for start, end in pairwise(corpus.bounds):
        records, labels = corpus.records[start:end], corpus.strict_labels[start:end]
        for reason, column in ((DUPLICATE, "pair"), (NEAR_DUPLICATE, "near")):
            repeating = np.flatnonzero(labels == LABELS[reason])
            hashes = records[column]
            # Of equal pairs the first one may be dropped for another reason, of similar ones not.
            others = labels != LABELS[DUPLICATE] if reason == DUPLICATE else labels == NO_LABEL
            rows = rows_with(hashes, hashes[repeating], others)
            first = dict(zip(hashes[rows].tolist(), rows.tolist(), strict=True))
            for row, value in zip(repeating.tolist(), hashes[repeating].tolist(), strict=True):
                found[start + row] = start + first[value]
    return found
