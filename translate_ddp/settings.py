"""The settings of a run, one frozen dataclass per part; each rejects unusable values.

Nothing here imports torch, so that `--help` and errors appear at once. `apps/commands/train.py`
makes a command line of the dataclasses. Rank, device and the rest of the environment are in
`World`.

A field says in its metadata (`setting`) when a resumed run may change it. From that follow the
identity of a run, what all ranks must agree on, and what a resumed run prints.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from translate_ddp.directions import LANGUAGE_CODE, LanguagePair, languages_of, side_name
from translate_ddp.text import normalize

CleanLevel = Literal["none", "safe", "strict"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Preset = Literal["auto", "tiny", "few", "small", "medium", "base", "big", "fast"]
Quoting = Literal["auto", "csv", "none"]
Split = Literal["sentences", "none"]
TokenizerKind = Literal["bpe", "sentencepiece", "sentencepiece_bpe", "word"]
ValidateOn = Literal["rank0", "all"]
WandbMode = Literal["auto", "online", "offline", "disabled"]

NUMBER_OR_SHARE = re.compile(r"\d+|\d+(\.\d+)?%")
VALIDATION_SHARE = 0.02
MAX_HELD_OUT_PAIRS = 3_000  # for validation, of all directions
MAX_HELD_OUT_EACH = 500  # for each of several directions
MAX_VALIDATION_PAIRS = 10_000  # for all directions, if the settings name or count them


Settings = dict[str, dict[str, Any]]  # part -> setting -> value


class Range(NamedTuple):
    """The values that a setting may have."""

    words: str  # what it must be
    holds: Callable[[Any], bool]  # whether a value is in the range, which NaN never is


def at_least(minimum: int) -> Range:
    return Range(f"be at least {minimum}", lambda value: value >= minimum)


def between(first: int, last: int, name: str = "") -> Range:
    return Range(f"lie in {first} to {name or last}", lambda value: first <= value <= last)


PROBABILITY = Range("lie in [0, 1)", lambda value: 0 <= value < 1)
POSITIVE = Range("be positive and finite", lambda value: 0 < value < math.inf)
EXIT_CODE = Range(
    "be from 0 to 255, not 1, 2 or 75, which are codes of errors",
    lambda value: value in {*range(256)} - {1, 2, 75},
)
SEED = between(0, 2**63 - 1, "2**63 - 1")  # `data.mix.hashes` takes 64 bits with a sign


class Checked:
    """A dataclass of settings. Raises ValueError if one is not in the range of its field."""

    def __post_init__(self) -> None:
        for each in fields(cast("Any", self)):
            value, check = getattr(self, each.name), each.metadata.get("check")
            if check and not check.holds(value):
                raise ValueError(f"{each.name} must {check.words}, but is {value}.")


class Resume(Enum):
    """When a setting may change between two starts of a run."""

    NEVER = "never"
    BETWEEN_EPOCHS = "between epochs"
    FREELY = "at any time"
    PER_START = "at any time; it concerns one start only"


def setting(
    default: Any,
    resume: Resume = Resume.FREELY,
    *,
    path: bool = False,
    data: bool = False,
    check: Range | None = None,
) -> Any:
    """A field with this default, and values in this range.

    `path`: it may name a file of this machine, so ranks may differ and it is not published.
    `data`: the prepared data depend on it, which may not change during a run.
    """
    return field(
        default=default, metadata={"resume": resume, "path": path, "data": data, "check": check}
    )


def as_tuples(value: Any) -> Any:
    """Lists, as YAML and JSON files have them, as the tuples of the settings."""
    return tuple(map(as_tuples, value)) if isinstance(value, (list, tuple)) else value


def check_installed(library: str, needed_by: str) -> None:
    """Raise ValueError if an optional dependency that a setting needs is not installed."""
    if find_spec(library) is None:
        raise ValueError(
            f"{needed_by} needs {library}, which is not installed: run "
            f"pip install -r requirements-{library}.txt."
        )


@dataclass(frozen=True)
class SourceOptions:
    """Settings that select the texts within a source."""

    src_column: str = ""  # '': the usual names
    tgt_column: str = ""
    revision: str = ""  # for a dataset of the hub
    quoting: Quoting = "auto"  # what quotes are in tables in text
    split: str = "train"  # selects rows of a table with a column of splits


@dataclass(frozen=True)
class CorpusConfig(Checked):
    dataset: tuple[str, ...] = setting(("demo",), data=True, path=True)
    """One or more corpora: demo, file, spreadsheet[:SHEET], folder, prefix of parallel files, or
    Hugging Face dataset[:SPLIT]; * in file names stands for any text, {src} and {tgt} for the
    languages. docs/data.md shows each."""
    validation: str = setting("", data=True, path=True)
    """Validation corpus as for --dataset, or a number or share (1%) of the training pairs; '': the
    validation split of the first dataset, or else 2% of the training pairs."""
    lang_src: tuple[str, ...] = setting(("en",), data=True)
    """Source language, as it appears in the names of files, columns or dataset configurations. With
    several source or target languages, one model learns all directions that have data."""
    lang_tgt: tuple[str, ...] = setting(("it",), data=True)
    """Target language, or several."""
    exclude: tuple[str, ...] = setting((), data=True, path=True)
    """Test corpora as for --dataset: pairs with one of their sentences are not trained on."""
    directions: tuple[tuple[str, str], ...] = setting((), data=True)
    """Directions instead of all combinations of lang_src and lang_tgt, as en hau en yor."""
    mix_temperature: float = setting(1.0, data=True, check=at_least(1))
    """In an epoch, the pairs of a direction are in proportion to its size ** (1 / mix_temperature).
    1: all pairs; more: pairs of small directions are repeated, up to 20 times; 5 is usual."""
    src_column: str = setting("", data=True)
    """Column of the source in tables; '': named by language, src or source. A table without a
    header has columns 1, 2, ..."""
    tgt_column: str = setting("", data=True)
    """Column of the target in tables; '': named by language, tgt or target."""
    revision: str = setting("", data=True)
    """Revision of datasets of the hub, such as a commit; '': the newest, or the cached one."""
    quoting: Quoting = setting("auto", data=True)
    """Quotes in TSV and CSV. csv: they enclose fields; none: they are text; auto: csv in a .csv,
    and in a .tsv whose quotes are all as in CSV."""
    clean: CleanLevel = setting("safe", data=True)
    """Pairs to drop. none: only unusable ones; safe: duplicates and defects; strict: also pairs
    that are probably no translations (docs/cleaning.md)."""
    perturb: bool = setting(False, Resume.BETWEEN_EPOCHS, data=True)
    """Change some training sources as people type: case, punctuation, typos."""
    bidirectional: bool = setting(False, data=True)
    """Also train the reverse directions, on the same pairs swapped."""
    tags: tuple[str, ...] = setting((), data=True)
    """For each dataset, a tag before its training sources, such as <bt>; '': none."""

    def __post_init__(self) -> None:
        for name in ("lang_src", "lang_tgt"):  # one language may be a text
            if isinstance(code := getattr(self, name), str):
                object.__setattr__(self, name, (code,))
        super().__post_init__()
        if not all(self.dataset) or not self.dataset:
            raise ValueError("dataset is empty: pass one, such as demo.")
        self._check_languages()
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
            if tag != normalize(tag) or tag.startswith("-") or any(map(str.isspace, tag)):
                raise ValueError(
                    f"The tag {tag!r} has spaces, begins with a dash or changes under Unicode "
                    "normalization (NFC): choose another, such as <bt>."
                )

    def _check_languages(self) -> None:
        for code in self.languages:
            if not LANGUAGE_CODE.fullmatch(code):
                raise ValueError(f"{code!r:.50} is not a language code such as en, de or pt_BR.")
        for codes in (self.lang_src, self.lang_tgt, self.directions):
            if repeated := {str(code) for code in codes if codes.count(code) > 1}:
                raise ValueError(f"{' '.join(sorted(repeated))} is given twice: once is enough.")
        if not self.requested:
            raise ValueError(f"Both languages are {self.lang_src[0]!r}: they must differ.")

    @property
    def options(self) -> SourceOptions:
        return SourceOptions(self.src_column, self.tgt_column, self.revision, self.quoting)

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> "CorpusConfig":
        """The settings in a checkpoint. Raises TypeError for settings of another version."""
        return cls(**{name: as_tuples(value) for name, value in saved.items()})

    @property
    def requested(self) -> list[LanguagePair]:
        """The directions to look for in the sources: given, or all combinations of languages."""
        given = self.directions or product(self.lang_src, self.lang_tgt)
        return [LanguagePair(src, tgt) for src, tgt in given if src != tgt]

    def with_reverse(self, directions: Sequence[LanguagePair]) -> list[LanguagePair]:
        """These and, with `bidirectional`, their reverse directions, each once."""
        reverse = [pair.reverse for pair in directions] * self.bidirectional
        return list(dict.fromkeys([*directions, *reverse]))

    @property
    def languages(self) -> list[str]:
        """All languages, each once: the source and the target language of a single direction."""
        return languages_of(self.requested) or [*self.lang_src, *self.lang_tgt]

    @property
    def may_have_several(self) -> bool:
        """Whether the model may get more than one direction."""
        return len(self.with_reverse(self.requested)) > 1

    @property
    def languages_name(self) -> str:
        """As en-it; of several directions as en-de+fr."""
        return "-".join(map(side_name, zip(*self.requested, strict=True)))

    @property
    def name(self) -> str:
        """All datasets in one line."""
        return " ".join(self.dataset)

    @property
    def is_split(self) -> bool:
        """Whether `validation` is a number or a share of the training pairs."""
        return NUMBER_OR_SHARE.fullmatch(self.validation) is not None

    def validation_limit(self, directions: Sequence[LanguagePair]) -> int:
        """The most validation pairs of each of these directions that the settings may give."""
        return max(1, MAX_VALIDATION_PAIRS // len(self.with_reverse(directions)))

    def validation_pairs(self, pairs: int, directions: int) -> int:
        """The number of validation pairs to take from this many training pairs of a direction.

        The model has so many `directions`.
        """
        if not self.is_split:
            most = MAX_HELD_OUT_PAIRS // directions
            most = min(most, MAX_HELD_OUT_EACH) if directions > 1 else most
            return max(min(round(VALIDATION_SHARE * pairs), most), 1)
        number = float(self.validation.rstrip("%"))
        return max(round(number * pairs / 100), 1) if "%" in self.validation else int(number)


@dataclass(frozen=True)
class MixConfig(Checked):
    dataset_weight: tuple[float, ...] = ()
    """Weight of each dataset: its pairs in an epoch, as a multiple of its size; none: 1 each."""
    swap_epochs: int = setting(0, Resume.BETWEEN_EPOCHS, check=at_least(0))
    """First epochs in which half of the pairs have source and target swapped (Ding et al. 2021); of
    a preset, at most two thirds. No effect with tags, as of several directions, or one language."""

    def check(self, datasets: Sequence[str]) -> None:
        """Raise ValueError if the weights do not fit the datasets."""
        weights = self.dataset_weight
        if weights and len(weights) != len(datasets):
            raise ValueError(
                f"Values of dataset_weight given: {len(weights)}, datasets: {len(datasets)}. Give "
                "one for each dataset."
            )
        if not all(0 <= weight < math.inf for weight in weights) or (weights and not any(weights)):
            raise ValueError(
                f"dataset_weight is {' '.join(f'{weight:g}' for weight in weights)}, but weights "
                "are finite numbers of at least 0, and one is more."
            )


@dataclass(frozen=True)
class TokenizerConfig(Checked):
    tokenizer: TokenizerKind = setting("bpe", Resume.NEVER, data=True)
    """bpe: byte-level BPE of any text, in Unicode NFC with single spaces and no invisible
    characters; word: words, rare ones are [UNK]; sentencepiece: unigram, sentencepiece_bpe: BPE,
    both need pip install -r requirements-sentencepiece.txt."""
    vocab_size: int = setting(4000, Resume.NEVER, data=True, check=at_least(300))
    """Maximum vocabulary size, joint for all languages; at least 256 bytes and special tokens."""
    tokenizer_file: str = setting("", data=True, path=True)
    """Tokenizer to read (tokenizer.json or SentencePiece). If the file is missing, one is trained
    and written there; {0} stands for the languages, as in en-it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer.startswith("sentencepiece"):
            check_installed("sentencepiece", f"tokenizer {self.tokenizer}")

    def file(self, languages: str) -> Path | None:
        """The path of `tokenizer_file` for a language pair, or None if it is not set."""
        return Path(self.tokenizer_file.replace("{0}", languages)) if self.tokenizer_file else None


