"""The name of a checkpoint file, which holds its step, its epoch and its digest.

A name holds the start of the file's sha256 (PyTorch hub's convention), so that one rename publishes
file and digest together. Does not import torch.
"""

import re
from dataclasses import dataclass
from pathlib import Path

DIGEST_CHARACTERS = 8


@dataclass(frozen=True)
class Checkpoint:
    """A file named like a checkpoint; it may be damaged."""

    path: Path
    step: int
    epoch: int | None  # the epoch it ends; None: saved within an epoch

    @property
    def order(self) -> tuple[int, bool]:
        """Sort key: the order in time within a run."""
        return self.step, self.epoch is not None


Checkpoints = list[Checkpoint]


def parse_name(path: Path, basename: str = ".+?") -> Checkpoint | None:
    """The checkpoint described by a file name; None if the name has another form."""
    match = re.fullmatch(
        rf"(?:{basename})_(?:epoch_(\d{{4,}})_)?step_(\d{{8,}})-[0-9a-f]{{{DIGEST_CHARACTERS}}}\.pt",
        path.name,
    )
    if match is None:
        return None
    epoch, step = match.groups()
    return Checkpoint(path, int(step), int(epoch) if epoch is not None else None)


def is_word(preload: str) -> bool:
    """Whether `--preload` is a word or an epoch, not the path of a file."""
    return preload in ("", "latest", "best") or preload.isdecimal()


def digest_in(name: str) -> str:
    """The start of the sha256 in the name of a checkpoint, or ""."""
    match = re.search(rf"_step_\d{{8,}}-([0-9a-f]{{{DIGEST_CHARACTERS}}})\.pt$", name)
    return match[1] if match else ""


def check_no_digest(name: str) -> None:
    """Raise ValueError if the file would be verified by a digest that its name does not hold."""
    if digest_in(name):
        raise ValueError(
            f"{name} ends like the checksum of a checkpoint: pass a name such as model.pt."
        )
