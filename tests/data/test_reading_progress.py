"""Progress of reading: increments that add up to the size of a source, and heartbeats."""

from pathlib import Path

import pytest

from tests.helpers.corpora import EN_DE, write, write_parallel, write_parquet
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.runtime.long_calls import PROGRESS

LINES = [f"{number} {number * 7919}" for number in range(30_000)]  # 400 kB


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate_ddp.data.readers.streams.BLOCK_BYTES", 2**16)
    monkeypatch.setattr("translate_ddp.data.readers.records.BATCH_ROWS", 1000)


def write_source(folder: Path, kind: str) -> str:
    if kind == "parallel":
        return write_parallel(folder / "x", [(line, line) for line in LINES])
    if kind == "shards":
        for part in "ab":
            write(
                folder / f"x-{part}.tsv.gz",
                "".join(f"{line}\t{line}\n" for line in LINES[:10_000]),
            )
        return str(folder / "x-*")
    if kind == "parquet":
        write_parquet(folder / "x.parquet", *({"en": line, "de": line} for line in LINES))
        return str(folder / "x.parquet")
    content = {
        "tsv": lambda line: f"{line}\t{line}\n",
        "csv.xz": lambda line: f"{line},{line}\n",
        "jsonl.zst": lambda line: f'{{"en": "{line}", "de": "{line}"}}\n',
        "json": lambda line: f'{"," if line != LINES[0] else "["}{{"en": "{line}", "de": "x"}}',
        "tmx": lambda line: (
            f'<tu><tuv lang="en"><seg>{line}</seg></tuv><tuv lang="de"><seg>{line}</seg></tuv></tu>'
        ),
    }[kind]
    text = "".join(map(content, LINES))
    ends = {"json": ("", "]"), "tmx": ("<tmx>", "</tmx>")}.get(kind, ("", ""))
    return write(folder / f"x.{kind}", f"{ends[0]}{text}{ends[1]}")


@pytest.mark.parametrize(
    "kind", ["parallel", "shards", "parquet", "tsv", "csv.xz", "jsonl.zst", "json", "tmx"]
)
def test_increments_add_up_to_the_size_with_a_heartbeat_for_each(folder: Path, kind: str):
    rows = read_pairs(write_source(folder, kind), EN_DE)
    for _ in range(2):  # each reading reports its own
        done: list[int] = []
        before = PROGRESS.heartbeats
        assert sum(1 for _ in rows.read(done.append)) == (20_000 if kind == "shards" else 30_000)
        assert sum(done) == rows.size > 0
        assert PROGRESS.heartbeats - before >= len(done) >= 2


def test_rows_are_read_as_they_are_needed(folder: Path):
    # A corpus is larger than the memory.
    for kind in ("tsv", "parallel", "tmx"):
        source = write_source(folder, kind)
        done: list[int] = []
        rows = read_pairs(source, EN_DE)
        next(rows.read(done.append))
        assert 0 < sum(done) < rows.size / 1.5
    assert next(rows.read(ignore_progress)) == (LINES[0], LINES[0])
