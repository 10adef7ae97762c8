"""What all exports share: the trained model, its comparison with the exported one, its card."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, cycle, groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from translate_ddp import __version__
from translate_ddp.console import counted
from translate_ddp.data.dataset import find_prepared
from translate_ddp.data.inputs import read_given_pairs, read_texts
from translate_ddp.data.languages import language_name
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.readers.corpus_files import is_table
from translate_ddp.directions import LanguagePair, languages_of
from translate_ddp.errors import UserError
from translate_ddp.modeling.engine import Engine, Ids, TorchEngine, length_limit
from translate_ddp.modeling.search_options import GREEDY
from translate_ddp.settings import ModelConfig
from translate_ddp.text import direction_tag, normalize
from translate_ddp.training.identity import public_name
from translate_ddp.training.metrics import bleu_signature, compare_systems, score_texts, with_units
from translate_ddp.training.open_checkpoint import saved_model
from translate_ddp.training.run_info import describe_sizes
from translate_ddp.training.state import RunState
from translate_ddp.training.validation import validation_rows

MIN_POSITIONS = 1025  # CTranslate2 truncates its sources to 1,024 tokens unless asked for more
RANDOM_SENTENCES, RANDOM_TOKENS, LONGEST_PAIRS = 200, 40, 2
TOLERANCE = 1e-4  # largest difference of a log-probability, in nats
MAX_OTHER_TRANSLATIONS = 0.01  # share; one may always differ
MAX_BLEU_LOSS = 0.5  # for a model whose arithmetic is not fp32
CHANCE = 0.05  # p-value from which a larger loss may be one, as on a few sentences
# In nats per token: `small` in int8 differs by 0.007 to 0.015 (Multi30k, MAFAND's Setswana), by
# 0.09 to 0.12 on CPUs without VNNI, whose sums of int8 saturate, with the same BLEU (20.9 and
# 21.0); with a wrong scale by up to 1.5.
MAX_MEAN_DIFFERENCE = 0.2

REQUIREMENTS = "requirements-export.txt"

Translations = list[list[int]]


@dataclass(frozen=True)
class TrainedModel:
    """A checkpoint as what an export needs of it: weights, sizes, facts."""

    state: RunState
    shape: ModelConfig

    @classmethod
    def of(cls, state: RunState) -> "TrainedModel":
        return cls(state, ModelConfig(**state.run.config["model"]))

    def engine(self) -> TorchEngine:
        """The model in fp32 on the CPU."""
        return TorchEngine(saved_model(self.state), torch.device("cpu"))

    @property
    def config(self) -> dict[str, dict[str, Any]]:
        return self.state.run.config

    @property
    def facts(self) -> ModelFacts:
        return self.state.facts

    @property
    def seq_len(self) -> int:
        """Maximum tokens of a sentence, [EOS] included, in the training or that of --init_from."""
        return max(self.config["batches"]["seq_len"], self.facts.longest_source + 1)

    @property
    def positions(self) -> int:
        """Maximum tokens of a side in formats that store a table of positions."""
        return max(MIN_POSITIONS, length_limit(self.seq_len) + 1)

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.state.model.values())

    @property
    def data(self) -> str:
        """The start of the fingerprint of the training data."""
        return self.state.run.identity.data_fingerprints[0]


@dataclass(frozen=True)
class Sentences:
    """The sentences on which an exported model is compared with its checkpoint, as token ids."""

    description: str
    sources: Ids
    targets: Ids  # whose log-probabilities are compared; empty: the model's own translations
    source_texts: list[str]  # empty if the sentences are random
    references: list[str]  # empty: there are none
    sizes: Mapping[LanguagePair, int]  # sentences by direction, in this order; empty: random
    longest: tuple[Ids, Ids] = ((), ())  # random pairs as long as the model computes

    def by_direction(self, *columns: Sequence[Any]) -> Iterator[tuple[LanguagePair, list[Any]]]:
        """Each direction with its part of each of these columns."""
        end = 0
        for direction, size in self.sizes.items():
            start, end = end, end + size
            yield direction, [column[start:end] for column in columns]


def choose_sentences(model: TrainedModel, source: str, reference: str, folder: Path) -> Sentences:
    """The texts of the files, else the validation set in the run's folder, else random ids.

    Of several directions, every n-th sentence of each. `source` and `reference` are filled with the
    languages of each direction; a file of several is read for the first one. Raises UserError if a
    file cannot be read, if the numbers of lines differ, or if a sentence is too long for formats
    that store a table of positions.
    """
    if source:
        found = _from_files(model, source, reference)
    else:
        found = _prepared(model, folder / "data") or _random(model)
    length = model.seq_len - 1  # all positions of a format are compared
    lengths = [length] * LONGEST_PAIRS, [length_limit(length)] * LONGEST_PAIRS
    return replace(found, longest=_random_pairs(model, 1, *lengths))


def _from_files(model: TrainedModel, source: str, reference: str) -> Sentences:
    """The texts of the files, in any format of training; a table also has the references."""
    directions, tokenizer = model.facts.directions, model.facts.tokenizer
    named = {(each.fill(source), each.fill(reference)): each for each in reversed(directions)}
    # Of en-{tgt}, there is none for the directions into English.
    files = {names: each for names, each in named.items() if Path(names[0]).exists()} or named
    texts, references, sources = list[str](), list[str](), list[list[int]]()
    sizes = dict[LanguagePair, int]()
    for names, direction in files.items():
        if reference or is_table(Path(source)):
            sides = read_given_pairs(*names, direction)
        else:
            sides = read_texts(Path(names[0]), "src", direction.src), []
        own, own_references = ([*map(normalize, side)][:: len(files)] for side in sides)
        sources += [[*model.facts.tag(direction), *ids] for ids in tokenizer.encode(own)]
        texts, references = texts + own, references + own_references
        sizes[direction] = len(own)
    targets = tokenizer.encode(references)
    longest, longest_target = (max(map(len, ids), default=0) for ids in (sources, targets))
    if max(length_limit(longest), longest_target) >= model.positions:
        raise UserError(
            f"{source} has a sentence of {max(longest, longest_target):,} tokens, which is too "
            f"long for {model.positions:,} positions a side: leave it out."
        )
    count = f"{len(texts):,} texts of {Path(source).name}"
    return Sentences(count, sources, targets, texts, references, sizes)


def _prepared(model: TrainedModel, folder: Path) -> Sentences | None:
    """The validation set that was prepared for the run; None if it is not there."""
    data = find_prepared(folder, *model.state.run.identity.data_fingerprints)
    if data is None:
        return None
    found = validation_rows(data)
    parts = [range(rows.start, rows.stop, len(found)) for rows in found.values()]
    rows = list(chain(*parts))
    return Sentences(
        f"{len(rows):,} sentences of the validation set",
        [data.validation.source[row] for row in rows],
        [data.validation.target[row] for row in rows],
        [data.validation_sources[row] for row in rows],
        [data.validation_references[row] for row in rows],
        dict(zip(found, map(len, parts), strict=True)),
    )


def _random(model: TrainedModel) -> Sentences:
    longest = min(RANDOM_TOKENS, model.seq_len - 1)
    lengths = np.random.default_rng(0).integers(1, longest + 1, RANDOM_SENTENCES).tolist()
    pairs = _random_pairs(model, 0, lengths, lengths)
    return Sentences(f"{RANDOM_SENTENCES} random sequences of tokens", *pairs, [], [], {})


def _random_pairs(model: TrainedModel, seed: int, *lengths: list[int]) -> tuple[Ids, Ids]:
    """Sources and targets of these lengths; each source begins with the tag of a direction."""
    random, size = np.random.default_rng(seed), model.facts.num_outputs
    sources, targets = ([random.integers(4, size, n) for n in side] for side in lengths)
    tags = cycle([model.facts.tag(direction) for direction in model.facts.directions])
    return [[*tag, *ids][: len(ids)] for tag, ids in zip(tags, sources, strict=False)], targets


class NotTheSame(UserError):
    """The exported model computes something else than its checkpoint."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The exported model is not the same as the checkpoint: {reason}. Nothing was written. "
            "Translate with the checkpoint itself, by --engine torch."
        )


