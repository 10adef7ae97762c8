"""The settings of a run, part by part, and what is refused of them.

It does without torch, so that help and complaints come at once; `config.py` makes a command line of
them. What a run finds around it, such as its rank and device, is in `World`.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Precision = Literal["auto", "fp32", "bf16"]
ValidateOn = Literal["rank0", "all"]
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class CorpusConfig:
    dataset: str = "demo"
    """demo, a file, a folder, the common start of two parallel files, or a hub dataset;
    NAME:SPLIT is one split of it."""
    validation: str = ""
    """Named like the dataset; '' is its validation split or, where it has none, 2% of it."""
    lang_src: str = "en"
    """Language to translate from, as the files, columns or hub pairs name it."""
    lang_tgt: str = "it"
    """Language to translate to."""

    def __post_init__(self) -> None:
        if not self.dataset:
            raise ValueError("The dataset is empty: name one, such as demo.")
        for code in (self.lang_src, self.lang_tgt):
            if not LANGUAGE_CODE.fullmatch(code):
                raise ValueError(f"{code!r} is no language code: write it like en, de or pt_BR.")
        if self.lang_src == self.lang_tgt:
            raise ValueError(f"Both languages are {self.lang_src!r}: they must differ.")


@dataclass(frozen=True)
class TokenizerConfig:
    tokenizer: Literal["bpe", "word"] = "bpe"
    """bpe: byte-level pieces, any text comes back exactly; word: whole words, without rare ones."""
    vocab_size: int = 4000
    """Largest vocabulary; small corpora end below it."""
    tokenizer_file: str = ""
    """A tokenizer.json to use, or where to write it; {0} stands for the languages, as in en-it."""

    def __post_init__(self) -> None:
        if self.vocab_size < 300:
            raise ValueError(
                f"vocab_size must be at least 300 (256 bytes and the specials), "
                f"but is {self.vocab_size}."
            )

    def file(self, languages: str) -> Path | None:
        """The file that `tokenizer_file` names for a pair of languages, if it names one."""
        return Path(self.tokenizer_file.replace("{0}", languages)) if self.tokenizer_file else None


@dataclass(frozen=True)
class BatchConfig:
    batch_tokens: int = 1024
    """Tokens of an optimizer step over all ranks, at most: sentences times the longest."""
    max_tokens: int = 0
    """Tokens that one device holds in one pass; 0 is 4,096 on a CPU and 32,768 on a GPU."""
    batch_size: int = 0
    """Sentences per rank and step, in place of batch_tokens; 0 counts tokens."""
    seq_len: int = 256
    """Longest sentence in tokens, its end included; pairs over it are dropped."""

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "seq_len"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, but is {getattr(self, name)}.")
        for name in ("max_tokens", "batch_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}.")
        if self.seq_len > self.batch_tokens and not self.batch_size:
            raise ValueError(
                f"A sentence of seq_len {self.seq_len} does not fit batch_tokens "
                f"{self.batch_tokens}: lower the one or raise the other."
            )
        if self.max_tokens and self.seq_len > self.max_tokens:
            raise ValueError(
                f"A sentence of seq_len {self.seq_len} does not fit max_tokens "
                f"{self.max_tokens}: lower the one or raise the other."
            )

    def pass_tokens(self, device_type: str) -> int:
        """The bound of one pass on such a device."""
        return self.max_tokens or max(self.seq_len, 4096 if device_type == "cpu" else 32768)


@dataclass(frozen=True)
class ModelConfig:
    d_model: int = 128
    """Width of every layer's input and output."""
    num_heads: int = 4
    """Attention heads; must divide d_model."""
    num_encoder_layers: int = 2
    """Layers that read the source."""
    num_decoder_layers: int = 2
    """Layers that write the target."""
    d_ff: int = 512
    """Width inside the feed-forward layers."""
    dropout: float = 0.0
    """Share of each sublayer's output and of the embeddings that is dropped in training."""

    def __post_init__(self) -> None:
        for name in ("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}.")
        if self.d_model % self.num_heads or self.d_model % 2:
            raise ValueError(
                f"d_model must be even and a multiple of num_heads, but is {self.d_model} "
                f"with {self.num_heads} heads."
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), but is {self.dropout}.")