@dataclass(frozen=True)
class BatchConfig(Checked):
    batch_tokens: int = setting(1024, Resume.BETWEEN_EPOCHS, check=at_least(2))
    """Maximum tokens per optimizer step over all ranks: sentences times length of the longest."""
    max_tokens: int = setting(0, check=at_least(0))
    """Maximum tokens of a micro-batch on one device; 0: 4096 on a CPU, 32768 on a GPU."""
    batch_size: int = setting(0, Resume.BETWEEN_EPOCHS, check=at_least(0))
    """Sentences per rank and optimizer step, instead of batch_tokens; 0: use batch_tokens."""
    seq_len: int = setting(256, Resume.BETWEEN_EPOCHS, data=True, check=at_least(2))
    """Maximum sentence length in tokens, [EOS] included; longer pairs are dropped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seq_len > self.batch_tokens and not self.batch_size:
            raise ValueError(
                f"seq_len {self.seq_len} is more than batch_tokens {self.batch_tokens}: "
                "lower --seq_len or raise --batch_tokens."
            )


def default_micro_batch_tokens(device_type: str) -> int:
    """Tokens of a micro-batch on a device of that type."""
    return 4096 if device_type == "cpu" else 32_768


@dataclass(frozen=True)
class ModelConfig(Checked):
    d_model: int = setting(128, Resume.NEVER, check=at_least(1))
    """Model width."""
    num_heads: int = setting(4, Resume.NEVER, check=at_least(1))
    """Attention heads per layer; must divide d_model."""
    num_encoder_layers: int = setting(2, Resume.NEVER, check=at_least(1))
    """Encoder layers."""
    num_decoder_layers: int = setting(2, Resume.NEVER, check=at_least(1))
    """Decoder layers."""
    d_ff: int = setting(512, Resume.NEVER, check=at_least(1))
    """Feed-forward width."""
    dropout: float = setting(0.0, check=PROBABILITY)
    """Dropout probability of embeddings, sublayers, attention and feed-forward layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.num_heads or self.d_model % 2:
            raise ValueError(
                f"d_model must be even and a multiple of num_heads, but is {self.d_model} "
                f"with {self.num_heads} heads."
            )


