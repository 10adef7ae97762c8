"""The settings of the corpora of a run: where pairs come from, and how many each epoch has."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tyro.conf import Fixed, Suppress

from translate_ddp.text import normalize

CleanLevel = Literal["none", "safe", "strict"]
Quoting = Literal["auto", "csv", "none"]
NUMBER_OR_SHARE = re.compile(r"\d+|\d+(\.\d+)?%")
VALIDATION_SHARE = 0.02
MAX_VALIDATION_PAIRS = 2_000
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([_@-][A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class SourceOptions:
    """Settings that select the texts within a source."""

    src_column: str = ""  # '': the usual names
    tgt_column: str = ""
    revision: str = ""  # of a dataset of the hub
    quoting: Quoting = "auto"  # what quotes are in tables in text


@dataclass(frozen=True)
class CorpusConfig:
    dataset: tuple[str, ...] = ("demo",)
    """One or more corpora: demo, file, folder, prefix of parallel files, or Hugging Face
    dataset[:SPLIT]; * in file names stands for any text. docs/data.md shows each."""
    validation: str = ""
    """Validation corpus as for --dataset, or a number or share (1%) of the training pairs; '': the
    dataset's validation split, or 2%."""
    lang_src: str = "en"
    """Source language, as it appears in the names of files, columns or dataset configurations."""
    lang_tgt: str = "it"
    """Target language."""
    src_column: str = ""
    """Column of the source in tables; '': named by language, src or source. A table without a
    header has columns 1, 2, ..."""
    tgt_column: str = ""
    """Column of the target in tables; '': named by language, tgt or target."""
    revision: str = ""
    """Revision of datasets of the hub, such as a commit; '': the newest, or that in the cache."""
    quoting: Quoting = "auto"
    """Quotes in TSV and CSV. csv: they enclose fields; none: they are text; auto: csv in a .csv,
    and in a .tsv whose quotes are all as in CSV."""
    clean: CleanLevel = "safe"
    """Pairs to drop. none: only unusable ones; safe: duplicates and defects; strict: also pairs
    that are probably no translations (docs/data.md)."""
    bidirectional: bool = False
    """Train both directions in one model: each training pair also swapped. Sources get a tag."""
    tags: Suppress[Fixed[tuple[str, ...]]] = ()
    """Of each dataset the text before its training sources, '' for none; in YAML files only."""

    def __post_init__(self) -> None:
        if not all(self.dataset) or not self.dataset:
            raise ValueError("dataset is empty: pass one, such as demo.")
        for code in self.languages:
            if not LANGUAGE_CODE.fullmatch(code):
                raise ValueError(f"{code!r} is not a language code such as en, de or pt_BR.")
        if self.lang_src == self.lang_tgt:
            raise ValueError(f"Both languages are {self.lang_src!r}: they must differ.")
        if re.fullmatch(r"0?\.\d+", self.validation):
            share = 100 * float(self.validation)
            raise ValueError(f"validation is {self.validation}: write the share as {share:g}%.")
        if self.src_column and self.src_column == self.tgt_column:
            raise ValueError(f"Both columns are {self.src_column!r}: they must differ.")
        if self.is_split and not float(self.validation.rstrip("%")):
            raise ValueError(f"validation is {self.validation}, but must be more than 0.")
        if self.tags and len(self.tags) != len(self.dataset):
            raise ValueError(
                f"Tags given: {len(self.tags)}, datasets: {len(self.dataset)}. Give one for each "
                "dataset, '' for none."
            )
        for tag in self.tags:
            if tag != normalize(tag) or any(map(str.isspace, tag)):
                raise ValueError(
                    f"The tag {tag!r} has blanks or changes under Unicode normalization (NFC): "
                    "choose another, such as <bt>."
                )

    @property
    def options(self) -> SourceOptions:
        return SourceOptions(self.src_column, self.tgt_column, self.revision, self.quoting)

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> "CorpusConfig":
        """The settings in a checkpoint. Raises TypeError for settings of another version."""
        return cls(**{**saved, "dataset": tuple(saved["dataset"])})

    @property
    def languages(self) -> tuple[str, str]:
        return self.lang_src, self.lang_tgt

    @property
    def language_pair(self) -> str:
        """As en-it."""
        return "-".join(self.languages)

    @property
    def name(self) -> str:
        """All datasets in one line."""
        return " ".join(self.dataset)

    @property
    def is_split(self) -> bool:
        """Whether `validation` is a number or a share of the training pairs."""
        return NUMBER_OR_SHARE.fullmatch(self.validation) is not None

    def validation_pairs(self, pairs: int) -> int:
        """The number of validation pairs to take from this many training pairs."""
        if not self.is_split:
            return min(max(round(VALIDATION_SHARE * pairs), 1), MAX_VALIDATION_PAIRS)
        number = float(self.validation.rstrip("%"))
        return max(round(number * pairs / 100), 1) if "%" in self.validation else int(number)


@dataclass(frozen=True)
class Stage:
    """Consecutive epochs with the same weights of the datasets."""

    epochs: int
    dataset_weight: tuple[float, ...]


@dataclass(frozen=True)
class MixConfig:
    dataset_weight: tuple[float, ...] = ()
    """Weight of each dataset: its pairs in an epoch, as a multiple of its size; none: 1 each. YAML
    files may also have stages and tags (docs/data.md)."""
    stages: Suppress[Fixed[tuple[Stage, ...]]] = ()
    """Weights that change after some epochs; in YAML files only."""

    @property
    def num_epochs(self) -> int:
        """The epochs of all stages; 0: there are none."""
        return sum(stage.epochs for stage in self.stages)

    def check(self, datasets: Sequence[str], num_epochs: int) -> None:
        """Raise ValueError if the weights do not fit the datasets, or the stages the epochs."""
        for weights in [self.dataset_weight, *(stage.dataset_weight for stage in self.stages)]:
            _check_weights(weights, datasets)
        if not self.stages:
            return
        if self.dataset_weight:
            raise ValueError("Each stage has its weights: omit dataset_weight outside of stages.")
        if min(stage.epochs for stage in self.stages) < 1:
            raise ValueError("A stage has less than one epoch: remove it.")
        if num_epochs != self.num_epochs:
            raise ValueError(
                f"num_epochs is {num_epochs}, but the stages have {self.num_epochs} epochs: omit "
                "num_epochs, or change the stages."
            )


def _check_weights(weights: Sequence[float], datasets: Sequence[str]) -> None:
    if weights and len(weights) != len(datasets):
        raise ValueError(
            f"Values of dataset_weight given: {len(weights)}, datasets: {len(datasets)}. Give one "
            "for each dataset."
        )
    if not all(0 <= weight < math.inf for weight in weights) or (weights and not any(weights)):
        raise ValueError(
            f"dataset_weight is {' '.join(f'{weight:g}' for weight in weights)}, but weights are "
            "finite numbers of at least 0, and one is more."
        )
