"""Named sets of model sizes and schedules. The user's flags override them."""

from collections.abc import Mapping, Set
from dataclasses import fields, replace
from typing import Any

from translate_ddp.errors import UserError
from translate_ddp.settings import Config, all_settings, as_tuples

# docs/recipe.md has the reason for each part.
SMALL: dict[str, Any] = {
    "d_model": 192,
    "num_heads": 4,
    "num_encoder_layers": 4,
    "num_decoder_layers": 4,
    "d_ff": 512,
    "dropout": 0.2,
    "vocab_size": 5000,
    "batch_tokens": 4096,
    "optimizer": "muon",
    "weight_decay": 0.3,
    "lr": 3e-3,
    "warmup_steps": 200,
    "schedule": "linear",
    "num_epochs": 45,
}

PRESETS: dict[str, dict[str, Any]] = {
    # The embedded demo, in minutes on two CPU cores: the model of settings.py, and sources as
    # people will type them to try it.
    "tiny": {
        "perturb": True,
        "num_epochs": 5,
        "warmup_steps": 100,
        "optimizer": "muon",
        "weight_decay": 0.3,
        "schedule": "linear",
    },
    # Fewer than 10,000 pairs: as small; first, each pair teaches both directions. An epoch has few
    # steps, so they are smaller, and have more decay: in how many epochs weights forget should not
    # depend on the size of a corpus (Wang and Aitchison 2025).
    "few": SMALL | {"swap_epochs": 30, "weight_decay": 2.0, "batch_tokens": 2048},
    # Fewer than 100,000 pairs, on a CPU or any GPU: a small model and vocabulary, much dropout,
    # long training.
    "small": SMALL,
    # As small, with the layers where decoding does not compute them at each token.
    "fast": SMALL | {"num_encoder_layers": 6, "num_decoder_layers": 2},
    # 100,000 to 1 million pairs, on one GPU: the model usual for IWSLT 2014 (Gao et al. 2022), with
    # twice its 4,096 tokens a step and, in proportion, twice its learning rate.
    "medium": {
        "d_model": 512,
        "num_heads": 4,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
        "d_ff": 1024,
        "dropout": 0.3,
        "vocab_size": 10_000,
        "batch_tokens": 8192,
        "lr": 1e-3,
        "warmup_steps": 4000,
        "num_epochs": 60,
        "average": 10,
    },
    # Vaswani et al. 2017, table 3: the base model, and its batch of about 25,000 tokens over all
    # GPUs. Larger batches train several GPUs faster (Ott et al. 2018: big, 400,000, 1e-3).
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
    # The big model of the same table.
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


# The number of training pairs below which a corpus has the preset.
LIMITS = {"few": 10_000, "small": 100_000, "medium": 1_000_000}


def choose_preset(
    preset: str, dataset: tuple[str, ...], pairs: int | None = None, is_new: bool = True
) -> str:
    """The name of the preset; "auto" is resolved if the corpus is the demo or `pairs` is known.

    `pairs` is the number of usable training pairs. Only a new model, not weights that know one
    direction, learns from few pairs by `few`.
    """
    if preset != "auto":
        return preset
    if all(name.partition(":")[0] == "demo" for name in dataset):
        return "tiny"
    if pairs is None:
        return "auto"
    found = next((name for name, limit in LIMITS.items() if pairs < limit), "base")
    return found if is_new or found != "few" else "small"


def with_preset(config: Config, preset: str, given: Set[str]) -> Config:
    """The settings of a preset, overridden by the settings of `config` named in `given`.

    At most two thirds of the epochs swap pairs, unless `swap_epochs` is given. Raises UserError if
    the settings do not fit together.
    """
    parts = (vars(getattr(config, part.name)) for part in fields(config))
    kept = {n: v for part in parts for n, v in part.items() if n in given}
    values: dict[str, Any] = PRESETS[preset] | kept | {"preset": preset}
    if "swap_epochs" in values.keys() - given:
        values["swap_epochs"] = min(values["swap_epochs"], values["num_epochs"] * 2 // 3)
    try:
        return with_values(Config(), values)
    except ValueError as error:
        raise UserError(str(error)) from error


def fit_vocabulary(config: Config) -> Config:
    """A tenth more of the preset's vocabulary for each language beyond two, at most 4 times."""
    tenths = min(max(10, 8 + len(config.corpus.languages)), 40)
    return with_values(config, {"vocab_size": config.tokenizer.vocab_size * tenths // 10})


def with_values(config: Config, values: dict[str, Any]) -> Config:
    """The settings with other values of some names, such as the values of a preset.

    Raises ValueError if they do not fit together.
    """
    parts: dict[str, Any] = {part.name: getattr(config, part.name) for part in fields(config)}
    for part, settings in parts.items():
        chosen = {name: value for name, value in values.items() if name in vars(settings)}
        parts[part] = replace(settings, **chosen)
    return replace(config, **parts)  # at once: parts are checked against each other


# Settings of where and how a run was started, of no interest to others.
PARTS_OMITTED = ("checkpoint", "logbook", "distributed", "run")


def changed_settings(config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a run, part by part in `config`, that differ from its preset and defaults.

    Those of `PARTS_OMITTED` are left out.
    """
    preset = PRESETS.get(config.get("run", {}).get("preset", ""), {})
    usual = {name: each.default for name, each in all_settings().items()} | preset
    return {
        name: value
        for part, settings in config.items()
        if part not in PARTS_OMITTED
        for name, value in settings.items()
        if as_tuples(value) != as_tuples(usual.get(name))
    }