@dataclass(frozen=True)
class LossConfig(Checked):
    label_smoothing: float = setting(0.1, check=PROBABILITY)
    """Label smoothing (Szegedy et al. 2016)."""
    simcut: float = setting(0.0, check=at_least(0))
    """Weight of SimCut (Gao et al. 2022), which doubles the work of a step; 3 is usual; 0: off."""

    @property
    def forward_copies(self) -> int:
        """How often a forward pass of training computes each pair."""
        return 2 if self.simcut else 1


@dataclass(frozen=True)
class OptimizerConfig(Checked):
    optimizer: Literal["adamw", "muon"] = setting("adamw", Resume.NEVER)
    """Optimizer of the layers' matrices; muon learns in fewer steps. AdamW updates the rest."""
    weight_decay: float = setting(0.01, Resume.NEVER, check=at_least(0))
    """Weight decay of matrices, times the learning rate; with muon, the embedding keeps 0.01."""
    lr: float = setting(3e-3, check=POSITIVE)
    """Peak learning rate. A linear schedule falls from the first step on, so its peak is lower."""
    warmup_steps: int = setting(300, check=at_least(1))
    """Linear warm-up steps; with a linear schedule at most a fifth of the training."""
    schedule: Literal["inverse_sqrt", "linear"] = "inverse_sqrt"
    """Decay of the learning rate; linear: to 0 at the end of num_epochs."""
    clip_grad_norm: float = setting(1.0, check=at_least(0))
    """Maximum global gradient norm; 0 disables clipping."""


