"""Files on this machine: which reader reads each, what identifies it, and its rows.

A corpus is one table, or parallel text: two files in which the same lines are translations of each
other.
"""

import glob
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, repeat
from pathlib import Path
from typing import NamedTuple

from translate_ddp.data.languages import written
from translate_ddp.data.readers.delimited import read_csv, read_tsv
from translate_ddp.data.readers.markup import read_sgm, read_tmx
from translate_ddp.data.readers.records import count_parquet_rows, read_json, read_parquet
from translate_ddp.data.readers.spreadsheet import SPREADSHEETS, read_spreadsheet
from translate_ddp.data.readers.streams import (
    COMPRESSIONS,
    LOCK,
    compression_of,
    first_bytes,
    read_lines,
    without_compression,
)
from translate_ddp.data.row_choice import chosen_rows
from translate_ddp.data.rows import (
    Advance,
    Languages,
    NumberedRow,
    Reader,
    Reading,
    Rows,
    Wanted,
    join_rows,
    list_names,
    make_rows,
)
from translate_ddp.errors import NoSuchPair, UserError
from translate_ddp.settings import Quoting, SourceOptions

READERS: dict[str, Reader] = {
    ".jsonl": read_json,
    ".json": read_json,
    ".ndjson": read_json,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".tmx": read_tmx,
    **dict.fromkeys(SPREADSHEETS, read_spreadsheet),
}
ONE_SIDE: dict[str, Reader] = {".sgm": read_sgm, ".sgml": read_sgm}
ARCHIVES = (".tar", ".tgz", ".zip", ".bz2", ".7z", ".rar")

Pair = tuple[Path | None, Path | None]
Forms = list[tuple[str, str]]  # patterns for the names of source and target
# Source and target in names of files with `src` or `ref`, as in test sets.
ROLES = (("src", "ref"), ("ref", "src"), ("ref", "ref"))
ONE_FORM = (".{code}", ".{code}.txt", "-{code}.txt", ".{code}.sgm")
# After the common start of both names.
ENDINGS: Forms = [(form, form) for form in ONE_FORM] + [
    (f"-{src}{form}", f"-{tgt}{form}") for form in ONE_FORM for src, tgt in ROLES
]
# Names of two files without a common start.
WHOLE_NAMES: Forms = [(form, form) for form in ("{code}.txt", "{code}.dev", "{code}.devtest")] + [
    (src + form, tgt + form) for form in ONE_FORM for src, tgt in ROLES
]


class Located(NamedTuple):
    """Where the rows of a split were found; they are not read yet."""

    identity: list[str]  # changes when `rows` would have others
    rows: Callable[[], Rows]


def is_table(path: Path) -> bool:
    return without_compression(path).suffix.lower() in READERS


def reader_of(path: Path) -> Reader:
    """What reads the file: a table, or the texts of one side, lines as a rule."""
    return (READERS | ONE_SIDE).get(without_compression(path).suffix.lower(), read_lines)


