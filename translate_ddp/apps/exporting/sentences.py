"""The sentences on which an exported model is compared with its checkpoint."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.data.dataset import find_prepared
from translate_ddp.data.inputs import read_given_pairs, read_texts
from translate_ddp.data.readers.corpus_files import is_table
from translate_ddp.data.tagging import prefix_of
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding import length_limit
from translate_ddp.modeling.engine import Ids
from translate_ddp.text import normalize

RANDOM_SENTENCES, RANDOM_TOKENS = 200, 40
LONGEST_PAIRS = 2


@dataclass(frozen=True)
class Sentences:
    """Sources and targets as token ids; their texts, unless they are random."""

    description: str
    sources: Ids
    targets: Ids  # whose log-probabilities are compared; empty: the model's own translations
    source_texts: list[str]
    references: list[str]  # empty: there are none
    longest: tuple[Ids, Ids] = ((), ())  # random pairs as long as the model computes


def choose_sentences(model: TrainedModel, source: str, reference: str, folder: Path) -> Sentences:
    """The texts of the files, else the validation set in the run's folder, else random ids.

    Raises UserError if a file cannot be read, if the numbers of lines differ, or if a sentence is
    too long for formats that store a table of positions.
    """
    if source:
        found = _from_files(model, source, reference)
        return replace(found, longest=_longest(model))
    found = _prepared(model, folder / "data") or _random(model)
    return replace(found, longest=_longest(model))


def _from_files(model: TrainedModel, source: str, reference: str) -> Sentences:
    """The texts of the files, in any format of training; a table also has the references."""
    encode = model.tokenizer.encode
    if reference or is_table(Path(source)):
        sides = read_given_pairs(source, reference, model.languages)
        sources, references = (list(map(normalize, side)) for side in sides)
    else:
        texts = read_texts(Path(source), "src", model.languages[0])
        sources, references = list(map(normalize, texts)), []
    count = f"{len(sources):,} texts of {Path(source).name}"
    tagged = [prefix_of(*model.tags[:1]) + text for text in sources]
    found = Sentences(count, encode(tagged), encode(references), sources, references)
    longest_source, longest_target = (
        max(map(len, side), default=0) for side in (found.sources, found.targets)
    )
    if max(length_limit(longest_source), longest_target) >= model.positions:
        raise UserError(
            f"{source} has a sentence of {max(longest_source, longest_target):,} tokens, which is "
            f"too long for {model.positions:,} positions a side: leave it out."
        )
    return found


def _prepared(model: TrainedModel, folder: Path) -> Sentences | None:
    """The validation set that was prepared for the run; None if it is not there."""
    fingerprints = model.state.run.identity.data_fingerprints
    data = find_prepared(folder, *fingerprints) if model.data else None
    if data is None:
        return None
    return Sentences(
        f"{len(data.validation):,} sentences of the validation set",
        [data.validation.source[row] for row in range(len(data.validation))],
        [data.validation.target[row] for row in range(len(data.validation))],
        data.validation_sources,
        data.validation_references,
    )


def _longest(model: TrainedModel) -> tuple[Ids, Ids]:
    """Random pairs with the most tokens: the positions of a format are then all compared."""
    random = np.random.default_rng(1)
    length = model.seq_len - 1
    sources, targets = (
        [random.integers(4, len(model.tokenizer), count) for _ in range(LONGEST_PAIRS)]
        for count in (length, length_limit(length))
    )
    return sources, targets


def _random(model: TrainedModel) -> Sentences:
    random = np.random.default_rng(0)
    longest = min(RANDOM_TOKENS, model.seq_len - 1)
    sources, targets = (
        [
            random.integers(4, len(model.tokenizer), length)  # no special tokens
            for length in random.integers(1, longest + 1, RANDOM_SENTENCES)
        ]
        for _ in range(2)
    )
    return Sentences(f"{RANDOM_SENTENCES} random sequences of tokens", sources, targets, [], [])
