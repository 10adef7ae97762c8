"""The record of one training run: a JSON file, and the system's own translations beside it."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Setting:
    """How a model is decoded."""

    average: int
    """Last epochs whose weights are averaged."""
    beam_width: int
    """1 is greedy."""
    length_penalty: float | None = None
    """Exponent of the length in the score; None: greedy search."""

    def __str__(self) -> str:
        penalty = "" if self.length_penalty is None else f", length^{self.length_penalty:g}"
        search = "greedy" if self.beam_width == 1 else f"beam {self.beam_width}{penalty}"
        return f"{search}, {average_name(self.average)}"


@dataclass(frozen=True)
class Scored:
    setting: Setting
    bleu: float


@dataclass(frozen=True)
class Record:
    """Everything that is reported of one training run."""

    name: str
    convention: str
    seed: int
    flags: list[str]  # of train.py, beside those of the protocol
    config: dict[str, Any]  # all settings that determine the result: part -> setting -> value
    parameters: int
    steps: int
    epochs: float
    target_tokens: int  # seen in training, end markers included
    minutes: float  # of the training processes, validation included
    facts: dict[str, Any]  # machine and software
    signature: str
    validation: list[Scored]
    chosen: Setting  # on validation
    test: dict[str, Scored]  # "chosen", "greedy", "last, beam", "last, greedy"; {}: not tested
    sha256: dict[str, str]  # split -> digest of the translations of `chosen`, which lie beside it

    @property
    def stem(self) -> str:
        return run_name(self.name, self.convention, self.seed)

    def validation_score(self, setting: Setting) -> float:
        return next(found.bleu for found in self.validation if found.setting == setting)

    def save(self, folder: Path) -> Path:
        path = folder / f"{self.stem}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> "Record":
        content = json.loads(path.read_text(encoding="utf-8"))
        content["validation"] = [_scored(entry) for entry in content["validation"]]
        content["chosen"] = Setting(**content["chosen"])
        content["test"] = {name: _scored(entry) for name, entry in content["test"].items()}
        return cls(**content)

    def translations(self, folder: Path, split: str) -> list[str]:
        """The translations of a split by `chosen`. Raises ValueError if the file has changed."""
        path = translations_file(folder, self.stem, split)
        text = gzip.decompress(path.read_bytes())
        if hashlib.sha256(text).hexdigest() != self.sha256[split]:
            raise ValueError(f"{path} is not the file that {self.stem}.json describes.")
        return text.decode("utf-8").removesuffix("\n").split("\n")


def run_name(name: str, convention: str, seed: int) -> str:
    return f"{name}-{convention}-{seed}"


def average_name(average: int) -> str:
    return "last epoch" if average == 1 else f"average of {average}"


def translations_file(folder: Path, stem: str, split: str) -> Path:
    return folder / f"{stem}.{split}.txt.gz"


def save_translations(folder: Path, stem: str, split: str, lines: Sequence[str]) -> str:
    """Write one translation per line; returns the digest of the text."""
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    # Without a time, so that the same text gives the same file.
    translations_file(folder, stem, split).write_bytes(gzip.compress(text, mtime=0))
    return hashlib.sha256(text).hexdigest()


def best(scored: Iterable[Scored], **conditions: Any) -> Setting:
    """The setting with the highest score, the first if equal, among those with these values."""
    found = [
        entry
        for entry in scored
        if all(getattr(entry.setting, name) == value for name, value in conditions.items())
    ]
    return max(found, key=lambda entry: entry.bleu).setting


def load_records(folder: Path) -> list[Record]:
    """All records, by convention, name and seed."""
    records = [Record.load(path) for path in folder.glob("*.json")]
    return sorted(records, key=lambda record: (record.convention, record.name, record.seed))


def _scored(entry: dict[str, Any]) -> Scored:
    return Scored(Setting(**entry["setting"]), entry["bleu"])
