"""What a run left in its folder, and whether two runs left the same."""

import json
from pathlib import Path
from typing import Any

import torch

from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, load

NOT_COMPARED = ("time", "train/tokens_per_second")


def metrics(folder: Path) -> list[dict[str, Any]]:
    """What a run recorded, without what depends on the clock."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [{k: v for k, v in r.items() if k not in NOT_COMPARED} for r in records]


def losses(folder: Path) -> list[float]:
    return [record["train/loss"] for record in metrics(folder) if "train/loss" in record]


def checkpoints(folder: Path) -> list[str]:
    return [c.path.name for c in CheckpointStore(CheckpointConfig(str(folder))).list()]


def last_state(folder: Path) -> dict[str, Any]:
    newest = CheckpointStore(CheckpointConfig(str(folder))).list()[0]
    return load(newest.path.read_bytes(), newest.path.name).to_dict()


def tensors(tree: Any, name: str = "") -> dict[str, Any]:
    """Every leaf of nested dicts and lists, by its path."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {k: v for key, value in items for k, v in tensors(value, f"{name}/{key}").items()}
    return {name: tree}


def assert_same_state(one: Path, other: Path) -> None:
    """Weights, optimizer and position are equal bit for bit."""
    states = [last_state(folder) for folder in (one, other)]
    for part in ("model", "optimizer", "position"):
        left, right = (tensors(state[part]) for state in states)
        assert left.keys() == right.keys()
        for name in left:
            if isinstance(left[name], torch.Tensor):
                assert torch.equal(left[name], right[name]), f"{part}{name}"
            else:
                assert left[name] == right[name], f"{part}{name}"
