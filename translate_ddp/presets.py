"""Named sets of model sizes and schedules. The user's flags override them."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # The embedded demo, in minutes on two CPU cores: the defaults in settings.py, and sources as
    # people will type them to try it.
    "tiny": {"perturb": True},
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
    # Vaswani et al. 2017, table 3: the base model, and its batch of about 25,000 tokens over all
    # GPUs. 8 GPUs train faster with --batch_tokens 200000 --lr 1e-3 (Ott et al. 2018).
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


def choose_preset(preset: str, dataset: str) -> tuple[str, str]:
    """The name of the preset, with "auto" resolved, and the reason for it."""
    if preset != "auto":
        return preset, "--preset"
    if dataset.partition(":")[0] == "demo":
        return "tiny", "auto: the dataset is the demo"
    return "small", "auto: the dataset is not the demo"
