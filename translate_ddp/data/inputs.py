"""The texts and pairs that commands read, in every format that training reads."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from translate_ddp.data.columns import Languages, text_features
from translate_ddp.data.corpus import read_pairs
from translate_ddp.data.files import is_table, read_parallel, read_side
from translate_ddp.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset


def read_sources(path: Path, language: str) -> Dataset:
    """The column `src`: a table's texts in the language, null where there is none, or all lines.

    A file without lines has no texts. Raises UserError if the file cannot be read.
    """
    if _has_no_lines(path):
        from datasets import Dataset

        return Dataset.from_dict({"src": []}, features=text_features("src"))
    return read_side(path, "src", language)


def read_texts(path: Path, side: str, language: str) -> list[str]:
    """All texts of one side of a file. Raises UserError if one is missing."""
    return _texts(read_side(path, side, language), side, path)


def read_given_pairs(
    source: str, reference: str, languages: Languages
) -> tuple[list[str], list[str]]:
    """Sources and references of two files, or of one source as training reads it.

    Raises UserError if they cannot be read, or if a text is missing.
    """
    if reference:
        pairs = read_parallel(Path(source), Path(reference), languages)
    elif Path(source).is_file() and not is_table(Path(source)):
        raise UserError(f"{source} has one text per line: pass their translations as --reference.")
    else:
        pairs = read_pairs(source, *languages)
    return _texts(pairs, "src", source), _texts(pairs, "tgt", reference or source)


def _texts(table: Dataset, side: str, source: str | Path) -> list[str]:
    texts: list[str | None] = table[side][:]
    if None in texts:
        raise UserError(
            f"{source} has no text in row {texts.index(None) + 1} ({side}), and in"
            f" {texts.count(None):,} rows in total: remove them."
        )
    return [text for text in texts if text is not None]


def _has_no_lines(path: Path) -> bool:
    """Whether the file is plain text, or .gz of it, and empty."""
    if is_table(path) or not path.is_file():
        return False
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            return not file.read(1)
    except (OSError, EOFError, zlib.error):  # reading it reports the same
        return False
