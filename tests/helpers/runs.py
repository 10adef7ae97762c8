"""What a run left in its folder, and whether two runs left the same."""

import json
from operator import eq
from pathlib import Path
from typing import Any

import torch

from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, DamagedFile, load, verify_file

NOT_COMPARED = ("time", "train/tokens_per_second")


def records(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, which must be strict JSON."""

    def reject(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=reject) for line in lines]


def steps(folder: Path) -> list[int]:
    return [record["step"] for record in records(folder)]


def metrics(folder: Path) -> list[dict[str, Any]]:
    """What a run recorded, without what depends on the clock."""
    return [{k: v for k, v in r.items() if k not in NOT_COMPARED} for r in records(folder)]


def status(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "STATUS.json").read_text())


def validations(folder: Path, score: str) -> list[float]:
    """That score at each validation."""
    name = f"validation/{score}"
    return [record[name] for record in metrics(folder) if name in record]


def losses(folder: Path) -> list[float]:
    return [record["train/loss"] for record in metrics(folder) if "train/loss" in record]


def checkpoints(folder: Path) -> list[str]:
    return [c.path.name for c in CheckpointStore(CheckpointConfig(str(folder))).list()]


def last_state(folder: Path) -> dict[str, Any]:
    newest = CheckpointStore(CheckpointConfig(str(folder))).list()[0]
    return load(newest.path).to_dict()


def damage(path: Path) -> str | None:
    """What `verify_file` finds wrong with a file."""
    try:
        verify_file(path)
    except DamagedFile as error:
        return str(error)
    return None


def tensors(tree: Any, name: str = "") -> dict[str, Any]:
    """Every leaf of nested dicts and lists, by its path."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {k: v for key, value in items for k, v in tensors(value, f"{name}/{key}").items()}
    return {name: tree}


def assert_same_tree(one: Any, other: Any) -> None:
    """Every leaf of nested dicts and lists is equal, bit for bit."""
    left, right = tensors(one), tensors(other)
    assert left.keys() == right.keys()
    for name, value in left.items():
        same = torch.equal if isinstance(value, torch.Tensor) else eq
        assert same(value, right[name]), name


def assert_same_state(one: Path, other: Path) -> None:
    """Weights, optimizer and position are equal bit for bit."""
    left, right = last_state(one), last_state(other)
    for part in ("model", "optimizer", "position"):
        assert_same_tree(left[part], right[part])


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, optimizer, position and metrics are equal."""
    assert_same_state(one, other)
    assert metrics(one) == metrics(other)