@dataclass(frozen=True)
class Verification:
    """What was compared, and the scores of the exported model if there are references."""

    lines: list[str]
    scores: dict[str, float] = field(default_factory=dict)
    bleu_signature: str = ""
    notes: list[str] = field(default_factory=list)  # what was not compared, or does not work

    @classmethod
    def of(
        cls,
        lines: list[str],
        translations: Translations,
        sentences: Sentences,
        model: TrainedModel,
    ) -> "Verification":
        """With the translations' scores; of several directions, the means, then en-it/BLEU etc."""
        if not sentences.references:
            return cls(lines)
        columns = model.facts.tokenizer.decode(translations), sentences.references
        found = {
            direction: score_texts(*texts, language=direction.tgt)
            for direction, texts in sentences.by_direction(sentences.source_texts, *columns)
        }
        names = dict.fromkeys(chain(*found.values()))
        scores = {name: fmean(own[name] for own in found.values() if name in own) for name in names}
        for direction, own in found.items() if len(found) > 1 else ():
            scores |= {f"{direction}/{name}": value for name, value in own.items()}
        signatures = dict.fromkeys(bleu_signature(target) for _, target in found)
        return cls(lines, scores, " and ".join(signatures))


def translate_greedily(engine: Engine, sentences: Sentences) -> Translations:
    return [best.ids for (best,) in engine.translate(sentences.sources, GREEDY)]


