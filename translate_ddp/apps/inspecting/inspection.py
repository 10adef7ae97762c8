"""Reads a corpus as training does, and collects what is known of it before training."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import torch

from translate_ddp.apps.inspecting.text_statistics import TextStatistics, measure
from translate_ddp.console import Progress
from translate_ddp.data.batches import Step, padding_share
from translate_ddp.data.corpus import CleanedCorpus, NoUsablePairs, Report, clean_corpus
from translate_ddp.data.dataset import Lengths, ParallelDataset, PreparedData, TrainingPairs
from translate_ddp.data.mix import Mix
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.plan import StepSampler
from translate_ddp.data.preparation import Encoder, TaggedCorpus, encode
from translate_ddp.data.selection import smallest
from translate_ddp.data.tokenizer import UNK, Tokenizer, build_tokenizer
from translate_ddp.runtime.device import choose_device, describe_device, fix_cuda_kernels
from translate_ddp.runtime.launch import ONE_PROCESS
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config, CorpusConfig, MixConfig
from translate_ddp.training.run import build_loader, build_model, build_step

SAMPLE_PAIRS = 200_000
VALIDATION_PAIRS = 10_000  # at most, in the coverage
SIDES = range(2)
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")  # of SentencePiece
ALL_REASONS = "no pair of the dataset is left"


@dataclass(frozen=True)
class Coverage:
    """Shares of the validation text of one side."""

    unknown: float  # of tokens: [UNK], or a part of a character
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
        sentences = (self.dataset.source, self.dataset.target)[side]
        return len(sentences.tokens) / max(int(units[self.fits, side].sum(dtype=np.int64)), 1)


@dataclass(frozen=True)
class Epoch:
    """The first epoch of one process, extended from a sample to all pairs."""

    steps: int
    tokens: int  # of both sides, end markers included
    padding: float  # share of the computed positions


@dataclass(frozen=True)
class Pace:
    """Steps that were measured."""

    tokens_per_second: float  # of both sides, end markers included
    steps: int  # measured
    parameters: int
    device: str
    precision: str


@dataclass(frozen=True)
class Inspection:
    """What is known of a corpus. Texts, vocabulary and plan are those of the sample."""

    config: Config
    suggested_preset: str
    reports: list[Report]  # of each dataset, then of validation if it has a source of its own
    pairs: int  # for training
    validation_pairs: int
    strict: Report | None  # what --clean strict would drop of the kept pairs; None: it is used
    texts: TextStatistics
    vocabulary: Vocabulary
    epoch: Epoch | None  # None: no pair fits --seq_len
    pace: Pace | None  # None: not measured

    @property
    def is_sample(self) -> bool:
        return len(self.texts) < self.pairs

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
    shown: bool = True,
) -> Inspection:
    """Inspect a corpus; all files are written below `folder`.

    `settings` returns those for a number of training pairs, and the name of the suggested preset.
    `seconds` bounds the measured training steps; 0: none. Raises UserError if the corpus cannot be
    read, or the disk is full.
    """
    cleaned = clean_corpus(corpus, folder, shown, reported=False)
    pairs = sum(cleaned.sizes)
    config, suggested = settings(pairs)
    strict = strict_losses(cleaned, corpus, folder / "strict", shown)
    is_chosen = smallest(cleaned.hashes, np.asarray(cleaned.is_train), SAMPLE_PAIRS)
    sampled = int(is_chosen.sum())
    texts = measure(cleaned.batches(is_chosen), sampled, shown)
    vocabulary = build_vocabulary(cleaned, is_chosen, texts, config, folder, shown)
    epoch = pace = None
    if len(vocabulary.dataset):
        sizes = cleaned.sizes * (2 if corpus.bidirectional else 1)
        drawn = sum(Mix.of(config.mix, sizes, config.train.num_epochs).counts(0))
        fitting = round(drawn * len(vocabulary.dataset) / sampled)
        epoch = plan_first_epoch(vocabulary.dataset, fitting, config)
        pace = measure_pace(vocabulary, config, folder, seconds, shown) if seconds else None
    return Inspection(
        config,
        suggested,
        cleaned.reports,
        pairs,
        len(cleaned.validation()),
        strict,
        texts,
        vocabulary,
        epoch,
        pace,
    )


def strict_losses(
    cleaned: CleanedCorpus, config: CorpusConfig, folder: Path, shown: bool
) -> Report | None:
    """What `--clean strict` would drop of the kept pairs, all datasets together.

    None if it is used. The kept pairs of each dataset are written below `folder`, which is created,
    and are cleaned again.
    """
    if config.clean == "strict":
        return None
    folder.mkdir()
    write_pairs(folder / "validation", config.languages, [cleaned.validation()])
    config = replace(
        config,
        validation=str(folder / "validation"),
        clean="strict",
        tags=(),
        src_column="",
        tgt_column="",
    )
    number, total = np.cumsum(cleaned.is_train), Report("--clean strict")
    for end, size in zip(np.cumsum(cleaned.sizes), cleaned.sizes, strict=True):
        if not size:
            continue
        is_chosen = cleaned.is_train & (number > end - size) & (number <= end)
        path = folder / f"dataset-{end}"
        write_pairs(path, config.languages, cleaned.batches(is_chosen))
        try:
            kept = clean_corpus(
                replace(config, dataset=(str(path),)), folder, shown, reported=False
            )
            report = kept.reports[0]
        except NoUsablePairs:
            report = Report("", size, dropped={ALL_REASONS: size}, examples={ALL_REASONS: []})
        total.rows += size
        for reason, dropped in report.dropped.items():
            total.drop(reason, dropped, report.examples[reason])
    return total


def write_pairs(path: Path, languages: tuple[str, str], batches: Iterable[list[Pair]]) -> None:
    """Write parallel files, `path.en` and `path.de`."""
    with (
        open(f"{path}.{languages[0]}", "w", encoding="utf-8") as sources,
        open(f"{path}.{languages[1]}", "w", encoding="utf-8") as targets,
    ):
        for batch in batches:
            sources.writelines(f"{source}\n" for source, _ in batch)
            targets.writelines(f"{target}\n" for _, target in batch)


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
    dataset = ParallelDataset.open(stem)
    validation = corpus.validation()[:VALIDATION_PAIRS]
    source, target = (
        _cover([pair[side] for pair in validation], tokenizer, set(texts.counts[side]))
        for side in SIDES
    )
    return Vocabulary(tokenizer, is_trained, dataset, fits, (source, target))


def _cover(lines: list[str], tokenizer: Tokenizer, seen: set[str]) -> Coverage:
    ids = np.concatenate([np.array(row, dtype=np.int64) for row in tokenizer.encode(lines)])
    pieces, names = tokenizer.pieces(range(len(tokenizer))), tokenizer.names
    is_unknown = np.array(
        [
            "\ufffd" in piece or BYTE_PIECE.fullmatch(name) is not None
            for piece, name in zip(pieces, names, strict=True)
        ]
    )
    is_unknown[UNK] = True
    characters = Counter("".join(lines))
    unseen = Counter({char: characters[char] for char in characters if char not in seen})
    return Coverage(
        unknown=float(is_unknown[ids].mean()) if len(ids) else 0.0,
        unseen=unseen.total() / max(characters.total(), 1),
        unseen_characters="".join(char for char, _ in unseen.most_common(10)),
    )


def plan_first_epoch(dataset: ParallelDataset, pairs: int, config: Config) -> Epoch:
    """The first epoch of one process, as if the dataset were a sample of so many pairs."""
    factor = pairs / len(dataset)
    sampler = StepSampler(TrainingPairs(dataset, config.train.seed), config.batches)
    tokens = len(dataset.source.tokens) + len(dataset.target.tokens) + 2 * len(dataset)
    steps, padding = max(1, round(len(sampler.plan) * factor)), padding_share(sampler)
    return Epoch(steps, round(tokens * factor), padding)


def measure_pace(
    vocabulary: Vocabulary, config: Config, folder: Path, seconds: float, shown: bool
) -> Pace:
    """The pace of training steps of one process, measured for about so many seconds.

    A step has at most the tokens of one micro-batch, so that it ends soon; the pace is per token.
    """
    fix_cuda_kernels()
    device, _ = choose_device(ONE_PROCESS, config.distributed)
    world, batches = World(device=device), config.batches
    size = min(batches.batch_tokens, config.micro_batch_tokens(device.type))
    config = replace(
        config,
        mix=MixConfig(),  # the sample is one dataset
        batches=replace(batches, batch_tokens=size),
        checkpoint=replace(config.checkpoint, model_folder=str(folder)),
    )
    dataset = vocabulary.dataset
    sizes = [len(dataset)]
    data = PreparedData(dataset, dataset, [], [], vocabulary.tokenizer, {}, "", "", sizes, folder)
    model = build_model(config, data, world)
    optimizer_step = build_step(config, model, world)
    lengths, tokens, steps = Lengths.of(dataset), 0, 0
    passed, total = 0.0, max(round(seconds), 1)
    with Progress("Seconds of training steps", total, shown=shown, leave=False) as progress:
        endless = _endless_steps(config, data, world)
        optimizer_step(next(endless), 0).loss.item()  # the first one also allocates and compiles
        began = time.monotonic()
        while not steps or passed < seconds:
            step = next(endless)
            steps += 1
            optimizer_step(step, steps).loss.item()  # waits for the device
            tokens += int((lengths.source + lengths.target)[step.rows].sum())
            passed = time.monotonic() - began
            progress.advance(min(int(passed), total) - int(progress.n))
    threads = f"the CPU with {torch.get_num_threads()} threads"
    return Pace(
        tokens / passed,
        steps,
        sum(parameter.numel() for parameter in model.parameters()),
        threads if device.type == "cpu" else describe_device(device),
        "bf16" if model.dtype == torch.bfloat16 else "fp32",
    )


def _endless_steps(config: Config, data: PreparedData, world: World) -> Iterator[Step]:
    loader = build_loader(config, data, world)
    for epoch in count():
        loader.sampler.set_epoch(epoch)
        yield from loader
