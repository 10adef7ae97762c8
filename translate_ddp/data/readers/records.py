"""Tables with named columns: JSON, parquet, and the tables of the library `datasets`.

A column may be inside the column `translation`, which has one for each language.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from translate_ddp.data.readers.streams import (
    CONVERT,
    HEAD_BYTES,
    MAX_LINE_BYTES,
    TextFile,
    check_content,
    first_bytes,
)
from translate_ddp.data.row_choice import SAMPLE_ROWS, chosen_rows, find_columns
from translate_ddp.data.rows import (
    Advance,
    Columns,
    NumberedRow,
    Reading,
    Rows,
    Wanted,
    explain_read_errors,
    make_rows,
)
from translate_ddp.errors import UserError
from translate_ddp.runtime.long_calls import heartbeat

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

NESTED = "translation"
BETWEEN = re.compile(r"[\s,]*")  # elements of an array
BATCH_ROWS = 10_000
NO_PARQUET = "It may be damaged, or no parquet file."


def read_json(reading: Reading) -> Iterator[Columns]:
    """The values of the wanted keys, None where there is no text.

    The file has an object in each line, or is one array of objects. Raises UserError, with the
    line, if it cannot be read.
    """
    file = TextFile(reading)
    is_array = first_bytes(file.path).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
    names: list[str] = []
    for batch in _array(file) if is_array else _lines(file):
        keys, sample = _keys(batch), batch[:SAMPLE_ROWS]
        columns = [[_value(item, key) for item in sample] for key in keys]
        names = names or find_columns(reading, keys, columns)
        yield [_texts(batch, name) for name in names]


def _lines(file: TextFile) -> Iterator[list[Any]]:
    for lines in file.blocks():
        texts = [line for line in lines if line.strip()]
        try:  # one call for all lines is twice as fast
            values = json.loads(f"[{','.join(texts)}]")
        except (ValueError, RecursionError):
            values = []
        if len(values) != len(texts):
            first = file.count - len(lines) + 1
            numbered = enumerate(lines, first)
            values = [_parse(file, line, text) for line, text in numbered if text.strip()]
        if values:
            yield values


def _parse(file: TextFile, line: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = f"line {line:,} is no JSON: {error}"
        if text.lstrip().startswith("{") and getattr(error, "pos", 0) >= len(text.rstrip()):
            reason = f"the object in line {line:,} does not end there: write each pair in one line"
            reason += f" (jq -c . FILE; of a list '.KEY[]' for .). Of keys and texts, {CONVERT}."
        raise UserError(f"{file.path} cannot be read: {reason}") from error


def _array(file: TextFile) -> Iterator[list[Any]]:
    """The elements of an array, which may all be in one line."""
    decoder = json.JSONDecoder()
    parts = file.parts(b"}")
    text, line = next(parts, "").lstrip().removeprefix("["), 1  # what is not parsed yet
    while True:
        values: list[Any] = []
        place = 0
        while match := BETWEEN.match(text, place):
            place = match.end()
            try:
                value, place = decoder.raw_decode(text, place)
            except (ValueError, RecursionError):  # its end, or the rest is in the next part
                break
            values.append(value)
        if values:
            yield values
        line += text.count("\n", 0, place)
        text = text[place:]
        if text.startswith("]"):
            break
        part = next(parts, None)
        if part is None or len(text) > MAX_LINE_BYTES:
            raise UserError(
                f"{file.path} cannot be read: the object in line {line:,} is no JSON, or"
                " incomplete."
            )
        text += part
    if any(rest.strip() for rest in chain([text[1:]], parts)):
        raise UserError(
            f"{file.path} cannot be read: text follows the end of its array in line {line:,}. "
            "Write all objects into one array, or one object per line."
        )


def _keys(batch: Iterable[Any]) -> list[str]:
    """The keys of the objects, and of the objects inside their `translation`, each once."""
    objects = [value for value in batch if isinstance(value, dict)]
    inner = [value[NESTED] for value in objects if isinstance(value.get(NESTED), dict)]
    keys = dict.fromkeys(key for value in (*inner, *objects) for key in value)
    if inner:
        keys.pop(NESTED)
    return list(keys)


def _texts(batch: Iterable[Any], key: str) -> list[str | None]:
    found = (_value(item, key) for item in batch)
    values = [value if isinstance(value, str) else None for value in found]
    try:
        "".join(filter(None, values)).encode()
    except UnicodeEncodeError:  # half a character, as from the escape \ud83d alone
        values = [
            value and value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            for value in values
        ]
    return values


def _value(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        return None
    inner = item.get(NESTED)
    return inner.get(key) if isinstance(inner, dict) and key in inner else item.get(key)


def read_parquet(reading: Reading) -> Iterator[Columns]:
    """The wanted columns, None where there is no text. Raises UserError if they cannot be read."""
    path = reading.path
    with explain_read_errors(path, NO_PARQUET), _open_parquet(path) as file:
        sample = next(file.iter_batches(SAMPLE_ROWS), file.schema_arrow.empty_table())
        columns = ArrowColumns(reading, sample)
        for batch in file.iter_batches(BATCH_ROWS, columns=columns.top_level):
            heartbeat()
            reading.advance(batch.num_rows)
            yield columns.texts(batch)


def count_parquet_rows(path: Path) -> int:
    with explain_read_errors(path, NO_PARQUET), _open_parquet(path) as file:
        return file.metadata.num_rows


def _open_parquet(path: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    with path.open("rb") as content:
        check_content(path, content.read(HEAD_BYTES))
    # A buffer, so that a row group is not in memory as a whole.
    return ParquetFile(path, buffer_size=2**20)


def dataset_rows(name: str, dataset: Dataset, wanted: Wanted) -> Rows:
    """The wanted columns of a table. Reading them raises UserError if one is missing."""

    def batches(reading: Reading) -> Iterator[Columns]:
        columns = ArrowColumns(reading, dataset.with_format("arrow")[:SAMPLE_ROWS])
        tables = dataset.select_columns(columns.top_level).with_format("arrow")
        for table in tables.iter(BATCH_ROWS):
            heartbeat()
            found = columns.texts(cast("pa.Table", table))
            reading.advance(len(found[0]))
            yield found

    def pairs(advance: Advance, notices: list[str]) -> Iterator[Iterator[NumberedRow]]:
        reading = Reading(Path(name), wanted, advance, notices)
        return chosen_rows(reading, name, batches(reading))

    return make_rows(name, len(dataset), pairs)


class ArrowColumns:
    """The wanted columns of tables of Arrow with one schema, and those that select rows."""

    def __init__(self, reading: Reading, sample: pa.Table | pa.RecordBatch) -> None:
        """`sample`: the first rows. Raises UserError if a column is missing."""
        from pyarrow.types import is_struct

        schema = sample.schema
        inner: list[str] = []
        if NESTED in schema.names and is_struct(schema.field(NESTED).type):
            inner = [field.name for field in schema.field(NESTED).type]
        outer = [name for name in schema.names if not (inner and name == NESTED)]
        places = {name: (name, "") for name in outer} | {name: (NESTED, name) for name in inner}
        columns = [_values(sample.column(outer), key) for outer, key in places.values()]
        self._paths = [places[name] for name in find_columns(reading, [*places], columns)]
        self.top_level = list(dict.fromkeys(name for name, _ in self._paths))

    def texts(self, table: pa.Table | pa.RecordBatch) -> Columns:
        """The texts of the columns, None where there is none. Raises what pyarrow raises."""
        columns = (_values(table.column(name), key) for name, key in self._paths)
        return [[value if isinstance(value, str) else None for value in each] for each in columns]


def _values(column: Any, key: str) -> list[Any]:
    """The values of a column, or of its field `key`."""
    if key:  # `flatten`, not `field`: it is null where the struct is
        column = column.flatten()[column.type.get_field_index(key)]
    try:
        return column.to_pylist()
    except UnicodeDecodeError:  # cleaning drops and counts rows that are not UTF-8
        stored = column.cast("binary").to_pylist()
        return [value and value.decode(errors="replace") for value in stored]
