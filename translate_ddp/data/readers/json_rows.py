"""JSON: an object in each line, or one array of objects."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from translate_ddp.data.read_errors import explain_read_errors
from translate_ddp.data.readers.byte_stream import read_bytes
from translate_ddp.data.readers.columns import Wanted
from translate_ddp.data.readers.encoding import check_head
from translate_ddp.data.readers.lines import DAMAGED, MAX_LINE_BYTES, TextFile
from translate_ddp.data.rows import Advance, Columns
from translate_ddp.errors import UserError

NESTED = "translation"  # a column with a key for each language
BETWEEN = re.compile(r"[\s,]*")
Texts = list[str | None]


def read_json(
    path: Path, wanted: Wanted, advance: Advance, notices: list[str]
) -> Iterator[Columns]:
    """The values of the wanted keys, None where there is no text.

    A key is one of the objects, or inside their `translation`. Raises UserError, with the line, if
    the file cannot be read.
    """
    is_array = _is_array(path)
    batches = _array(path, advance) if is_array else _lines(TextFile(path, advance, notices))
    names: list[str] = []
    for batch in batches:
        names = names or wanted.require(_keys(batch), path)
        yield [_texts(batch, name) for name in names]


def _is_array(path: Path) -> bool:
    with explain_read_errors(path, DAMAGED):
        head = next(read_bytes(path, lambda _: None), b"")
    return head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


def _lines(file: TextFile) -> Iterator[list[Any]]:
    for lines in file.blocks():
        texts = [line for line in lines if line.strip()]
        try:  # one call for all lines is twice as fast
            values = json.loads(f"[{','.join(texts)}]")
        except (ValueError, RecursionError):
            values = None
        if values is None or len(values) != len(texts):
            first = file.count - len(lines) + 1
            values = [
                _parse(file.path, line, text)
                for line, text in enumerate(lines, first)
                if text.strip()
            ]
        if values:
            yield values


def _parse(path: Path, line: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: line {line:,} is no JSON: {error}") from error


def _array(path: Path, advance: Advance) -> Iterator[list[Any]]:
    """The elements of an array, which may all be in one line."""
    decoder = json.JSONDecoder()
    text, line, is_closed = "", 1, False  # the text that is not parsed yet, and where it begins
    blocks = _decoded(path, advance)
    for number, block in enumerate(blocks):
        text += block if number else block.lstrip().removeprefix("[")
        values: list[Any] = []
        place = 0
        while True:
            match = BETWEEN.match(text, place)
            place = match.end() if match else place
            is_closed = text.startswith("]", place)
            if is_closed or place == len(text):
                break
            try:
                value, place = decoder.raw_decode(text, place)
            except (ValueError, RecursionError):  # the rest may be in the next block
                break
            values.append(value)
        line += text.count("\n", 0, place)
        text = text[place:]
        if len(text) > MAX_LINE_BYTES:
            break
        if values:
            yield values
        if is_closed:
            if any(rest.strip() for rest in chain([text.removeprefix("]")], blocks)):
                raise UserError(
                    f"{path} cannot be read: text follows the end of its array in line {line:,}. "
                    "Write all objects into one array, or one object per line."
                )
            return
    raise UserError(
        f"{path} cannot be read: the object in line {line:,} is no JSON, or incomplete."
    )


def _decoded(path: Path, advance: Advance) -> Iterator[str]:
    """The text of the file, about 1 MiB at a time."""

    def checked() -> Iterator[bytes]:
        for number, block in enumerate(read_bytes(path, advance)):
            if number == 0:
                check_head(path, block)
            yield block

    blocks = codecs.iterdecode(checked(), "utf-8-sig")
    while True:
        with explain_read_errors(path, "It may be damaged, or not UTF-8."):
            block = next(blocks, None)
        if block is None:
            return
        yield block


def _keys(batch: Iterable[Any]) -> list[str]:
    """The keys of the objects, and of the objects inside their `translation`, each once."""
    objects = [value for value in batch if isinstance(value, dict)]
    inner = [value[NESTED] for value in objects if isinstance(value.get(NESTED), dict)]
    keys = dict.fromkeys(key for value in (*inner, *objects) for key in value)
    if inner:
        keys.pop(NESTED)
    return list(keys)


def _texts(batch: Iterable[Any], key: str) -> Texts:
    values = [_value(item, key) for item in batch]
    try:
        "".join(value for value in values if value is not None).encode()
    except UnicodeEncodeError:  # of escapes such as \ud83d without its other half
        values = [value and _without_halves(value) for value in values]
    return values


def _without_halves(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _value(item: Any, key: str) -> str | None:
    if not isinstance(item, dict):
        return None
    inner = item.get(NESTED)
    value = inner.get(key) if isinstance(inner, dict) and key in inner else item.get(key)
    return value if isinstance(value, str) else None