def verify_equal(
    model: Engine, exported: Engine, sentences: Sentences
) -> tuple[Translations, list[str]]:
    """The greedy translations of the exported model, and lines that say what is equal.

    Raises NotTheSame if a log-probability differs by `TOLERANCE`, or if more translations differ
    than single ones, whose two best tokens may be as close.
    """
    ours, theirs = (translate_greedily(engine, sentences) for engine in (model, exported))
    long_sources, long_targets = sentences.longest
    sources = [*sentences.sources, *long_sources]
    targets = [*(sentences.targets or ours), *long_targets]
    expected, found = (engine.log_probs(sources, targets) for engine in (model, exported))
    differences = [float(np.abs(p - q).max()) for p, q in zip(expected, found, strict=True)]
    for number, difference in enumerate(differences, start=1):
        if not difference < TOLERANCE:  # true for NaN
            raise NotTheSame(
                f"the log-probabilities of sentence {number} differ by {difference:.1e}, more "
                f"than {TOLERANCE:.0e}"
            )
    equal = f"greedy translations of {sentences.description} are equal"
    count = sum(one != other for one, other in zip(ours, theirs, strict=True))
    if count > max(1, MAX_OTHER_TRANSLATIONS * len(ours)):
        raise NotTheSame(f"{count:,} of {len(ours):,} greedy translations differ")
    if count:
        equal += f", but {count} that differ, as at two tokens of about equal probability"
    return theirs, [
        f"log-probabilities of {sum(map(len, expected)):,} tokens are equal within "
        f"{TOLERANCE:.0e} nats (the largest difference is {max(differences):.0e})",
        equal,
    ]


def verify_quality(
    model: TrainedModel, exported: Engine, sentences: Sentences
) -> tuple[Translations, str]:
    """The greedy translations of the exported model, and a line on its BLEU beside the model's.

    The test is paired bootstrap resampling (Koehn 2004; sacreBLEU). Of several directions, the mean
    BLEU is compared, and the smallest p-value. Without references, the line is on the
    log-probabilities of the model's translations. Raises NotTheSame if the exported model loses
    more than `MAX_BLEU_LOSS`, except by `CHANCE`: few sentences show only in log-probabilities
    whether it differs, by at most `MAX_MEAN_DIFFERENCE`.
    """
    own = model.engine()
    found = [translate_greedily(engine, sentences) for engine in (own, exported)]
    if not sentences.references:
        line = _compare_log_probs(own, exported, sentences, found[0])
        return found[1], f"{line} (there are no references for BLEU)"
    before, after = map(model.facts.tokenizer.decode, found)
    bleus = [
        compare_systems(*texts, language=direction.tgt)["BLEU"]
        for direction, texts in sentences.by_direction(after, before, sentences.references)
    ]
    baseline, score = fmean(b.baseline for b in bleus), fmean(b.score for b in bleus)
    p_value = min((b.p_value for b in bleus if b.score < b.baseline), default=1.0)
    means = f"mean of {len(bleus)} directions, smallest " if len(bleus) > 1 else ""
    line = (
        f"BLEU {baseline:.2f} of the checkpoint, {score:.2f} of the exported model on "
        f"{sentences.description} ({means}p = {p_value:.3f}, paired bootstrap)"
    )
    if baseline - score > MAX_BLEU_LOSS:
        if p_value < CHANCE:
            raise NotTheSame(f"{line}: a loss of more than {MAX_BLEU_LOSS}, and not by chance")
        line += f"; {_compare_log_probs(own, exported, sentences, found[0])}"
    return found[1], line


