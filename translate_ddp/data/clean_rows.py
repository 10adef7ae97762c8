"""Cleans a batch of rows, in a worker process."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from translate_ddp.data.cleaning import Cleaner
from translate_ddp.data.pair_store import RECORD, Pair
from translate_ddp.data.rows import Row

SPLIT_SALT = b"translate_ddp"  # another salt gives another validation set
EXAMPLES = 3  # of the dropped rows, for each reason
EXAMPLE_CHARACTERS = 200


@dataclass
class CleanedRows:
    """The usable rows of a batch, and the reasons for dropping the others."""

    lines: bytes  # as `PairStore` has them
    records: np.ndarray
    rows: int  # read
    dropped: Counter[str] = field(default_factory=Counter)  # rows by reason
    examples: dict[str, list[Pair]] = field(default_factory=dict)  # the first ones of each reason
    scripts: dict[int, str] = field(default_factory=dict)  # number in the records -> name


def clean_rows(clean: Cleaner, rows: Sequence[Row]) -> CleanedRows:
    """The usable pairs of the rows, and the numbers and examples of the others by reason."""
    result = CleanedRows(b"", np.empty(0, dtype=RECORD), len(rows))
    lines, numbers = [], []
    for row in rows:
        cleaned = clean(row)
        if cleaned.reason:
            result.dropped[cleaned.reason] += 1
            examples = result.examples.setdefault(cleaned.reason, [])
            if len(examples) < EXAMPLES:
                examples.append(shortened(row))
            continue
        source, target = cleaned.src.encode(), cleaned.tgt.encode()
        line = b"%b\t%b\n" % (source, target)
        lines.append(line)
        scripts = tuple(_number(name, result.scripts) for name in cleaned.scripts)
        near = _hash(cleaned.near.encode()) if cleaned.near else 0
        numbers.append((len(line), _hash(source), _hash(target), _hash(line), near, scripts))
    result.lines = b"".join(lines)
    result.records = np.array(numbers, dtype=RECORD)
    return result


def shortened(row: Row) -> Pair:
    """A pair to show: each side at most `EXAMPLE_CHARACTERS` long, '' where it is not text."""
    src, tgt = ((text or "")[:EXAMPLE_CHARACTERS] for text in row)
    return src, tgt


def _hash(data: bytes) -> int:
    digest = hashlib.blake2b(data, digest_size=8, salt=SPLIT_SALT).digest()
    return int.from_bytes(digest, "big")


def _number(script: str, names: dict[int, str]) -> int:
    """A number of the script that is the same in all processes."""
    number = zlib.crc32(script.encode())
    names[number] = script
    return number
