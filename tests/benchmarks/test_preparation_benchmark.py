"""The benchmark of preparation: its corpus, what it measures, and its rows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.preparation import PreparationBenchmark, measure, provide_task, rows_of
from benchmarks.report import Row
from benchmarks.rounds import Outcome, Usage, disk_mib, run_once
from tests.helpers.corpora import write_parallel
from translate_ddp.errors import UserError

MIB = 2**20


def test_pairs_are_generated_and_written_as_jsonl(tmp_path: Path):
    settings = PreparationBenchmark(tmp_path, lang_tgt="it")
    task, count = provide_task(settings, 150, tmp_path)
    sides = [file.read_text().splitlines() for file in task.files]
    assert count == len(sides[0]) == 150 and task.files[1].suffix == ".it"
    rows = [json.loads(line)["translation"] for line in task.jsonl.read_text().splitlines()]
    assert [(row["en"], row["it"]) for row in rows] == list(zip(*sides, strict=True))


def test_given_corpus_is_read_with_all_its_characters(tmp_path: Path):
    pairs = [("a\u2028b\r", "\x85"), ("", '"'), ("c\td", "e")]
    prefix = write_parallel(tmp_path / "given" / "train", pairs)
    task, count = provide_task(PreparationBenchmark(tmp_path, corpus=prefix), 0, tmp_path)
    lines = task.jsonl.read_text(encoding="utf-8").split("\n")[:-1]
    rows = [json.loads(line)["translation"] for line in lines]
    assert count == 3 and [(row["en"], row["de"]) for row in rows] == pairs
    assert task.jsonl.parent == tmp_path  # not in the folder of the user


def test_corpus_with_different_numbers_of_lines_is_reported(tmp_path: Path):
    prefix = write_parallel(tmp_path / "train", [("a", "b")])
    Path(f"{prefix}.de").write_text("b\nc\n")
    with pytest.raises(UserError, match="train cannot be read as parallel text"):
        provide_task(PreparationBenchmark(tmp_path, corpus=prefix), 0, tmp_path)


def test_memory_of_a_file_is_resident_but_not_anonymous(tmp_path: Path):
    (tmp_path / "file").write_bytes(bytes(64 * MIB))
    program = (
        "import mmap, sys\n"
        "if sys.argv[1] == 'anonymous': held = bytearray(b'x') * (64 << 20)\n"
        "else:\n"
        "    file = open(sys.argv[2], 'rb')\n"
        "    held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "    sum(held[::4096])\n"
        "print('ready', flush=True)\n"
        "input()\n"
    )
    found = {}
    for kind in ("anonymous", "file"):
        command = [sys.executable, "-c", program, kind, str(tmp_path / "file")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdout.readline()
            (usage := Usage(tmp_path))(process.pid)
            process.stdin.write("\n")
            process.stdin.close()
        assert usage.peaks["largest_rss_mib"] > 64
        found[kind] = usage.peaks["anonymous_mib"]
    assert found["anonymous"] > 64 and found["file"] < 32
    assert 64 <= disk_mib(tmp_path) < 65


def test_watch_is_called_with_the_running_process():
    seen: list[int] = []
    program = "import os, time; time.sleep(0.5); print('{\"pid\": %d}' % os.getpid())"
    result = run_once([sys.executable, "-c", program], 60, {}, seen.append, sample_seconds=0.05)
    assert len(seen) > 1 and set(seen) == {result["pid"]}


def test_own_preparation_is_measured_until_its_second_start(tmp_path: Path):
    settings = PreparationBenchmark(tmp_path, vocab_size=300)
    task, count = provide_task(settings, 300, tmp_path)
    result = measure("preparers.ours", task, count, 120, 0)
    assert 0 < result["seconds"] < result["first_step_seconds"]
    assert result["pairs_per_second"] == 300 / result["seconds"]
    assert result["second_start_seconds"] > 0
    assert 0 < result["left_mib"] < result["disk_mib"]
    assert 0 < result["anonymous_mib"] < result["peak_rss_mib"]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".de", ".en", ".jsonl"]


def test_rows_compare_each_round_with_ours():
    common = {"largest_rss_mib": 1, "peak_rss_mib": 2, "anonymous_mib": 3}
    common |= {"disk_mib": 4, "left_mib": 5, "caches_mib": 6}

    def outcome(seconds: list[float], **further: float) -> Outcome:
        return Outcome(
            [common | further | {"seconds": s, "pairs_per_second": 10 / s} for s in seconds]
        )

    own = outcome([1, 2, 4], first_step_seconds=7, second_start_seconds=8)
    peer = outcome([3, 4, 4])
    peer.rounds[1] = peer.rounds[1] | {"anonymous_mib": 9}
    rows = rows_of(10, {"translate_ddp": own, "peer": peer, "none": Outcome([], "reason")})
    assert [row.label for row in rows] == [
        "translate_ddp, 10 pairs",
        "peer, 10 pairs",
        "none, 10 pairs",
    ]
    assert rows[0].values["times ours"] == 1 and rows[0].values["second start, s"] == 8
    assert rows[1].values["times ours"] == 2  # the median of 3/1, 4/2 and 4/4
    assert rows[1].values["pairs/s"] == 2.5 and rows[1].values["first step, s"] == ""
    assert rows[1].values["anonymous, MiB"] == 9  # the most of all rounds
    assert rows[2] == Row("none, 10 pairs", failure="reason")
