"""Selection by hashes, compared with plain Python on all pairs in memory."""

import random
from pathlib import Path

import numpy as np
import pytest

from translate_ddp.data import selection
from translate_ddp.data.pair_store import RECORD, PairStore, to_lines


@pytest.fixture(autouse=True, params=[1 << 22, 7])
def part_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """One part, and many."""
    monkeypatch.setattr(selection, "PART_ROWS", request.param)


def drawn(count: int, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes with repetitions, and marks of kept rows."""
    numbers = random.Random(count)
    values = [numbers.getrandbits(64) for _ in range(kinds)]
    hashes = np.array([numbers.choice(values) for _ in range(count)], dtype=np.uint64)
    return hashes, np.array([numbers.random() < 0.8 for _ in range(count)])


@pytest.mark.parametrize(("count", "kinds"), [(1, 1), (50, 1), (200, 60), (200, 10_000)])
def test_repeated_rows(count: int, kinds: int):
    hashes, is_kept = drawn(count, kinds)
    seen, expected = set(), []
    for row in np.flatnonzero(is_kept).tolist():
        if hashes[row] in seen:
            expected.append(row)
        seen.add(hashes[row])
    assert selection.repeated(hashes, is_kept).tolist() == expected


def test_rows_with_wanted_hashes():
    hashes, is_kept = drawn(200, 60)
    wanted = hashes[:9]
    expected = [row for row in range(200) if is_kept[row] and hashes[row] in set(wanted.tolist())]
    assert selection.rows_with(hashes, wanted, is_kept).tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 50, 1000])
def test_smallest_hashes(count: int):
    hashes, is_kept = drawn(200, 10_000)
    chosen = np.flatnonzero(selection.smallest(hashes, is_kept, count)).tolist()
    kept = np.flatnonzero(is_kept).tolist()
    assert chosen == sorted(sorted(kept, key=lambda row: hashes[row])[:count])


def records_of(hashes: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    records = np.zeros(len(hashes), dtype=RECORD)
    records["source"], records["pair"] = hashes, pairs
    return records


@pytest.mark.parametrize("wanted", [1, 10, 12, 1000])  # three sources have exactly 12
def test_held_out_are_whole_sources_with_the_smallest_hashes(wanted: int):
    hashes, is_kept = drawn(200, 60)
    pairs = np.arange(200, dtype=np.uint64) // 2
    groups = selection.held_out(records_of(hashes, pairs), is_kept, wanted)
    sources = sorted(set(hashes[is_kept].tolist()))
    expected, count = [], 0
    for source in sources[:-1]:  # the largest is left for training
        if count < wanted:
            rows = [row for row in range(200) if is_kept[row] and hashes[row] == source]
            expected.append(rows)
            count += len({pairs[row] for row in rows})
    assert [group.tolist() for group in groups] == expected


def test_nothing_is_held_out_of_one_source():
    hashes = np.full(5, 3, dtype=np.uint64)
    assert selection.held_out(records_of(hashes, hashes), np.ones(5, dtype=bool), 2) == []


def test_stored_pairs_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("translate_ddp.data.pair_store.BATCH_PAIRS", 3)
    pairs = [(f"source {n}", f"zeile\u2028{'ü' * n}") for n in range(10)]
    store = PairStore(tmp_path)
    for part in (pairs[:4], pairs[4:]):
        records = np.zeros(len(part), dtype=RECORD)
        records["bytes"] = [len(to_lines([pair])) for pair in part]
        store.append([(to_lines(part), records)])
    assert len(store) == 10
    is_kept = np.arange(10) % 4 != 1
    is_kept[3:6] = False  # a whole batch
    batches = list(store.batches(is_kept))
    assert [pair for _, batch in batches for pair in batch] == [
        pair for pair, kept in zip(pairs, is_kept, strict=True) if kept
    ]
    assert len(batches) == 4
    starts = [rows.start for rows, _ in store.batches(is_kept, [0, 4, 4, 10])]
    assert starts == [0, 3, 4, 6, 9]
    assert store.pairs([7, 0, 9, 7]) == [pairs[7], pairs[0], pairs[9], pairs[7]]
