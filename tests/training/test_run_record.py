"""Reading the record of a run: complete, half-written, damaged, of another version."""

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.records import launch, write_events, write_lines, write_metrics, write_run
from translate_ddp.apps.commands.train import read_yaml
from translate_ddp.errors import UserError
from translate_ddp.run_record import End, LastValidation, Notice, SampleRows, Saved, read_run


def test_what_a_run_has_written_is_read(tmp_path: Path):
    events = [
        launch(1.0, 0),
        Notice(2.0, 3, "text"),
        Saved(3.0, 4, "a.pt", 5, None),
        Saved(4.0, 8, "b.pt", 5, 1),
        End(5.0, 8, "finished"),
    ]
    write_metrics(tmp_path, [{"step": 1, "time": 1.5, "train/loss": 2.0}])
    write_events(tmp_path, events)
    samples = SampleRows(8, [("source", "reference", "translation")])
    write_lines(tmp_path / "samples.jsonl", [asdict(samples)])
    validation = LastValidation(8, [("a", "b", "c")])
    (tmp_path / "validation.json").write_text(json.dumps(asdict(validation)))
    (tmp_path / "STATUS.json").write_text('{"state": "finished"}')
    (tmp_path / "config.yaml").write_text("seed: 3\ndataset:\n- demo\n")
    record = read_run(tmp_path)
    assert [*record.launches, *record.notices, *record.saved, *record.ends] == events
    assert record.samples == [samples] and record.validation == validation
    assert record.status == {"state": "finished"}
    assert record.settings == {"seed": "3", "dataset": ["demo"]}
    assert record.problems == []


def test_each_curve_has_the_steps_and_times_of_its_lines(tmp_path: Path):
    write_metrics(
        tmp_path,
        [
            {"step": 1, "time": 10.0, "a": 1.0, "epoch": 0.5},
            {"step": 2, "time": 20.0, "b": 5, "epoch": 1.0},
            {"step": 3, "time": 30.0, "epoch": 1.5, "a": "nan"},
            {"step": 4, "time": 40.0, "a": "-inf", "epoch": "what?"},
        ],
    )
    curves = read_run(tmp_path).curves
    assert curves.keys() == {"a", "b", "epoch"}
    assert curves["a"].steps.tolist() == [1, 3, 4]
    assert curves["a"].times.tolist() == [10, 30, 40]
    np.testing.assert_array_equal(curves["a"].values, [1, math.nan, -math.inf])
    np.testing.assert_array_equal(curves["epoch"].values, [0.5, 1, 1.5, math.nan])
    assert curves["b"].values.tolist() == [5]


def test_records_after_going_back_replace_those_before(tmp_path: Path):
    # As when a run resumes from an earlier checkpoint and metrics.jsonl is of another machine.
    steps, values = [1, 2, 3, 4, 3, 4, 5], [1, 2, 3, 4, 33, 44, 55]
    lines = [
        {"step": s, "time": t, "a": v} for t, (s, v) in enumerate(zip(steps, values, strict=True))
    ]
    write_metrics(tmp_path, lines)
    curve = read_run(tmp_path).curves["a"]
    assert curve.steps.tolist() == [1, 2, 3, 4, 5]
    assert curve.values.tolist() == [1, 2, 33, 44, 55]
    samples = [
        asdict(SampleRows(step, [("a", "b", f"{value}")]))
        for step, value in zip(steps, values, strict=True)
    ]
    write_lines(tmp_path / "samples.jsonl", samples)
    found = read_run(tmp_path).samples
    assert [(each.step, each.rows[0][2]) for each in found] == [
        *((1, "1"), (2, "2"), (3, "33"), (4, "44"), (5, "55"))
    ]


@pytest.mark.parametrize("text", ['{"step": 1, "ti', '{"step": 1, "time": 1, "rows": []}'])
def test_a_line_that_is_being_written_is_no_problem(text: str, tmp_path: Path):
    for file in ("metrics.jsonl", "events.jsonl", "samples.jsonl"):
        (tmp_path / file).write_text(text)
    record = read_run(tmp_path)
    assert record.curves == {} and not record.samples and record.problems == []


def test_damaged_parts_are_skipped_and_reported(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"step": 1, "time": 1.0, "a": 1}\n{"ste\n\xff\xfe\n[1]\n{"a": 7}\n'
        b'{"step": 2, "time": 2.0, "a": 2}\n'
    )
    (tmp_path / "events.jsonl").write_text(
        '{"event": "saved", "time": 1.0, "step": 2}\n'  # without a name
        '{"event": "notice", "time": 2.0, "step": 2, "text": "b"}\n'
    )
    (tmp_path / "samples.jsonl").write_text('{"rows": [["a", "b", "c"]]}\n')
    (tmp_path / "validation.json").write_text('{"step": 1, "lang_tgt": "it", "rows": 3}')
    (tmp_path / "STATUS.json").write_text("{")
    (tmp_path / "config.yaml").write_text("a: [")
    record = read_run(tmp_path)
    assert record.curves["a"].values.tolist() == [1, 2]
    assert [notice.text for notice in record.notices] == ["b"]
    assert not record.saved and not record.samples and record.validation is None
    named = "\n".join(record.problems)
    assert "metrics.jsonl: skipped 3 damaged lines" in named
    assert "events.jsonl: skipped 1 unreadable record" in named
    for file in ("samples.jsonl", "validation.json", "STATUS.json", "config.yaml"):
        assert file in named


def test_a_run_that_has_begun_has_a_record_before_its_first_metrics(tmp_path: Path):
    write_events(tmp_path, [launch(1.0, 0)])
    record = read_run(tmp_path)
    assert len(record.launches) == 1 and record.curves == {} and record.problems == []
    (tmp_path / "metrics.jsonl").mkdir()
    assert read_run(tmp_path).problems == ["metrics.jsonl cannot be read: Is a directory"]


def test_events_and_fields_of_later_versions_are_ignored(tmp_path: Path):
    write_metrics(tmp_path, [])
    write_lines(
        tmp_path / "events.jsonl",
        [
            {"event": "moved", "time": 1.0},
            {"event": "notice", "time": 1.0, "step": 2, "text": "a", "level": 3},
        ],
    )
    record = read_run(tmp_path)
    assert record.notices == [Notice(1.0, 2, "a")] and record.problems == []


def test_files_without_names_and_values_are_reported(tmp_path: Path):
    # An empty config.yaml, as after a power cut, is YAML of None.
    write_metrics(tmp_path, [])
    (tmp_path / "config.yaml").touch()
    (tmp_path / "validation.json").write_text("[1]")
    (tmp_path / "STATUS.json").mkdir()
    record = read_run(tmp_path)
    assert not record.settings and not record.status and record.validation is None
    assert sorted(record.problems) == [
        "STATUS.json cannot be read: Is a directory",
        "config.yaml cannot be read: it holds no names and values",
        "validation.json cannot be read: it holds no names and values",
    ]


@pytest.mark.parametrize("text", ["a:\n - " + "[" * 300_000, "- " * 300_000, "{a: " * 300_000])
def test_yaml_that_is_nested_too_deeply_is_an_error(tmp_path: Path, text: str):
    write_metrics(tmp_path, [])
    (tmp_path / "config.yaml").write_text(text)
    (found,) = read_run(tmp_path).problems
    assert found.startswith("config.yaml cannot be read: maximum recursion depth")
    with pytest.raises(UserError, match=r"--config .*config.yaml is not YAML: maximum recursion"):
        read_yaml(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a: &b [1, no]\nc: '*d'\ne: x*y & z\n", {"a": ["1", "no"], "c": "*d", "e": "x*y & z"}),
        ("a: &a [1]\nb: *a\n", {"a": ["1"], "b": ["1"]}),
        ("a: 1:2\nb: !!bool x\nc: 2026-99-99\nd:\n", dict(a="1:2", b="x", c="2026-99-99", d="")),
    ],
)
def test_settings_of_a_record_are_text(tmp_path: Path, text: str, settings: dict):
    write_metrics(tmp_path, [])
    (tmp_path / "config.yaml").write_text(text)
    record = read_run(tmp_path)
    assert (record.settings, record.problems) == (settings, [])


def test_a_page_is_made_without_torch(tmp_path: Path):
    # Importing it takes seconds, in a process beside the training.
    write_run(tmp_path, epochs=1)
    program = (
        "import sys; from pathlib import Path; from translate_ddp.apps.reporting.run_page import "
        f"write_report; write_report(Path({str(tmp_path)!r})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