@dataclass(frozen=True)
class TrainConfig(Checked):
    num_epochs: int = setting(7, check=at_least(1))
    """Epochs of the whole run, resumed parts included."""
    max_steps: int = setting(0, check=at_least(0))
    """Maximum optimizer steps of the whole run; 0: no limit."""
    seed: int = setting(0, Resume.BETWEEN_EPOCHS, check=SEED)
    """Random seed."""
    precision: Precision = "auto"
    """Precision of the layers; weights stay fp32. auto: the fastest of bf16, fp16, fp32."""
    deterministic: bool = False
    """Sum in a fixed order on a GPU, for resumes that are equal bit for bit; the backward passes of
    attention, embedding and indexing become slower."""
    profile: int = setting(0, Resume.PER_START, check=at_least(0))
    """Number of steps to trace, after the first 10 steps of this start; 0: none."""
    log_every: int = setting(20, check=at_least(1))
    """Steps between records of the training metrics."""
    validate_every: int = setting(0, check=at_least(0))
    """Steps between validations; 0: validate at the end of each epoch only."""
    validate_on: ValidateOn = "rank0"
    """Ranks that validate. rank0: the others wait; all: each rank decodes a shard."""
    best_metric: str = setting("auto", Resume.NEVER)
    """Validation metric that selects the best epoch, such as BLEU, loss, or en-it/chrf for
    one direction. auto: BLEU; with several directions chrf."""
    patience: int = setting(0, check=at_least(0))
    """The run ends after this many epochs without a better best_metric; 0: it does not."""
    save_every: int = setting(0, check=at_least(0))
    """Steps between checkpoints; 0: save only by time, before validations and after each epoch."""
    save_every_minutes: float = setting(15.0, check=at_least(0))
    """Minutes between checkpoints; 0: do not save by time."""
    max_minutes: float = setting(0.0, check=at_least(0))
    """Minutes after which the run saves and stops; 0: no limit."""


