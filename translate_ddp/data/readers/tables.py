"""Files on this machine: which reader reads each, what identifies it, and its rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from translate_ddp.data.read_errors import list_names
from translate_ddp.data.readers.arrow import count_parquet_rows, read_parquet
from translate_ddp.data.readers.byte_stream import (
    DECOMPRESSORS,
    compression_of,
    read_bytes,
    without_compression,
)
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.delimited import read_csv, read_tsv
from translate_ddp.data.readers.json_rows import read_json
from translate_ddp.data.readers.lines import read_lines, read_sgm
from translate_ddp.data.readers.parallel_names import common_start, find_pair
from translate_ddp.data.readers.tmx import read_tmx
from translate_ddp.data.rows import Advance, Columns, Languages, Rows, ignore_progress, make_rows
from translate_ddp.errors import UserError
from translate_ddp.settings import SourceOptions

Reader = Callable[[Path, Wanted, Advance, list[str]], Iterator[Columns]]
READERS: dict[str, Reader] = {
    ".jsonl": read_json,
    ".json": read_json,
    ".ndjson": read_json,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".tmx": read_tmx,
}
ONE_SIDE: dict[str, Reader] = {".sgm": read_sgm, ".sgml": read_sgm}
COMPRESSIONS = tuple(DECOMPRESSORS)
ARCHIVES = (".tar", ".tgz", ".zip", ".bz2", ".7z", ".rar")


@dataclass(frozen=True)
class Located:
    """Where the rows of a split were found; they are not read yet."""

    identity: list[str]  # changes when `rows` would have others
    rows: Callable[[], Rows]


def is_table(path: Path) -> bool:
    return without_compression(path).suffix.lower() in READERS


def find_table(path: Path, languages: Languages, options: SourceOptions) -> Located | None:
    """A table in one file. Raises UserError if the file is of no such format."""
    if not path.is_file():
        return None
    if not is_table(path):
        raise UserError(_describe_other(path, languages))
    wanted = Wanted.pair(languages, options)

    def rows() -> Rows:
        check_file(path)
        reader = reader_of(path)
        return make_rows(
            str(path),
            size_of(path),
            lambda advance, notices: reader(path, wanted, advance, notices),
        )

    return Located([file_identity(path)], rows)


def _describe_other(path: Path, languages: Languages) -> str:
    """The message about a file that is no table by its name."""
    next(read_bytes(path, ignore_progress), None)  # raises if it is a document
    plain = without_compression(path)
    if plain.suffix.lower() in ARCHIVES:
        return f"{path} must be unpacked first: pass the files that it holds."
    one_side = f"{path} is one side of parallel text:"
    if path in find_pair(path.parent, "", languages):
        return f"{one_side} pass the folder of both files, {path.absolute().parent}."
    if start := common_start(path, languages):
        advice = f"pass the start of both file names, {start}."
        if not all(find_pair(start.parent, start.name, languages)):
            names = " and ".join(f"{start.name}.{language}" for language in languages)
            advice = f"name both files alike, such as {names}, and {advice}"
        return f"{one_side} {advice}"
    return (
        f"{path} does not end in {list_names(READERS)} (or {list_names(COMPRESSIONS)} of them)."
        " If it has source and target in each line, with a tab between them, rename it to"
        f" {plain.stem}.tsv. Of parallel text in two files, pass the start of both names."
    )


def reader_of(path: Path) -> Reader:
    """What reads the file: a table, or the texts of one side, lines as a rule."""
    return (READERS | ONE_SIDE).get(without_compression(path).suffix.lower(), read_lines)


def check_file(path: Path) -> None:
    """Raise UserError if the file does not exist, is empty, or cannot be read by its name."""
    if not path.is_file():
        raise UserError(f"{path} is a folder." if path.is_dir() else f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty.")
    if compression_of(path) and reader_of(path) is read_parquet:
        raise UserError(f"{path}: parquet is compressed inside. Decompress the file.")


def size_of(path: Path) -> int:
    """What the reader of the file reports in all: rows of parquet, else bytes."""
    return count_parquet_rows(path) if reader_of(path) is read_parquet else path.stat().st_size


def file_identity(path: Path) -> str:
    found = path.stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"
