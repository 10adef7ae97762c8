"""One source of sentence pairs -> tables with the columns `src` and `tgt`, rows unchanged.

A source is one string. These are tried in this order:

    demo                     the embedded corpus of English and Italian (demo.tsv)
    data/train.tsv           one file: .jsonl .json .csv .tsv (.gz of them) or .parquet
    data/train               parallel text: data/train.en and data/train.de, plain or .gz
    data                     a folder with such files named train and, say, val,
                             or a local copy of a hub dataset
    Helsinki-NLP/opus_books  a dataset of the Hugging Face hub

`NAME:SPLIT` is one of its splits: `demo:test`, `wmt/wmt14:validation`.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from translate_ddp.data.columns import Languages, text_features
from translate_ddp.data.files import (
    BUILDERS,
    Located,
    file_identity,
    find_parallel_text,
    find_table,
    silence_libraries,
)
from translate_ddp.data.huggingface import read_hub, read_repository
from translate_ddp.data.read_errors import explain_read_errors, list_names
from translate_ddp.errors import UserError
from translate_ddp.runtime.heartbeat import library_call

if TYPE_CHECKING:
    from datasets import Dataset

SPLIT_STEMS = {
    "train": ["train"],
    "validation": ["validation", "valid", "val", "dev"],
    "test": ["test"],
}
DEMO = Path(__file__).with_name("demo.tsv")  # columns split, en, it
HUB_ID = re.compile(r"\w[\w-]*|\w[\w.-]*/\w[\w.-]*")
HUB_ALIASES = {"opus_books": "Helsinki-NLP/opus_books"}


def read_splits(source: str, languages: Languages) -> Mapping[str, Dataset]:
    """The splits of a source by name, with columns `src` and `tgt`, null where there is no text.

    Raises UserError if there is no such source or split, or it cannot be read.
    """
    silence_libraries()
    name, split = _name_and_split(source)
    located = _locate(name, languages)
    with library_call():
        splits = located.read()
    if split and split not in splits:
        raise UserError(f"{name} has no split {split!r}; it has {list_names(splits)}.")
    return {split: splits[split]} if split else splits


def source_identity(source: str, languages: Languages) -> list[str]:
    """Texts that change with the content: path, size and time of files, the name of a hub dataset.

    Raises UserError if there is no such source.
    """
    name, split = _name_and_split(source)
    return [split, *_locate(name, languages).identity]


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.rpartition(":")
    return (name, split) if name and split.isidentifier() else (source, "")


def _locate(name: str, languages: Languages) -> Located:
    path = Path(name).expanduser()
    with explain_read_errors(name, "Check the name and the permissions."):
        found = (
            _demo(name, languages)
            or find_table(path, languages)
            or find_parallel_text(path, languages)
            or _find_folder(path, languages)
            or _find_on_hub(name, languages)
        )
        if found is None:
            raise UserError(_describe_missing(path, languages))
    return found


def _describe_missing(path: Path, languages: Languages) -> str:
    sides = " and ".join(f"{path}.{language}" for language in languages)
    missing = f"There is no file or folder {path}, nor the two files {sides} (plain or .gz)."
    if not path.parent.is_dir():
        return f"{missing} There is no folder {path.parent} either."
    names = sorted(entry.name for entry in path.parent.iterdir())
    similar = get_close_matches(path.name, names) or names
    return f"{missing} {path.parent} holds {list_names(similar)}."


def _demo(name: str, languages: Languages) -> Located | None:
    if name != "demo":
        return None
    if set(languages) != {"en", "it"}:
        raise UserError(
            f"The demo corpus is English and Italian (en-it or it-en), not {'-'.join(languages)}:"
            f" choose these languages, or another dataset."
        )
    digest = hashlib.blake2b(DEMO.read_bytes()).hexdigest()
    return Located([digest], lambda: _read_demo(languages))


def _read_demo(languages: Languages) -> dict[str, Dataset]:
    from datasets import Dataset

    splits: dict[str, list[dict[str, str]]] = {split: [] for split in SPLIT_STEMS}
    with DEMO.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            splits[row["split"]].append({"src": row[languages[0]], "tgt": row[languages[1]]})
    features = text_features("src", "tgt")
    return {split: Dataset.from_list(rows, features) for split, rows in splits.items()}


def _find_folder(folder: Path, languages: Languages) -> Located | None:
    if not folder.is_dir():
        return None
    found = ((split, _find_split(folder, split, languages)) for split in SPLIT_STEMS)
    held = {split: part for split, part in found if part is not None}
    if "train" in held:
        identity = [line for part in held.values() for line in part.identity]
        return Located(identity, lambda: {name: held[name].read()["train"] for name in held})
    src, tgt = languages
    advice = (
        f"It holds {list_names(sorted(path.name for path in folder.iterdir()))}: neither"
        f" train.{src} and train.{tgt}, nor another file named train, nor a whole copy of a hub"
        " dataset."
    )
    identity = [file_identity(path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return Located(identity, lambda: read_repository(str(folder.resolve()), languages, advice))


def _find_split(folder: Path, split: str, languages: Languages) -> Located | None:
    for stem in SPLIT_STEMS[split]:
        names = (f"{stem}{ending}{gz}" for ending in BUILDERS for gz in ("", ".gz"))
        tables = filter(None, (find_table(folder / name, languages) for name in names))
        if found := next(tables, None) or find_parallel_text(folder / stem, languages):
            return found
    return None


def _find_on_hub(name: str, languages: Languages) -> Located | None:
    """The dataset of a name that is valid on the hub and, as a path, starts in no local folder."""
    owner, slash, _ = name.partition("/")
    is_file_name = Path(name).suffix in (*BUILDERS, ".gz")
    if not HUB_ID.fullmatch(name) or is_file_name or (slash and Path(owner).exists()):
        return None
    full_name = HUB_ALIASES.get(name, name)
    return Located([full_name], lambda: read_hub(full_name, languages))