@dataclass(frozen=True)
class CheckpointConfig(Checked):
    model_folder: str = setting("weights", Resume.PER_START, path=True)
    """Folder for checkpoints, prepared data and metrics."""
    model_basename: str = "tmodel"
    """Prefix of the checkpoint names."""
    preload: str = setting("latest", Resume.PER_START, path=True)
    """Checkpoint to resume: latest, best (epoch), an epoch number, a file, or '' for a new run."""
    init_from: str = setting("", Resume.PER_START, path=True)
    """Checkpoint (file or folder) whose weights, model settings and tokenizer a new run takes."""
    average: int = setting(1, check=at_least(1))
    """Number of last epochs whose weights translate and validate average; 1: no average."""
    keep_last: int = setting(5, check=at_least(0))
    """Epoch and step checkpoints to keep of each kind, beside best and averaged epochs; 0: all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.model_basename):
            raise ValueError(
                f"model_basename may hold letters, digits, '.', '_' and '-', "
                f"but is {self.model_basename!r}."
            )
        if not self.model_folder:
            raise ValueError("model_folder is empty: pass a folder.")
        if re.search("[\ud800-\udfff]", self.model_folder):  # torch could not read its files
            raise ValueError("model_folder has a name that is not UTF-8: pass another folder.")


@dataclass(frozen=True)
class LogbookConfig:
    report: bool = True
    """Write report.html, a page about the run, in the model folder."""
    wandb_project: str = ""
    """Weights & Biases project; '': the variable WANDB_PROJECT, or translate_ddp."""
    wandb_group: str = ""
    """Weights & Biases group; '': the variable WANDB_RUN_GROUP, or none."""
    wandb_mode: WandbMode = "auto"
    """auto: the variable WANDB_MODE, else online if there is an API key, else offline."""
    tensorboard: bool = False
    """Write event files for TensorBoard. Needs pip install -r requirements-tensorboard.txt."""

    def __post_init__(self) -> None:
        if self.tensorboard:
            check_installed("tensorboard", "--tensorboard")


@dataclass(frozen=True)
class DistributedConfig(Checked):
    backend: Literal["auto", "nccl", "gloo"] = "auto"
    """Backend of the process group; auto: NCCL on GPUs, gloo on CPUs."""
    bucket_cap_mb: int = setting(25, check=at_least(1))
    """Size in MiB of DDP's gradient buckets, which are all-reduced during backward."""
    gradient_compression: Literal["none", "bf16"] = "none"
    """Number format in which ranks send gradients; bf16: half the bytes, with rounded sums."""
    timeout_minutes: float = setting(10.0, check=Range("be positive", lambda value: value > 0))
    """The run ends with an error after this many minutes without progress on a rank."""
    preempted_exit_code: int = setting(0, check=EXIT_CODE)
    """Exit code after a request to stop. If it is not 0, Kubernetes restarts the pod."""


