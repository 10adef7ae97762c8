"""The settings of a run, one frozen dataclass per part; each rejects unusable values.

Nothing here imports torch, so that `--help` and errors appear at once. `config.py` makes a command
line of the dataclasses. Rank, device and the rest of the environment are in `World`.
"""

import math
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from translate_ddp.checks import check_at_least, check_probability, check_seed
from translate_ddp.corpus_settings import CorpusConfig, MixConfig
from translate_ddp.run_settings import CheckpointConfig, DistributedConfig, LogbookConfig

Precision = Literal["auto", "fp32", "bf16"]
ValidateOn = Literal["rank0", "all"]
Preset = Literal["auto", "tiny", "small", "medium", "base", "big", "fast"]


@dataclass(frozen=True)
class TokenizerConfig:
    tokenizer: Literal["bpe", "sentencepiece", "sentencepiece_bpe", "word"] = "bpe"
    """bpe: byte-level BPE, of any text, in Unicode NFC with single blanks and no invisible
    characters; sentencepiece: unigram, sentencepiece_bpe: BPE, both with an extra; word: words,
    rare ones are [UNK]."""
    vocab_size: int = 4000
    """Maximum vocabulary size, joint for both languages."""
    tokenizer_file: str = ""
    """Tokenizer to read (tokenizer.json or SentencePiece). If the file is missing, one is trained
    and written there; {0} stands for the languages, as in en-it."""

    def __post_init__(self) -> None:
        if self.tokenizer.startswith("sentencepiece") and find_spec("sentencepiece") is None:
            raise ValueError(
                f"tokenizer {self.tokenizer} needs a library that is not installed: run "
                "pip install -r requirements-sentencepiece.txt."
            )
        if self.vocab_size < 300:
            raise ValueError(
                f"vocab_size must be at least 300 (256 bytes and the special tokens), "
                f"but is {self.vocab_size}."
            )

    def file(self, languages: str) -> Path | None:
        """The path of `tokenizer_file` for a language pair, or None if it is not set."""
        return Path(self.tokenizer_file.replace("{0}", languages)) if self.tokenizer_file else None


@dataclass(frozen=True)
class BatchConfig:
    batch_tokens: int = 1024
    """Maximum tokens per optimizer step over all ranks: sentences times length of the longest."""
    max_tokens: int = 0
    """Maximum tokens per forward pass on one device; 0: 4096 on a CPU, 32768 on a GPU."""
    batch_size: int = 0
    """Sentences per rank and optimizer step, instead of batch_tokens; 0: use batch_tokens."""
    seq_len: int = 256
    """Maximum sentence length in tokens, [EOS] included; longer pairs are dropped."""

    def __post_init__(self) -> None:
        check_at_least(2, self, "batch_tokens", "seq_len")
        check_at_least(0, self, "max_tokens", "batch_size")
        if self.seq_len > self.batch_tokens and not self.batch_size:
            raise ValueError(
                f"seq_len {self.seq_len} is more than batch_tokens {self.batch_tokens}: "
                "lower --seq_len or raise --batch_tokens."
            )

    def pass_tokens(self, device_type: str) -> int:
        """`max_tokens`, or its default on a device of that type."""
        return self.max_tokens or max(self.seq_len, default_pass_tokens(device_type))


def default_pass_tokens(device_type: str) -> int:
    """Tokens per forward pass on a device of that type."""
    return 4096 if device_type == "cpu" else 32_768


@dataclass(frozen=True)
class AugmentConfig:
    perturb: bool = False
    """Change some training sources as people type: case, punctuation, typos; fixed for a run."""
    bpe_dropout: float = 0.0
    """Probability to drop a merge in training (Provilkov et al. 2020); 0: none, usual: 0.1."""

    def __post_init__(self) -> None:
        check_probability(self, "bpe_dropout")