def check_file(path: Path) -> None:
    """Raise UserError if the file does not exist, is empty, or cannot be read by its name."""
    if not path.is_file():
        raise UserError(f"{path} is a folder." if path.is_dir() else f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty.")
    if compression_of(path) and reader_of(path) in (read_parquet, read_spreadsheet):
        kind = without_compression(path).suffix
        raise UserError(f"{path}: {kind} is compressed inside. Decompress the file.")


def size_of(path: Path) -> int:
    """What the reader of the file reports in all: rows of parquet, else bytes."""
    return count_parquet_rows(path) if reader_of(path) is read_parquet else path.stat().st_size


def file_identity(path: Path) -> str:
    found = path.stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def find_table(path: Path, languages: Languages, options: SourceOptions) -> Located | None:
    """A table in one file. Raises UserError if the file is of no such format."""
    if not path.is_file():
        return None
    if not is_table(path):
        raise UserError(_describe_other(path, languages))
    wanted = Wanted.pair(languages, options)
    return Located([file_identity(path)], lambda: table_rows(path, wanted))


def table_rows(path: Path, wanted: Wanted, sheet: str = "") -> Rows:
    """The rows of a table, or of one sheet of a spreadsheet.

    Raises UserError, at once or while they are read, if they cannot be read.
    """
    check_file(path)
    name = f"{path}:{sheet}" if sheet else str(path)

    def batches(advance: Advance, notices: list[str]) -> Iterator[Iterator[NumberedRow]]:
        reading = Reading(path, wanted, advance, notices, sheet)
        return chosen_rows(reading, name, reader_of(path)(reading))

    return make_rows(name, size_of(path), batches)


def _describe_other(path: Path, languages: Languages) -> str:
    """The message about a file that is no table by its name."""
    first_bytes(path)  # raises if it is a document
    plain = without_compression(path)
    if plain.suffix.lower() in ARCHIVES:
        return f"{path} must be unpacked first: pass the files that it holds."
    one_side = f"{path} is one side of parallel text:"
    if path in find_pair(path.parent, "", languages):
        return f"{one_side} pass the folder of both files, {path.absolute().parent}."
    if start := common_start(path, languages):
        return f"{one_side} pass the start of both file names, {start}."
    return (
        f"{path} does not end in {list_names(READERS)} (or {list_names(COMPRESSIONS)} of them)."
        " If it has source and target in each line, with a tab between them, rename it to"
        f" {plain.stem}.tsv. Of parallel text in two files, pass the start of both names."
    )


def read_side(reading: Reading) -> Iterator[Sequence[str | None]]:
    """The wanted side of a table, or the lines of any other file, in batches.

    Raises UserError, at once or while they are read, if it cannot be read.
    """
    return (texts for (texts,) in reader_of(reading.path)(reading))


def parallel_rows(
    src_path: Path, tgt_path: Path, languages: Languages, quoting: Quoting = "auto"
) -> Rows:
    """The texts of two files, or tables, side by side.

    Reading them raises UserError if their numbers differ.
    """
    paths, counts, name = (src_path, tgt_path), [0, 0], str(src_path)
    for path in paths:
        check_file(path)
    sides = (
        Wanted.one("src", *languages, quoting),
        Wanted.one("tgt", languages[1], languages[0], quoting),
    )

    def texts(side: int, advance: Advance, notices: list[str]) -> Iterator[Sequence[str | None]]:
        counts[side] = 0
        for batch in read_side(Reading(paths[side], sides[side], advance, notices)):
            counts[side] += len(batch)
            yield batch

    def batches(advance: Advance, notices: list[str]) -> Iterator[Iterator[NumberedRow]]:
        src, tgt = (chain.from_iterable(texts(side, advance, notices)) for side in range(2))
        yield zip(repeat(name), count(1), src, tgt)  # noqa: B905  (the sizes are compared below)
        for rest in (src, tgt):
            deque(rest, maxlen=0)  # on to the end, to count
        if counts[0] != counts[1]:
            raise UserError(
                f"{src_path} has {counts[0]:,} lines and {tgt_path} {counts[1]:,}: line by line"
                " they must be translations of each other."
            )

    return make_rows(name, sum(map(size_of, paths)), batches)


def find_pair(folder: Path, start: str, languages: Languages) -> Pair:
    """The files whose names begin with `start`, or are the languages if it is ''.

    If no form of names has both, the only one that is there.
    """
    single: Pair = (None, None)
    for src, tgt in ENDINGS if start else WHOLE_NAMES:
        one, other = languages
        pair = _find_side(folder, start + src, one), _find_side(folder, start + tgt, other)
        if all(pair):
            return pair
        single = single if any(single) else pair
    return single


def _find_side(folder: Path, form: str, language: str) -> Path | None:
    for code in written(language):
        # Not str.format: a name may have braces.
        plain = form.replace("{code}", code)
        for ending in ("", *COMPRESSIONS):
            if (path := folder / f"{plain}{ending}").is_file():
                return path
    return None


def common_start(path: Path, languages: Languages) -> Path | None:
    """The path without the ending of one of the languages; None if it is in no such language.

    If there are several, one that has files in both languages.
    """
    plain = without_compression(path)
    codes = [code for language in languages for code in written(language)]
    ends = (form.replace("{code}", code) for code in codes for forms in ENDINGS for form in forms)
    names = (plain.name.removesuffix(end) for end in ends)
    starts = [plain.with_name(name) for name in names if name not in ("", plain.name)]
    both = (start for start in starts if all(find_pair(start.parent, start.name, languages)))
    return next(both, starts[0] if starts else None)


def find_parallel(folder: Path, start: str, languages: Languages) -> Located | None:
    """Two files in the folder whose names begin with `start`, or are the languages if it is ''.

    Raises UserError if there is only one of them.
    """
    src, tgt = find_pair(folder, start, languages)
    if src and tgt:
        identity = [file_identity(src), file_identity(tgt)]
        return Located(identity, lambda: parallel_rows(src, tgt, languages))
    if not (single := src or tgt):
        return None
    missing, flag = (languages[1], "--lang_tgt") if src else (languages[0], "--lang_src")
    raise NoSuchPair(
        f"Of the parallel text {folder / start} there is only {single}, and no file in the"
        f" language {missing!r} of {flag} (plain or {list_names(COMPRESSIONS)}). {folder} holds"
        f" {list_names(sorted(path.name for path in folder.iterdir()))}."
    )


def find_shards(pattern: str, languages: Languages, options: SourceOptions) -> Located | None:
    """The files that match the pattern, in the order of their names, as one table or parallel text.

    Of parallel text, it may match both files of each pair or one. Raises UserError if they cannot
    be read together.
    """
    found = sorted(path for path in map(Path, glob.glob(pattern)) if not path.is_dir())
    matches = [path for path in found if not LOCK.match(path.name)]
    if not matches:
        return None
    others: list[Path] = []
    if all(map(is_table, matches)):
        for path in matches:
            check_file(path)  # a link may have no target
        found = [find_table(path, languages, options) for path in matches]
    else:
        starts = {path: common_start(path, languages) for path in matches}
        others = [path for path, start in starts.items() if start is None]
        found = [
            find_parallel(start.parent, start.name, languages)
            for start in dict.fromkeys(filter(None, starts.values()))
        ]
    parts = list(filter(None, found))
    pair = " and ".join(languages)
    if not parts:
        names = list_names(path.name for path in matches)
        raise NoSuchPair(f"{pattern} matches {names}: neither tables nor parallel text in {pair}.")
    names = list_names(path.name for path in others)
    notice = f"Not read of {pattern}: {names}, no parallel text in {pair}." if others else ""
    identity = [line for part in parts for line in part.identity]
    return Located(identity, lambda: join_rows(pattern, [part.rows() for part in parts], notice))