def _compare_log_probs(
    own: Engine, exported: Engine, sentences: Sentences, translations: Translations
) -> str:
    """A line on the difference. Raises NotTheSame above `MAX_MEAN_DIFFERENCE`."""
    p, q = (np.concatenate(e.log_probs(sentences.sources, translations)) for e in (own, exported))
    difference = float(np.abs(p - q).mean())
    line = (
        f"log-probabilities of {len(p):,} tokens of translations of {sentences.description} "
        f"differ by {difference:.3f} nats on average"
    )
    if not difference <= MAX_MEAN_DIFFERENCE:  # true for NaN
        raise NotTheSame(f"{line}, more than {MAX_MEAN_DIFFERENCE}")
    return line


def describe_tags(model: TrainedModel) -> list[str]:
    """How other programs choose the direction of a model; nothing if it has no tags."""
    if not model.facts.tag(model.facts.directions[0]):
        return []
    targets = dict.fromkeys(target for _, target in model.facts.directions)
    tags = ", ".join(f"{direction_tag(each)} for {language_name(each)}" for each in targets)
    return [f"other programs must put the tag of the target language before each source: {tags}"]


def model_card(
    model: TrainedModel, verification: Verification, direction: LanguagePair | None = None
) -> str:
    """The README.md of an exported model, or of one `direction` of it, with its scores."""
    directions = [direction] if direction else model.facts.directions
    named = [f"{language_name(s)} ({s}) to {language_name(t)} ({t})" for s, t in directions]
    names = map(language_name, languages_of(directions))
    title = (" to " if len(directions) == 1 else ", ").join(names)
    position = model.state.position
    corpus = ", ".join(map(public_name, model.config["corpus"]["dataset"]))
    facts = [
        f"Languages: {', '.join(named)}",
        f"Architecture: Transformer, {describe_sizes(asdict(model.shape))}; "
        f"{model.parameters:,} parameters",
        f"Vocabulary: {len(model.facts.tokenizer):,} tokens, joint for "
        f"{'both' if len(model.facts.languages) == 2 else 'all'} languages",
        f"Training: {counted(position.current_epoch, 'epoch')}, "
        f"{counted(position.global_step, 'step')}, on {corpus}, "
        f"fingerprint {model.data or 'unknown'}",
        f"Made with translate_ddp {__version__}",
    ]
    sections = [f"# {title}", _list(facts), f"## Scores\n\n{_scores(verification)}"]
    if compared := _list([*verification.lines, *verification.notes]):
        sections.append(f"## Compared with the checkpoint\n\n{compared}")
    return "\n\n".join(sections) + "\n"


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _scores(verification: Verification) -> str:
    """The scores; of several directions their mean, and a further line for each."""
    if not verification.scores:
        return "Not measured."
    by_direction = groupby(verification.scores.items(), lambda score: score[0].rpartition("/")[0])
    (_, first), *others = (
        (name, with_units({each.rpartition("/")[2]: score for each, score in scores}))
        for name, scores in by_direction
    )
    others = [f"{name}: {scores}" for name, scores in others]
    name = "Greedy, the mean" if others else "Greedy"
    text = f"{name}: {first}. BLEU signature: {verification.bleu_signature}"
    return "\n\n".join([text, *filter(None, [_list(others)])])
