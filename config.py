"""What a run is: the settings of its parts together, named presets, the command line.

Presets, `--config file.yaml` and the user's own flags are one list of flags in that order; the
last one counts, and all are checked by the same parser.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from translate_ddp.errors import UserError
from translate_ddp.settings import (
    BatchConfig,
    CheckpointConfig,
    CorpusConfig,
    DistributedConfig,
    LogbookConfig,
    LossConfig,
    ModelConfig,
    OptimizerConfig,
    TokenizerConfig,
    TrainConfig,
)

PRESETS: dict[str, dict[str, float]] = {
    # The embedded demo on two CPU cores, in minutes: the defaults of the parts.
    "tiny": {},
    # Tens of thousands of pairs, on a CPU or any GPU.
    "small": {
        "d_model": 256,
        "num_heads": 4,
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "d_ff": 1024,
        "dropout": 0.1,
        "vocab_size": 8000,
        "batch_tokens": 2048,
        "lr": 1.5e-3,
        "warmup_steps": 500,
        "num_epochs": 15,
    },
    # Vaswani et al. 2017, table 3: the base model, and its batch of about 25,000 tokens, over all
    # GPUs. On 8 GPUs --batch_tokens 200000 --lr 1e-3 keeps them busier (Ott et al. 2018).
    "base": {
        "d_model": 512,
        "num_heads": 8,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
        "d_ff": 2048,
        "dropout": 0.1,
        "vocab_size": 32_000,
        "batch_tokens": 25_000,
        "lr": 7e-4,
        "warmup_steps": 4000,
        "num_epochs": 20,
    },
    # The same table's big model.
    "big": {
        "d_model": 1024,
        "num_heads": 16,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
        "d_ff": 4096,
        "dropout": 0.3,
        "vocab_size": 32_000,
        "batch_tokens": 25_000,
        "lr": 5e-4,
        "warmup_steps": 4000,
        "num_epochs": 40,
    },
}


@dataclass(frozen=True)
class Choice:
    """The settings that choose other settings."""

    preset: Literal["auto", "tiny", "small", "base", "big"] = "auto"
    """Sizes and schedule to start from; auto is tiny for the demo and small for other corpora. On
    8 GPUs add --batch_tokens 200000 --lr 1e-3 to base and big."""
    config: str = ""
    """A YAML file of flags, one `name: value` a line; flags on the command line win over it."""


@dataclass(frozen=True)
class Config:
    """Train a translation Transformer, on one process or under torchrun."""

    run: Choice = field(default_factory=Choice)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batches: BatchConfig = field(default_factory=BatchConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logbook: LogbookConfig = field(default_factory=LogbookConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, by part and name."""
        return asdict(self)


def parse(arguments: Sequence[str], prints: bool = True) -> Config:
    """The configuration that the command line asks for.

    `prints` is false off rank 0: help and complaints are printed once. Raises UserError for an
    unusable YAML file, and SystemExit, with code 2 and one complaint, for unusable flags.
    """
    chosen, flags = _choices(arguments), list(arguments)
    if chosen.config:
        flags = read_yaml(Path(chosen.config)) + flags
        chosen = _choices(flags)
    preset = chosen.preset
    if preset == "auto":
        preset = "tiny" if chosen.dataset.startswith("demo") else "small"
    flags = [text for item in PRESETS[preset].items() for text in _flag(*item)] + flags
    with nullcontext() if prints else _silence():
        return tyro.cli(
            Config,
            args=flags,
            prog="train.py",
            config=(tyro.conf.OmitArgPrefixes,),
            use_underscores=True,
        )


@contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


@dataclass(frozen=True)
class _Choices(Choice):
    dataset: str = CorpusConfig.dataset


def _choices(flags: Sequence[str]) -> _Choices:
    """Those flags alone; whatever is wrong with them or others, the full parser will say."""
    try:
        with _silence():
            known, _ = tyro.cli(
                _Choices,
                args=list(flags),
                return_unknown_args=True,
                use_underscores=True,
                add_help=False,
            )
    except SystemExit:
        return _Choices()
    return known


def read_yaml(path: Path) -> list[str]:
    """The file's settings as flags. Values stay the text they are: `no` is a language code."""
    import yaml  # here, since nothing else needs it

    try:
        settings = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise UserError(f"--config {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(settings, dict):
        raise UserError(f"--config {path} must hold lines of the form `name: value`.")
    flags: list[str] = []
    for name, value in settings.items():
        if not isinstance(value, str):
            raise UserError(f"--config {path}: {name} must have one plain value, not {value}.")
        flags += _flag(name, value)
    return flags


def _flag(name: str, value: Any) -> list[str]:
    if name == "compile":  # the one switch
        if str(value).lower() not in ("true", "false"):
            raise UserError(f"{name} must be true or false, but is {value}.")
        return [f"--{name}" if str(value).lower() == "true" else f"--no_{name}"]
    return [f"--{name}", str(value)]
