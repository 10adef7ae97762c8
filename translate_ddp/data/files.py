"""Files of sentence pairs on this machine: a table in one file, or two files of parallel text.

A finder returns None where there is no such file; it raises UserError where there is only a part.
"""

from __future__ import annotations

import csv
import glob
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from translate_ddp.data.columns import (
    Languages,
    Sides,
    named,
    sides_of,
    text_columns,
    text_features,
)
from translate_ddp.data.read_errors import explain_read_errors, list_names
from translate_ddp.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset

BUILDERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True)
class Located:
    """Where pairs were found; they are not read yet."""

    identity: list[str]  # changes when `read` would return other rows
    read: Callable[[], Mapping[str, Dataset]]  # split -> columns src and tgt


def find_table(path: Path, languages: Languages) -> Located | None:
    if not path.is_file():
        return None
    if _ending(path) not in BUILDERS:
        raise UserError(
            f"{path} does not end in {list_names(BUILDERS)} (or .gz of them). To read parallel"
            f" text, pass the common start of both file names, such as {path.with_suffix('')}."
        )
    sides = sides_of(languages)
    return Located([file_identity(path)], lambda: {"train": _read_table(path, sides)})


def find_parallel_text(prefix: Path, languages: Languages) -> Located | None:
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
    return Located(
        [*map(file_identity, found)],
        lambda: {"train": read_parallel(found[0], found[1], languages)},
    )


def file_identity(path: Path) -> str:
    found = path.stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def is_table(path: Path) -> bool:
    return _ending(path) in BUILDERS


def read_side(path: Path, side: str, language: str) -> Dataset:
    """The column `side`, src or tgt: of a table, or the lines of any other file, plain or .gz.

    Raises UserError if it cannot be read.
    """
    if is_table(path):
        return _read_table(path, {side: language})
    return _load("text", path, features=text_features(side))


def read_parallel(src_path: Path, tgt_path: Path, languages: Languages = ("src", "tgt")) -> Dataset:
    """The texts of two files side by side in the columns `src` and `tgt`.

    Raises UserError if a file cannot be read or the numbers of texts differ.
    """
    from datasets import concatenate_datasets

    src = read_side(src_path, "src", languages[0])
    tgt = read_side(tgt_path, "tgt", languages[1])
    if len(src) != len(tgt):
        raise UserError(
            f"{src_path} has {len(src):,} lines and {tgt_path} {len(tgt):,}:"
            f" line by line they must be translations of each other."
        )
    return concatenate_datasets([src, tgt], axis=1)


def _read_table(path: Path, sides: Sides) -> Dataset:
    builder = BUILDERS[_ending(path)]
    table = _read_csv(path, sides) if builder == "csv" else _load(builder, path)
    return text_columns(table, sides, path)


def _read_csv(path: Path, sides: Sides) -> Dataset:
    """All fields as text; columns are named by the header if it names the languages."""
    dialect: dict[str, Any] = {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL}
    if _ending(path) == ".tsv":
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    first_row = _load("csv", path, header=None, nrows=1, **dialect)[0]
    cells = [str(cell).strip() for cell in first_row.values()]
    languages = list(sides.values())
    has_header = set(languages) <= set(cells) or set(sides) <= set(cells)
    without_header = {2: ["src", "tgt"], len(sides): list(sides)}.get(len(cells))
    columns = cells if has_header else without_header
    if columns is None or not has_header and set(languages) & set(cells):
        raise UserError(
            f"{path} names no {named(languages)} (or {' and '.join(sides)}): its first row is"
            f" {list_names(cells)}. Name them there, or use two columns without a header."
        )
    # The header is read as a row, so that pandas rejects rows that are longer than it. With
    # `header=0` pandas would take the first field of such a row for a row label and shift the rest.
    dialect |= {"column_names": columns, "features": text_features(*columns)}
    dialect["skip_blank_lines"] = len(columns) > 1  # in one column a blank line is a text
    table = _load("csv", path, header=None, keep_default_na=False, **dialect)
    return table.select(range(1, len(table))) if has_header else table


def _load(builder: str, path: Path, **settings: Any) -> Dataset:
    from datasets import load_dataset

    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty.")
    silence_libraries()
    files = {"train": glob.escape(str(path.resolve()))}
    with explain_read_errors(path, "It may be damaged, not UTF-8, or of another format."):
        loaded = load_dataset(builder, data_files=files, split="train", **settings)
    return cast("Dataset", loaded)


def silence_libraries() -> None:
    """Turn off progress bars, warnings and download counts of the libraries that read."""
    import huggingface_hub
    from datasets import config, disable_progress_bars, logging

    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    huggingface_hub.logging.set_verbosity_error()
    # Otherwise every reading of a local file sends a request and waits for the answer.
    config.HF_UPDATE_DOWNLOAD_COUNTS = False


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix
