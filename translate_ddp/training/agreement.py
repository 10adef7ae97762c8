"""Compares the settings of all ranks before they train together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from translate_ddp.errors import UserError
from translate_ddp.quantities import rank_names
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config
from translate_ddp.training.checkpoint_name import is_word
from translate_ddp.training.local_paths import PATHS


def check_same_settings(config: Config, world: World) -> None:
    """Raise UserError if settings, other than paths, or versions differ between ranks.

    The versions are those of PyTorch and of NumPy, which draws the plan. Different ones, or
    different settings, would train several models, or one by several plans. Nodes may keep their
    files in different places; that they hold the same data is checked later.
    """
    parts = config.to_dict().values()
    settings = {name: value for part in parts for name, value in part.items() if name not in PATHS}
    start = {name: getattr(config.checkpoint, name) for name in ("preload", "init_from")}
    settings |= {name: without_path(selection) for name, selection in start.items()}
    versions = {"version of PyTorch": str(torch.__version__), "version of NumPy": np.__version__}
    found = world.gather(settings | versions)
    if differences := describe_differences(found):
        table = "".join(f"\n  {line}" for line in differences)
        raise UserError(
            f"The ranks were started with different settings:{table}\n"
            "Start all of them with the same flags, settings file, PyTorch and NumPy."
        )


def without_path(selection: str) -> str:
    """What a setting selects: a word, an epoch or any file."""
    return (selection or "''") if is_word(selection) else "a file"


def describe_differences(found: list[dict[str, Any]]) -> list[str]:
    """A line for each name whose values differ, with the ranks of each value."""
    lines = []
    for name in found[0]:
        ranks: dict[str, list[int]] = {}
        for rank, values in enumerate(found):
            # As text: stages are lists, which cannot be keys.
            ranks.setdefault(str(values.get(name, "unset")), []).append(rank)
        if len(ranks) > 1:
            lines.append(
                f"{name}: "
                + "; ".join(f"{value} on {rank_names(where)}" for value, where in ranks.items())
            )
    return lines
