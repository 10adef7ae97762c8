"""Parallel text: two files in which the same lines are translations of each other."""

import glob
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from translate_ddp.data.read_errors import list_names
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.parallel_names import common_start, find_pair
from translate_ddp.data.readers.tables import (
    COMPRESSIONS,
    Located,
    check_file,
    file_identity,
    find_table,
    is_table,
    reader_of,
    size_of,
)
from translate_ddp.data.rows import Advance, Columns, Languages, Row, Rows, join_rows
from translate_ddp.errors import UserError
from translate_ddp.settings import Quoting, SourceOptions


class Column:
    """The texts of one side of a file, and their number so far."""

    def __init__(self, batches: Iterable[Columns]) -> None:
        self.count = 0
        self._batches = batches

    def __iter__(self) -> Iterator[str | None]:
        return chain.from_iterable(self._counted())

    def _counted(self) -> Iterator[Sequence[str | None]]:
        for (texts,) in self._batches:
            self.count += len(texts)
            yield texts


def read_side(path: Path, wanted: Wanted, advance: Advance, notices: list[str]) -> Column:
    """The wanted side of a table, or the lines of any other file.

    Raises UserError, at once or while they are read, if it cannot be read.
    """
    return Column(reader_of(path)(path, wanted, advance, notices))


def parallel_rows(
    src_path: Path, tgt_path: Path, languages: Languages, quoting: Quoting = "auto"
) -> Rows:
    """The texts of two files, or tables, side by side.

    Reading them raises UserError if their numbers differ.
    """
    for path in (src_path, tgt_path):
        check_file(path)
    notices: list[str] = []
    src_side = Wanted.one("src", *languages, quoting)
    tgt_side = Wanted.one("tgt", languages[1], languages[0], quoting)

    def batches(advance: Advance) -> Iterator[Iterator[Row]]:
        src = read_side(src_path, src_side, advance, notices)
        tgt = read_side(tgt_path, tgt_side, advance, notices)
        src_texts, tgt_texts = iter(src), iter(tgt)
        yield zip(src_texts, tgt_texts)  # noqa: B905  (the numbers are compared below)
        for texts in (src_texts, tgt_texts):
            deque(texts, maxlen=0)  # on to the end, to count
        if src.count != tgt.count:
            raise UserError(
                f"{src_path} has {src.count:,} lines and {tgt_path} {tgt.count:,}: line by line"
                " they must be translations of each other."
            )

    def read(advance: Advance) -> Iterator[Row]:
        notices.clear()
        return chain.from_iterable(batches(advance))

    return Rows(str(src_path), size_of(src_path) + size_of(tgt_path), read, notices)


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
    missing = languages[1] if src else languages[0]
    raise UserError(
        f"Of the parallel text {folder / start} there is only {single}, and no file in the"
        f" language {missing!r} (plain or {list_names(COMPRESSIONS)}). {folder} holds"
        f" {list_names(sorted(path.name for path in folder.iterdir()))}."
    )


def find_shards(pattern: str, languages: Languages, options: SourceOptions) -> Located | None:
    """The files that match the pattern, in the order of their names, as one table or parallel text.

    Of parallel text, it may match both files of each pair or one. Raises UserError if they cannot
    be read together.
    """
    matches = sorted(path for path in map(Path, glob.glob(pattern)) if not path.is_dir())
    if not matches:
        return None
    others: list[Path] = []
    if all(map(is_table, matches)):
        for path in matches:
            check_file(path)  # a link may have no target
        found = [find_table(path, languages, options) for path in matches]
    else:
        starts = [common_start(path, languages) for path in matches]
        others = [path for path, start in zip(matches, starts, strict=True) if start is None]
        found = [
            find_parallel(start.parent, start.name, languages)
            for start in dict.fromkeys(filter(None, starts))
        ]
    parts = [part for part in found if part is not None]
    if not parts:
        raise UserError(
            f"{pattern} matches {list_names(path.name for path in matches)}: neither tables nor"
            f" parallel text in {' and '.join(languages)}."
        )
    identity = [line for part in parts for line in part.identity]
    notice = ""
    if others:
        names = list_names(path.name for path in others)
        notice = f"Not read of {pattern}: {names}, no parallel text in {' and '.join(languages)}."
    return Located(identity, lambda: join_rows(pattern, [part.rows() for part in parts], notice))