@dataclass(frozen=True)
class LossConfig:
    label_smoothing: float = 0.1
    """Share of the probability spread evenly over the vocabulary (Szegedy et al. 2016)."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must lie in [0, 1), but is {self.label_smoothing}.")


@dataclass(frozen=True)
class OptimizerConfig:
    lr: float = 3e-3
    """Peak learning rate, reached after warm-up."""
    warmup_steps: int = 300
    """Steps over which the rate grows linearly; then it falls with the inverse square root."""
    clip_grad_norm: float = 1.0
    """Longest gradient allowed, over all parameters; 0 does not clip."""

    def __post_init__(self) -> None:
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be positive and finite, but is {self.lr}.")
        if self.warmup_steps < 1:
            raise ValueError(f"warmup_steps must be at least 1, but is {self.warmup_steps}.")
        if not self.clip_grad_norm >= 0:
            raise ValueError(f"clip_grad_norm must not be negative, but is {self.clip_grad_norm}.")


@dataclass(frozen=True)
class TrainConfig:
    num_epochs: int = 7
    """Passes over the training pairs, counted from the start of the run."""
    max_steps: int = 0
    """Stop after so many optimizer steps of the run; 0 is no limit."""
    seed: int = 0
    """What everything random is derived from."""
    precision: Precision = "auto"
    """Of the layers; weights stay fp32. auto is bf16 on GPUs and CPUs that have it, or fp32."""
    compile: bool = False
    """Compile the model with torch.compile: a minute at the start, faster steps on GPUs."""
    log_every: int = 20
    """Steps between two records of the training metrics."""
    validate_every: int = 0
    """Also validate every so many steps; 0 validates at each epoch's end only."""
    validate_on: ValidateOn = "rank0"
    """Who decodes the validation set: rank 0 while the others wait, or all ranks, a share each."""
    save_every: int = 0
    """Also save every so many steps; 0 saves by time and at each epoch's end."""
    save_every_minutes: float = 15.0
    """Also save every so many minutes; 0 does not."""
    max_minutes: float = 0.0
    """Save and stop so long after the start, as if by a signal; 0 is no limit."""

    def __post_init__(self) -> None:
        for name in ("num_epochs", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}.")
        not_negative = "max_steps seed validate_every save_every save_every_minutes max_minutes"
        for name in not_negative.split():
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}.")


@dataclass(frozen=True)
class CheckpointConfig:
    model_folder: str = "weights"
    """Where this run keeps checkpoints, prepared data and metrics."""
    model_basename: str = "tmodel"
    """Start of the names of its checkpoints."""
    preload: str = "latest"
    """What to go on from: latest, an epoch's number, a file, or '' to start anew."""
    keep_last: int = 5
    """Checkpoints kept of epochs, and of steps between them; the best epoch stays. 0 keeps all."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.model_basename):
            raise ValueError(
                f"model_basename may hold letters, digits, '.', '_' and '-', "
                f"but is {self.model_basename!r}."
            )
        if not self.model_folder:
            raise ValueError("model_folder is empty: name a folder.")
        if self.keep_last < 0:
            raise ValueError(f"keep_last must not be negative, but is {self.keep_last}.")


@dataclass(frozen=True)
class LogbookConfig:
    wandb_project: str = "translate_ddp"
    """The Weights & Biases project of the run."""
    wandb_group: str = ""
    """Shows the run together with others of the same group; '' is none."""
    wandb_mode: Literal["auto", "online", "offline", "disabled"] = "auto"
    """auto is online if there is an API key, else offline. WANDB_MODE in the environment wins."""


@dataclass(frozen=True)
class DistributedConfig:
    backend: Literal["auto", "nccl", "gloo"] = "auto"
    """How ranks talk: auto is NCCL between GPUs and gloo between CPUs."""
    bucket_cap_mb: int = 25
    """Gradients travel in buckets of this many MiB, while backward is still running."""
    timeout_minutes: float = 10.0
    """A rank that makes no progress for so long is taken for lost, and the run ends."""

    def __post_init__(self) -> None:
        if not self.timeout_minutes > 0:
            raise ValueError(f"timeout_minutes must be positive, but is {self.timeout_minutes}.")
        if self.bucket_cap_mb < 1:
            raise ValueError(f"bucket_cap_mb must be at least 1, but is {self.bucket_cap_mb}.")
