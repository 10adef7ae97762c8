"""Rows of text as streams: the interface between reading and preparation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

Languages = tuple[str, str]  # source, target
Row = tuple[str | None, str | None]  # source and target as stored; None: not text
Columns = Sequence[Sequence[str | None]]  # of equal lengths: those of some rows
Advance = Callable[[int], object]  # is called with increments of the work that is done


class Remark(str):
    """A notice of how a file is read. Other notices are of faults, which commands do not accept."""


BY_POSITION = Remark()  # columns are chosen by their order, as no header names them; not shown


@dataclass(frozen=True)
class Rows:
    """The rows of one split of a source. Each call of `read` reads them again, as a stream."""

    name: str  # in messages: the path, or the name on the hub
    size: int  # of the work: bytes of files (compressed), or rows of tables
    read: Callable[[Advance], Iterator[Row]]
    """Calls its argument with the increments of `size` that were read. Raises UserError where the
    source cannot be read."""
    remarks: list[str] = field(default_factory=list)  # of the last `read`, complete at its end

    @property
    def notices(self) -> list[str]:
        """What users should know of the last `read`."""
        return [*filter(None, self.remarks)]


def make_rows(
    name: str, size: int, read: Callable[[Advance, list[str]], Iterable[Columns]]
) -> Rows:
    """Rows of the batches of two columns that `read` returns. It adds notices to its list."""
    notices: list[str] = []

    def rows(advance: Advance) -> Iterator[Row]:
        notices.clear()
        # No Python code runs for a single row.
        return chain.from_iterable(zip(*columns) for columns in read(advance, notices))  # noqa: B905

    return Rows(name, size, rows, notices)


def join_rows(name: str, parts: Sequence[Rows], notice: str = "") -> Rows:
    """The rows of all parts, in order. `notice` is the first of the notices, if it is not ''."""
    if len(parts) == 1 and not notice:
        return parts[0]
    notices: list[str] = []

    def batches(advance: Advance) -> Iterator[Iterator[Row]]:
        for part in parts:
            yield part.read(advance)
            notices.extend(part.remarks)

    def read(advance: Advance) -> Iterator[Row]:
        notices[:] = [notice] if notice else []
        return chain.from_iterable(batches(advance))

    return Rows(name, sum(part.size for part in parts), read, notices)


def ignore_progress(increment: int) -> None:
    """For `Rows.read`, where nothing shows progress."""