@dataclass(frozen=True)
class ModelConfig:
    d_model: int = 128
    """Model width."""
    num_heads: int = 4
    """Attention heads per layer; must divide d_model."""
    num_encoder_layers: int = 2
    """Encoder layers."""
    num_decoder_layers: int = 2
    """Decoder layers."""
    d_ff: int = 512
    """Feed-forward width."""
    dropout: float = 0.0
    """Dropout probability of embeddings, sublayers, attention and feed-forward layers."""

    def __post_init__(self) -> None:
        check_at_least(1, self, "d_model", "num_heads", "d_ff")
        check_at_least(1, self, "num_encoder_layers", "num_decoder_layers")
        if self.d_model % self.num_heads or self.d_model % 2:
            raise ValueError(
                f"d_model must be even and a multiple of num_heads, but is {self.d_model} "
                f"with {self.num_heads} heads."
            )
        check_probability(self, "dropout")


@dataclass(frozen=True)
class LossConfig:
    label_smoothing: float = 0.1
    """Label smoothing (Szegedy et al. 2016)."""
    simcut: float = 0.0
    """Weight of SimCut (Gao et al. 2022), which doubles the work of a step; 3 is usual; 0: off."""

    def __post_init__(self) -> None:
        check_probability(self, "label_smoothing")
        check_at_least(0, self, "simcut")

    @property
    def copies(self) -> int:
        """How often a training pass holds each pair."""
        return 2 if self.simcut else 1


@dataclass(frozen=True)
class OptimizerConfig:
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Optimizer of the layers' matrices; muon learns in fewer steps. AdamW updates the rest."""
    lr: float = 3e-3
    """Peak learning rate; a linear schedule falls from it from the first step on."""
    warmup_steps: int = 300
    """Linear warm-up steps; with a linear schedule at most a fifth of the training."""
    schedule: Literal["inverse_sqrt", "linear"] = "inverse_sqrt"
    """Decay of the learning rate; linear: to 0 at the end of num_epochs."""
    clip_grad_norm: float = 1.0
    """Maximum global gradient norm; 0 disables clipping."""

    def __post_init__(self) -> None:
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be positive and finite, but is {self.lr}.")
        check_at_least(1, self, "warmup_steps")
        check_at_least(0, self, "clip_grad_norm")


@dataclass(frozen=True)
class TrainConfig:
    num_epochs: int = 7
    """Epochs of the whole run, resumed parts included."""
    max_steps: int = 0
    """Maximum optimizer steps of the whole run; 0: no limit."""
    seed: int = 0
    """Random seed."""
    precision: Precision = "auto"
    """Precision of the layers; weights stay fp32. auto: bf16 where the device has it, else fp32."""
    compile: bool = False
    """Use torch.compile: a minute at the start; with DDP and torch 2.11 again for each length."""
    log_every: int = 20
    """Steps between records of the training metrics."""
    validate_every: int = 0
    """Steps between validations; 0: validate at the end of each epoch only."""
    validate_on: ValidateOn = "rank0"
    """Ranks that validate. rank0: the others wait; all: each rank decodes a shard."""
    best_metric: str = "BLEU"
    """Validation metric that selects the best epoch, such as BLEU or loss."""
    patience: int = 0
    """Epochs (of the last stage) without a better best_metric after which the run ends; 0: none."""
    save_every: int = 0
    """Steps between checkpoints; 0: save only by time, before validations and after each epoch."""
    save_every_minutes: float = 15.0
    """Minutes between checkpoints; 0: do not save by time."""
    max_minutes: float = 0.0
    """Minutes after which the run saves and stops; 0: no limit."""

    def __post_init__(self) -> None:
        check_at_least(1, self, "num_epochs", "log_every")
        check_at_least(0, self, "max_steps", "validate_every", "patience")
        check_at_least(0, self, "save_every", "save_every_minutes", "max_minutes")
        check_seed(self.seed)


MAX_LENGTH_PENALTY = 10  # beyond, only the length matters, and its power overflows
MIN_TEMPERATURE = 0.01  # below, the most probable token is drawn, and quotients overflow


