"""Any source of sentence pairs -> one table with columns `src` and `tgt`; every row as it stands.

A source is one string, tried in this order:

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
import glob
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from translate_ddp.data.columns import Languages, listing, pair_columns, reading, text_features
from translate_ddp.data.huggingface import read_hub, read_repository
from translate_ddp.errors import UserError

if TYPE_CHECKING:
    # At run time the functions import it: 0.6 s that reading the command line need not wait for.
    from datasets import Dataset

BUILDERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
SPLIT_STEMS = {
    "train": ["train"],
    "validation": ["validation", "valid", "val", "dev"],
    "test": ["test"],
}
DEMO = Path(__file__).with_name("demo.tsv")  # columns split, en, it
HUB_ID = re.compile(r"\w[\w-]*|\w[\w.-]*/\w[\w.-]*")
HUB_ALIASES = {"opus_books": "Helsinki-NLP/opus_books"}


@dataclass(frozen=True)
class _Source:
    """Where pairs were found, not yet read."""

    identity: list[str]  # changes with what is there
    read: Callable[[], Mapping[str, Dataset]]  # split -> columns src and tgt


def read_splits(source: str, languages: Languages) -> Mapping[str, Dataset]:
    """The splits of a source by name, with columns `src` and `tgt`, null where there is no text."""
    _quieten_libraries()
    name, split = _name_and_split(source)
    splits = _locate(name, languages).read()
    if not split:
        return splits
    if split not in splits:
        raise UserError(f"{name} has no split {split!r}; it has {listing(splits)}.")
    return {split: splits[split]}


def source_identity(source: str, languages: Languages) -> list[str]:
    """What changes when the source would read otherwise: of files path, size and time, of a hub
    dataset the name. Raises UserError if there is no such source."""
    name, split = _name_and_split(source)
    return [split, *_locate(name, languages).identity]


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.rpartition(":")
    return (name, split) if name and split.isidentifier() else (source, "")


def _locate(name: str, languages: Languages) -> _Source:
    path = Path(name).expanduser()
    with reading(name, "Check the name and the permissions."):
        found = (
            _demo(name, languages)
            or _file(path, languages)
            or _parallel_text(path, languages)
            or _folder(path, languages)
            or _hub(name, languages)
        )
        if found is None:
            raise UserError(_nothing_there(path, languages))
    return found


def _nothing_there(path: Path, languages: Languages) -> str:
    sides = " and ".join(f"{path}.{language}" for language in languages)
    missing = f"There is no file or folder {path}, nor the two files {sides} (plain or .gz)."
    if not path.parent.is_dir():
        return f"{missing} There is no folder {path.parent} either."
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = get_close_matches(path.name, names) or names
    return f"{missing} In {path.parent} there is {listing(near)}."


def _demo(name: str, languages: Languages) -> _Source | None:
    if name != "demo":
        return None
    if set(languages) != {"en", "it"}:
        raise UserError(
            f"The demo corpus is English and Italian (en-it or it-en), not {'-'.join(languages)}:"
            f" choose these languages, or another dataset."
        )
    digest = hashlib.blake2b(DEMO.read_bytes()).hexdigest()
    return _Source([digest], lambda: _read_demo(languages))


def _read_demo(languages: Languages) -> dict[str, Dataset]:
    from datasets import Dataset

    splits: dict[str, list[dict[str, str]]] = {split: [] for split in SPLIT_STEMS}
    with DEMO.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            splits[row["split"]].append({"src": row[languages[0]], "tgt": row[languages[1]]})
    features = text_features("src", "tgt")
    return {split: Dataset.from_list(rows, features) for split, rows in splits.items()}


def _file(path: Path, languages: Languages) -> _Source | None:
    if not path.is_file():
        return None
    if _ending(path) not in BUILDERS:
        raise UserError(
            f"{path} does not end in {listing(BUILDERS)} (or .gz of them). To read parallel text,"
            f" give what both file names start with, such as {path.with_suffix('')}."
        )
    return _Source([_file_identity(path)], lambda: {"train": _read_file(path, languages)})


def _read_file(path: Path, languages: Languages) -> Dataset:
    if _ending(path) in (".csv", ".tsv"):
        return pair_columns(_read_csv(path, languages), languages, path)
    return pair_columns(_load(BUILDERS[_ending(path)], path), languages, path)


def _read_csv(path: Path, languages: Languages) -> Dataset:
    """Every field as the text it is, columns named by the header if it names the languages."""
    dialect: dict[str, Any] = {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL}
    if _ending(path) == ".tsv":
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    first_row = _load("csv", path, header=None, nrows=1, **dialect)[0]
    cells = [str(cell).strip() for cell in first_row.values()]
    has_header = set(languages) <= set(cells) or {"src", "tgt"} <= set(cells)
    if not has_header and (len(cells) != 2 or set(languages) & set(cells)):
        raise UserError(
            f"{path} names no columns {' and '.join(languages)} (or src and tgt): its first row is"
            f" {listing(cells)}. Name them there, or give two columns without a header."
        )
    # The header is read as a row: pandas then rejects rows that are longer than it. Told of a
    # header, it would take the first field of such a row for a row label, and shift the others.
    table = _load(
        "csv",
        path,
        header=None,
        column_names=cells if has_header else ["src", "tgt"],
        features=text_features(*(cells if has_header else ["src", "tgt"])),
        keep_default_na=False,
        **dialect,
    )
    return table.select(range(1, len(table))) if has_header else table


def _parallel_text(prefix: Path, languages: Languages) -> _Source | None:
    found: list[Path] = []
    for language in languages:
        plain = prefix.parent / f"{prefix.name}.{language}"
        found += [path for path in (plain, Path(f"{plain}.gz")) if path.is_file()][:1]
    if not found:
        return None
    if len(found) == 1:
        raise UserError(
            f"Of the parallel text {prefix} there is only {found[0]}: the other language of"
            f" {'-'.join(languages)} is missing (plain or .gz)."
        )
    return _Source(
        [_file_identity(path) for path in found], lambda: {"train": read_parallel(*found)}
    )


def read_parallel(src_path: Path, tgt_path: Path) -> Dataset:
    """Two files of as many lines, plain or .gz, side by side; columns `src` and `tgt`.

    Raises UserError if they cannot be read or do not match.
    """
    from datasets import concatenate_datasets

    _quieten_libraries()
    src = _load("text", src_path, features=text_features("src"))
    tgt = _load("text", tgt_path, features=text_features("tgt"))
    if len(src) != len(tgt):
        raise UserError(
            f"{src_path} has {len(src):,} lines and {tgt_path} {len(tgt):,}:"
            f" line by line they must be translations of each other."
        )
    return concatenate_datasets([src, tgt], axis=1)


def _folder(folder: Path, languages: Languages) -> _Source | None:
    if not folder.is_dir():
        return None
    parts = {split: _folder_part(folder, split, languages) for split in SPLIT_STEMS}
    held = {split: part for split, part in parts.items() if part is not None}
    if "train" in held:
        identity = [line for part in held.values() for line in part.identity]
        return _Source(identity, lambda: {name: held[name].read()["train"] for name in held})
    src, tgt = languages
    advice = (
        f"It holds {listing(sorted(path.name for path in folder.iterdir()))}: neither train.{src}"
        f" and train.{tgt}, nor another file named train, nor a whole copy of a hub dataset."
    )
    identity = [_file_identity(path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return _Source(identity, lambda: read_repository(str(folder.resolve()), languages, advice))


def _folder_part(folder: Path, split: str, languages: Languages) -> _Source | None:
    for stem in SPLIT_STEMS[split]:
        files = (folder / f"{stem}{ending}{gz}" for ending in BUILDERS for gz in ("", ".gz"))
        for path in files:
            if found := _file(path, languages):
                return found
        if found := _parallel_text(folder / stem, languages):
            return found
    return None


def _hub(name: str, languages: Languages) -> _Source | None:
    """A name the hub could know; `data/train` is none where there is a folder data."""
    owner = name.partition("/")[0]
    if not HUB_ID.fullmatch(name) or Path(name).suffix in (*BUILDERS, ".gz"):
        return None
    if owner != name and Path(owner).exists():
        return None
    full_name = HUB_ALIASES.get(name, name)
    return _Source([full_name], lambda: read_hub(full_name, languages))


def _load(builder: str, path: Path, **settings: Any) -> Dataset:
    from datasets import load_dataset

    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty.")
    files = {"train": glob.escape(str(path.resolve()))}
    with reading(path, "It may be damaged, not UTF-8, or not what its name says."):
        loaded = load_dataset(builder, data_files=files, split="train", **settings)
    return cast("Dataset", loaded)


def _quieten_libraries() -> None:
    import huggingface_hub
    from datasets import config, disable_progress_bars, logging

    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    huggingface_hub.logging.set_verbosity_error()
    # Else every reading of a local file is reported, and waits for an answer from the network.
    config.HF_UPDATE_DOWNLOAD_COUNTS = False


def _file_identity(path: Path) -> str:
    found = path.stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix
