"""The benchmark of preparation: its generated corpus, what it measures, and its rows."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.generated_text import CHUNK_PAIRS, generate
from benchmarks.preparation import PreparationBenchmark, measure, provide_task, rows_of
from benchmarks.preparers import ours
from benchmarks.report import Row
from benchmarks.rounds import Outcome
from tests.helpers import processes


@pytest.mark.slow
def test_generated_sentences_are_as_long_and_as_varied_as_web_text():
    pairs = [pair for chunk in generate(CHUNK_PAIRS + 1) for pair in chunk]
    assert len(pairs) == CHUNK_PAIRS + 1 and len(set(pairs)) > 0.99 * len(pairs)
    assert next(generate(100)) == next(generate(100)) != next(generate(100, seed=1))
    lengths = sorted(len(source.split()) for source, _ in pairs)
    assert 18 < sum(lengths) / len(pairs) < 22
    assert lengths[0] >= 1 and lengths[len(pairs) // 2] < 17 and lengths[-1] > 100
    words = Counter(word for source, _ in pairs for word in re.findall(r"\w+", source.lower()))
    frequencies = [count for _, count in words.most_common()]
    # Zipf: the hundredth word is about ten times as rare as the tenth.
    assert 6 < frequencies[9] / frequencies[99] < 14
    numbered = next(generate(1000, with_numbers=True))
    for source, target in pairs + numbered:
        assert source.isascii() and target
        assert re.findall(r"\d+", source) == re.findall(r"\d+", target)
    assert all(re.search(r"\d{4}", source) for source, _ in numbered)


@pytest.mark.slow
def test_another_version_is_measured_with_its_own_modules_on_a_generated_corpus(tmp_path: Path):
    task = provide_task(PreparationBenchmark(tmp_path), 150, tmp_path)
    sides = [file.read_text().splitlines() for file in task.files]
    rows = [json.loads(line)["translation"] for line in task.jsonl.read_text().splitlines()]
    assert len(rows) == 150
    assert [(row["en"], row["de"]) for row in rows] == list(zip(*sides, strict=True))
    for name in ("benchmarks", "benchmarks/preparers", "translate_ddp"):
        (tmp_path / "old" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / name / "__init__.py").write_text("version = 1")
    program = (
        "import json, translate_ddp as it; print(json.dumps({'seconds': 3, 'is': it.version}))"
    )
    (tmp_path / "old/benchmarks/preparers/ours.py").write_text(program)
    before = {*tmp_path.iterdir()}
    result = measure("preparers.ours", task, 150, 120, 0, checkout=tmp_path / "old")
    assert (result["is"], result["seconds"], result["pairs_per_second"]) == (1, 3, 50)
    assert {*tmp_path.iterdir()} == before


def train_forked(words: Sequence[str], **_: Any) -> SimpleNamespace:
    flags = words[words.index("train.py") + 1 :]
    job = processes.train(flags, Path(words[words.index("--model_folder") + 1]).parent)
    rank = job.ranks[0]
    return SimpleNamespace(poll=lambda: rank.exitcode, terminate=rank.terminate, wait=job.wait)


@pytest.mark.slow
def test_own_preparation_is_measured_until_its_second_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    task = provide_task(PreparationBenchmark(tmp_path, vocab_size=300), 300, tmp_path)
    monkeypatch.setattr(ours, "read_settings", lambda *_: task)
    monkeypatch.setattr(ours.subprocess, "Popen", train_forked)
    ours.main()
    result = json.loads(capsys.readouterr().out)
    assert 0 < result["seconds"] < result["first_step_seconds"]
    assert result["second_start_seconds"] > 0 and result["left_mib"] > 0


def test_rows_compare_each_round_with_ours():
    common = {"peak_rss_mib": 2, "anonymous_mib": 3, "left_mib": 5, "caches_mib": 6}

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