@dataclass(frozen=True)
class SearchConfig:
    """Settings of decoding; not of training."""

    beam_width: int = 4
    """Beam width; 1 is greedy decoding."""
    length_penalty: float = 1.0
    """A beam search divides the log-probability by length ** this: more makes output longer."""

    def __post_init__(self) -> None:
        check_at_least(1, self, "beam_width")
        if not abs(self.length_penalty) <= MAX_LENGTH_PENALTY:  # false for NaN
            raise ValueError(
                f"length_penalty must lie in -{MAX_LENGTH_PENALTY} to {MAX_LENGTH_PENALTY}, but is "
                f"{self.length_penalty}."
            )


@dataclass(frozen=True)
class NBestConfig(SearchConfig):
    n_best: int = 1
    """Translations of each text; at most beam_width, unless they are sampled."""
    temperature: float = 0.0
    """Sample tokens at this temperature instead of searching for the best; 0: search."""
    seed: int = 0
    """Random seed of sampling; the same text and seed give the same translation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, self, "n_best")
        check_at_least(0, self, "temperature", "seed")
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise ValueError(
                f"temperature must be 0 or at least {MIN_TEMPERATURE}, but is {self.temperature}: "
                "pass --beam_width 1 for the most probable tokens."
            )
        if not (self.temperature or self.n_best <= self.beam_width):
            raise ValueError(
                f"n_best {self.n_best} is more than beam_width {self.beam_width}: "
                f"pass --beam_width {self.n_best}."
            )

    @property
    def rows_per_sentence(self) -> int:
        """Hypotheses that are computed side by side."""
        return self.n_best if self.temperature else self.beam_width


GREEDY = NBestConfig(beam_width=1)


@dataclass(frozen=True)
class PresetConfig:
    """Settings that set the defaults of others."""

    preset: Preset = "auto"
    """Defaults of model size and schedule; auto: by the number of training pairs."""
    config: str = ""
    """YAML file of settings, one `name: value` per line; flags override it."""


@dataclass(frozen=True)
class Config:
    """Train a Transformer for translation, in one process or under torchrun.

    Defaults are those of --preset if it is given before --help; otherwise those of small with
    --dataset, and those of the demo without.
    """

    run: PresetConfig = field(default_factory=PresetConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    mix: MixConfig = field(default_factory=MixConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batches: BatchConfig = field(default_factory=BatchConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logbook: LogbookConfig = field(default_factory=LogbookConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)

    def __post_init__(self) -> None:
        kind = self.tokenizer.tokenizer
        if self.augment.bpe_dropout and kind != "bpe":
            raise ValueError(
                f"bpe_dropout drops merges of byte-level BPE, but the tokenizer is {kind}: "
                "pass --tokenizer bpe or --bpe_dropout 0."
            )
        copies, seq_len, most = self.loss.copies, self.batches.seq_len, self.batches.max_tokens
        if most and copies * seq_len > most:
            doubled = ", which simcut doubles," if copies > 1 else ""
            raise ValueError(
                f"seq_len {seq_len}{doubled} is more than max_tokens {most}: lower --seq_len or "
                "raise --max_tokens."
            )
        self.mix.check(self.corpus.dataset, self.train.num_epochs)

    def pass_tokens(self, device_type: str) -> int:
        """Padded tokens a side of the pairs in a training pass."""
        return self.batches.pass_tokens(device_type) // self.loss.copies

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The settings as plain values: part -> setting -> value."""
        return asdict(self)

    def to_yaml(self) -> str:
        """Every setting except `config` and `preload`, one per line, as `--config` reads it."""
        import yaml  # here: --help does not need it

        settings = {n: v for part in self.to_dict().values() for n, v in part.items()}
        settings = {n: "inf" if v == math.inf else v for n, v in settings.items()}  # not `.inf`
        del settings["config"], settings["preload"]
        return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