@dataclass(frozen=True)
class PresetConfig:
    """Settings that set the defaults of others."""

    preset: Preset = setting("auto", Resume.PER_START)
    """Defaults of model size and schedule; auto: by the number of training pairs."""
    config: str = setting("", Resume.PER_START, path=True)
    """YAML file of settings, one `name: value` per line; flags override it."""


@dataclass(frozen=True)
class Config:
    """Train a Transformer for translation, in one process or under torchrun.

    Defaults come from --preset if it is given before --help; otherwise from the preset small with
    --dataset, and from the preset tiny without.
    """

    run: PresetConfig = PresetConfig()
    corpus: CorpusConfig = CorpusConfig()
    mix: MixConfig = MixConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    batches: BatchConfig = BatchConfig()
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    logbook: LogbookConfig = LogbookConfig()
    distributed: DistributedConfig = DistributedConfig()

    def __post_init__(self) -> None:
        copies, most = self.loss.forward_copies, self.batches.max_tokens
        seq_len = self.batches.seq_len
        if most and copies * seq_len > most:
            doubled = ", which simcut doubles," if copies > 1 else ""
            raise ValueError(
                f"seq_len {seq_len}{doubled} is more than max_tokens {most}: lower --seq_len or "
                "raise --max_tokens."
            )
        self.mix.check(self.corpus.dataset)

    def micro_batch_tokens(self, device_type: str) -> int:
        """Padded tokens a side of the pairs of a micro-batch."""
        usual = max(self.batches.seq_len, default_micro_batch_tokens(device_type))
        return (self.batches.max_tokens or usual) // self.loss.forward_copies

    def to_dict(self) -> Settings:
        """The settings as plain values."""
        return asdict(self)

    def to_yaml(self) -> str:
        """Every setting except `config` and `preload`, one per line, as `--config` reads it."""
        import yaml  # here: --help does not need it

        settings = by_name(self.to_dict())
        settings = {n: "inf" if v == math.inf else v for n, v in settings.items()}  # not `.inf`
        del settings["config"], settings["preload"]
        return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def by_name(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of all parts by name: no two parts have a setting of the same name."""
    return {name: value for part in settings.values() for name, value in part.items()}


class Setting(NamedTuple):
    """One field of the configuration."""

    default: Any
    resume: Resume
    path: bool
    data: bool


@cache
def all_settings() -> dict[str, Setting]:
    """Every setting of a run by its name."""
    default = Config()
    return {
        each.name: Setting(
            getattr(getattr(default, part.name), each.name),
            each.metadata.get("resume", Resume.FREELY),
            each.metadata.get("path", False),
            each.metadata.get("data", False),
        )
        for part in fields(default)
        for each in fields(getattr(default, part.name))
    }
