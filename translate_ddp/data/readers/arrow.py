"""Tables of Arrow: parquet files, and those of the library `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from translate_ddp.data.read_errors import explain_read_errors
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.encoding import InvalidLines
from translate_ddp.data.readers.json_rows import NESTED
from translate_ddp.data.rows import Advance, Columns, Rows, make_rows
from translate_ddp.runtime.long_calls import heartbeat

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

BATCH_ROWS = 10_000
DAMAGED = "It may be damaged, or no parquet file."


def read_parquet(
    path: Path, wanted: Wanted, advance: Advance, notices: list[str]
) -> Iterator[Columns]:
    """The wanted columns, None where there is no text. Raises UserError if they cannot be read."""
    with explain_read_errors(path, DAMAGED):
        file = _open_parquet(path)
    with file:
        columns = _Columns(path, file.schema_arrow, wanted)
        batches = file.iter_batches(BATCH_ROWS, columns=columns.top_level)
        while True:
            with explain_read_errors(path, DAMAGED):
                batch = next(batches, None)
            if batch is None:
                break
            yield columns.of(batch, advance)
    columns.invalid.finish(columns.count, notices)


def count_parquet_rows(path: Path) -> int:
    with explain_read_errors(path, DAMAGED), _open_parquet(path) as file:
        return file.metadata.num_rows


def _open_parquet(path: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    # A buffer, so that a row group is not in memory as a whole.
    return ParquetFile(path, buffer_size=2**20)


def dataset_rows(name: str, dataset: Dataset, wanted: Wanted) -> Rows:
    """The wanted columns of a table. Raises UserError if one is missing."""
    schema = dataset.features.arrow_schema
    _Columns(name, schema, wanted)

    def read(advance: Advance, notices: list[str]) -> Iterator[Columns]:
        columns = _Columns(name, schema, wanted)
        tables = dataset.select_columns(columns.top_level).with_format("arrow")
        for table in tables.iter(BATCH_ROWS):
            yield columns.of(table, advance)
        columns.invalid.finish(columns.count, notices)

    return make_rows(name, len(dataset), read)


class _Columns:
    """The wanted columns of tables, which may be inside the column `translation`."""

    def __init__(self, source: str | Path, schema: pa.Schema, wanted: Wanted) -> None:
        from pyarrow.types import is_struct

        inner: list[str] = []
        if NESTED in schema.names and is_struct(schema.field(NESTED).type):
            inner = [field.name for field in schema.field(NESTED).type]
        outer = [name for name in schema.names if not (inner and name == NESTED)]
        names = wanted.require([*inner, *outer], source)
        self._paths = [(NESTED, name) if name in inner else (name, "") for name in names]
        self.top_level = list(dict.fromkeys(name for name, _ in self._paths))
        self.invalid = InvalidLines(Path(source), "row")
        self.count = 0  # rows so far

    def of(self, table: pa.Table | pa.RecordBatch, advance: Advance) -> Columns:
        heartbeat()
        found = [self._texts(table, *path) for path in self._paths]
        self.count += table.num_rows
        advance(table.num_rows)
        return found

    def _texts(self, table: pa.Table | pa.RecordBatch, name: str, key: str) -> list[str | None]:
        import pyarrow as pa
        from pyarrow import types

        column = table.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if key:  # `flatten`, not `field`: it is null where the struct is
            column = column.flatten()[column.type.get_field_index(key)]
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        is_text = (types.is_string, types.is_large_string, types.is_string_view)
        if not any(check(column.type) for check in is_text):
            return [None] * len(column)
        try:
            return column.to_numpy(zero_copy_only=False).tolist()
        except (pa.ArrowException, UnicodeDecodeError):
            return self._decode(column.cast(pa.binary()).to_pylist())

    def _decode(self, values: list[bytes | None]) -> list[str | None]:
        for row, value in enumerate(values, self.count + 1):
            if value is not None and "\ufffd" in value.decode(errors="replace"):
                self.invalid.add(row, value)
        return [value if value is None else value.decode(errors="replace") for value in values]
