"""The page of a run: its facts, for runs in each state and of each version."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import records
from tests.helpers.charts import rects
from tests.helpers.pages import HOSTILE, Page, captions, section, values
from tests.helpers.records import (
    START,
    checkpoint_name,
    launch,
    write_events,
    write_metrics,
    write_run,
    write_status,
)
from translate_ddp.apps.reporting.clock import Clock
from translate_ddp.apps.reporting.page import render, write_report
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.apps.reporting.summary import Summary, run_state, summarize
from translate_ddp.run_record import End, Notice, Saved
from translate_ddp.runtime.run_folder import RunFolder

LATER = START + 100_000


def text_of(folder: Path, now: float = LATER) -> str:
    return Page(render(read_run(folder), now)).text


def loads_again(folder: Path) -> bool:
    """Whether browsers load the page again by themselves."""
    elements = Page(render(read_run(folder), LATER)).elements
    return ("meta", {"http-equiv": "refresh", "content": "60"}) in elements


def summary_of(folder: Path, now: float = LATER) -> Summary:
    record = read_run(folder)
    return summarize(record, Clock.of(record), now)


def points(*steps: int, every: float = 10.0, **values: Any) -> list[dict[str, Any]]:
    """Records of training at these steps, a step each `every` seconds from 0 s on."""
    return [
        {"step": s, "time": s * every, "train/loss": 1.0, "epoch": s / 10} | values for s in steps
    ]


def test_the_page_shows_the_facts_of_the_run(tmp_path: Path):
    write_run(tmp_path)
    text = text_of(tmp_path)
    assert "en to de: bentrevett/multi30k" in text
    assert "4 encoder and 4 decoder layers, width 192" in text and "preset small" in text
    assert "state finished" in text and "epoch 10 of 10" in text
    assert "step 1,800 of 1,800" in text
    assert "best BLEU 40" in text and "last BLEU 40" in text
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1" in text
    assert "training pairs 29,000" in text and "4.2% of the tokens" in text
    assert "longer than --seq_len" in text and "150" in text
    assert "seed 7" in text
    assert "translate_ddp 0.2.0, torch 2.13.0+cpu" in text
    assert "rank 1 node-a: cpu, 3 thread(s)" in text
    assert "the disk of weights has 2.1 GB left" in text


def test_charts_are_drawn_over_steps_and_over_time(tmp_path: Path):
    write_run(tmp_path)
    html = render(read_run(tmp_path), LATER)
    over_steps, over_time = html.split('class="charts over-time"')
    for title in ("Loss", "BLEU and chrF", "Error rates", "Learning rate", "Gradient norm"):
        assert f"<figcaption>{title}" in over_steps and f"<figcaption>{title}" in over_time
    assert "hours of training" in over_time and "hours of training" not in over_steps
    for kind in ("resumed", "skipped", "saved"):
        assert f'class="mark {kind}' in over_steps


def test_the_first_scores_of_a_run_do_not_flatten_its_charts(tmp_path: Path):
    rates = [3.02, 0.9, 0.7, 0.6, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.4, 0.4]  # quartiles 0.5, 0.625
    found = [{"step": n, "time": n, "validation/wer": rate} for n, rate in enumerate(rates)]
    write_metrics(tmp_path, found)
    chart = render(read_run(tmp_path), LATER).split("<figcaption>Error rates")[1]
    ticks = re.findall(r'text-anchor="end">([\d.]+)<', chart.split('class="window"')[0])
    assert max(map(float, ticks)) == 1 and ">up to 3.02<" in chart  # 0.9 is not far out
    assert "maximum 3.02." in chart


def test_a_curve_of_any_name_has_a_chart(tmp_path: Path):
    write_metrics(tmp_path, points(1, 2, **{"train/simcut": 3.0, "probe/<b>": 1.0}))
    html = render(read_run(tmp_path), LATER)
    assert "<figcaption>train/simcut" in html and "<figcaption>probe/&lt;b&gt;" in html


def test_the_same_sentences_are_shown_from_oldest_to_newest_with_differences(tmp_path: Path):
    write_run(tmp_path)
    html = render(read_run(tmp_path), LATER)
    section = html.split('id="sentences"')[1].split("</section>")[0]
    tables = section.split("<table")[1:]
    assert len(tables) == 5
    # The last three are the same.
    assert re.findall(r"epoch ([^<]+)<", tables[0]) == [*"1234567", "8 to 10"]
    first, last = tables[0].split("epoch 1<")[1].split("epoch 8 to 10<")
    assert "<mark>" in first and "<mark>" not in last  # the last one is the reference


def test_many_validations_show_the_first_and_the_last(tmp_path: Path):
    write_run(tmp_path, epochs=35, planned=35)
    section = render(read_run(tmp_path), LATER).split('id="sentences"')[1].split("</section>")[0]
    shown = re.findall(r"epoch ([\d to]+)<", section.split("<table")[1])
    assert len(shown) == 10 and shown[0] == "1" and shown[-1].endswith("35")


def test_a_checkpoint_has_its_score_while_its_file_exists(tmp_path: Path):
    write_run(tmp_path)
    (tmp_path / checkpoint_name(7)).unlink()
    text = text_of(tmp_path).split("Checkpoints", 2)[2].split("History")[0]
    assert checkpoint_name(7) not in text
    assert f"10 1,800 640 kB 40.00 (best) {checkpoint_name(10)}" in text
    assert f"9 1,620 640 kB 38.35 {checkpoint_name(9)}" in text  # 40 * 0.9 ** 0.4
    assert "6 others are no longer in the folder" in text


def test_best_is_the_least_of_a_metric_that_is_better_when_lower(tmp_path: Path):
    scores = [
        {"step": s, "time": s, "validation/cer": v} for s, v in ((1, 0.5), (2, 0.2), (3, 0.3))
    ]
    write_metrics(tmp_path, scores)
    write_events(tmp_path, [launch(0.0, 0, best_metric="cer")])
    summary = summary_of(tmp_path)
    assert summary.best and summary.best.value == 0.2 and summary.best.step == 2
    assert summary.last and summary.last.value == 0.3


def test_a_running_run_whose_process_is_gone_was_killed(tmp_path: Path):
    write_metrics(tmp_path, points(1))
    write_status(tmp_path, "running")
    assert (
        run_state(tmp_path) == "running"
    )  # copied from another machine, whose processes are unknown
    lock = (
        "import sys; from translate_ddp.runtime.run_folder import RunFolder; "
        f"RunFolder({str(tmp_path)!r}, 'a').lock(0)"
    )
    subprocess.run([sys.executable, "-c", lock], check=True)
    assert run_state(tmp_path) == "killed"
    assert "no process holds the folder" in text_of(tmp_path) and not loads_again(tmp_path)
    (tmp_path / ".holder").write_text(json.dumps({"kernel": "of another machine"}))
    assert run_state(tmp_path) == "running"
    RunFolder(str(tmp_path), "b").lock(0)  # by this process until it ends
    assert run_state(tmp_path) == "running"
    assert loads_again(tmp_path)


@pytest.mark.parametrize(
    ("state", "message"),
    [("failed", "has failed: the disk is full"), ("preempted", "stopped on request (SIGTERM)")],
)
def test_a_run_that_stopped_shows_why(tmp_path: Path, state: str, message: str):
    write_run(tmp_path, 6, state)
    text = text_of(tmp_path)
    assert message in text and f"state {state}" in text and "epoch 6 of 10" in text


def test_a_run_that_finished_early_shows_why(tmp_path: Path):
    write_run(tmp_path, 6)
    assert "finished early" not in text_of(tmp_path)
    write_status(tmp_path, "finished", reason="no better BLEU in 3 epochs")
    assert "It has finished early: no better BLEU in 3 epochs." in text_of(tmp_path)


def test_a_run_of_an_earlier_version_has_a_page(tmp_path: Path):
    scores = {"step": 20, "time": 201.0, "validation/BLEU": 12.5, "epoch": 2.0}
    write_metrics(tmp_path, [*points(5, 10, 15, 20), scores])
    write_status(tmp_path, "running")
    (tmp_path / "config.yaml").write_text(
        "lang_src: en\nlang_tgt: it\ndataset: [demo]\npreset: tiny\nnum_epochs: 10\nseed: 5\n"
        "num_encoder_layers: 2\nnum_decoder_layers: 3\nd_model: 128\nbest_metric: BLEU\n"
    )
    (tmp_path / checkpoint_name(1)).write_bytes(b"x" * 5000)
    text = text_of(tmp_path, 210.0)
    assert "en to it: demo" in text and "2 encoder and 3 decoder layers, width 128" in text
    assert "epoch 2 of 10" in text and "step 20 of 100" in text and "best BLEU 12.5" in text
    assert "about 13 min 20 s" in text  # 80 steps of 10 s
    assert checkpoint_name(1) in text and "number of processes was not recorded" in text
    settings = section(render(read_run(tmp_path), 210.0), "settings")
    assert settings is not None
    changed, every = values(settings)
    assert changed == [("num_decoder_layers", "3"), ("num_epochs", "10"), ("seed", "5")]
    assert ("dataset", "demo") in every and len(every) == 10


def test_a_run_without_any_record_has_a_page(tmp_path: Path):
    write_metrics(tmp_path, [])
    text = text_of(tmp_path)
    assert "state unknown" in text and "There is no validation yet" in text


def test_problems_of_the_record_are_shown(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text("damaged\n")
    assert "metrics.jsonl: 1 damaged line was skipped" in text_of(tmp_path)


def test_a_long_run_has_a_page_below_1_mb(tmp_path: Path):
    random = np.random.default_rng(0)
    names = ["train/loss", "train/nll", "train/lr", "train/grad_norm", "train/tokens_per_second"]
    values = random.normal(size=(20_000, len(names))).tolist()
    lines = [
        {"step": step, "time": START + step, **dict(zip(names, row, strict=True))}
        for step, row in enumerate(values, 1)
    ]
    scores = ("loss", "BLEU", "chrf", "cer", "wer")
    for record in lines[::20]:
        record |= {f"validation/{name}": float(random.normal()) for name in scores}
    write_run(tmp_path)
    write_metrics(tmp_path, lines)
    events = [Saved(START + n, n, f"{n}.pt", 1, None) for n in range(5000)]
    events += [Notice(START + n, n, "notice " * 100) for n in range(5000)]
    write_events(tmp_path, [*(launch(START + n, n) for n in range(500)), *events])
    rows = [(f"{n} " + "word " * 90, "word " * 90, "other word " * 50) for n in range(5)]
    validations = [records.SampleRows(n, rows) for n in range(1, 1000)]
    records.write_lines(tmp_path / "samples.jsonl", list(map(vars, validations)))
    tokens = [f"token{n}" for n in range(40)]
    weights = random.dirichlet(np.ones(40), 40).tolist()
    attention = vars(records.Attention(tokens, tokens, weights))
    validation = {"step": 9, "lang_tgt": "de", "rows": rows * 50, "attention": [attention] * 5}
    (tmp_path / "validation.json").write_text(json.dumps(validation))
    html = render(read_run(tmp_path), LATER)
    assert len(html.encode()) < 1_000_000


def test_untrusted_text_cannot_leave_its_place(tmp_path: Path):
    hostile = f"{HOSTILE}\u202e\u05d0" + "x" * 10_000
    write_run(tmp_path)
    texts = {
        name: hostile
        for name in ("lang_src", "lang_tgt", "preset", "model", "version", "torch", "best_metric")
    }
    texts |= {"precision": hostile, "device": hostile}
    lists = {"datasets": [hostile], "ranks": [hostile], "dropped": {hostile: 3}}
    begun = launch(START, 0, **texts, **lists, changed={hostile: hostile, "b": [hostile]})
    more = [
        Notice(START, 0, hostile),
        Saved(START, 1, hostile, 2, 1),
        End(LATER, 2, hostile, hostile),
    ]
    write_events(tmp_path, [begun, *more])
    rows = [(hostile, hostile, hostile), *[(f"{hostile} {n}", "b c", hostile) for n in range(20)]]
    records.write_lines(tmp_path / "samples.jsonl", [{"step": 180, "rows": rows}])
    attention = vars(records.Attention([hostile] * 2, [hostile], [[0.5, 0.5]], hostile))
    validation = {"step": 180, "lang_tgt": hostile, "rows": rows, "attention": [attention]}
    (tmp_path / "validation.json").write_text(json.dumps(validation))
    (tmp_path / "config.yaml").write_text(json.dumps({"dataset": hostile, hostile[:50]: hostile}))
    write_metrics(tmp_path, points(1, 2, **{HOSTILE: 1.0, "validation/BLEU": 3.0}))
    write_status(tmp_path, hostile, reason=hostile)
    html = render(read_run(tmp_path), LATER)
    page = Page(html)
    assert "alert(1)" in page.text and "\u202e" not in html
    assert "<script>alert" not in html and "x" * 1000 not in html
    for name, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key == "src"]
        assert name not in ("iframe", "object", "embed", "base", "form", "link", "img") or (
            attributes.get("href") == "data:,"
        )


def test_attention_whose_weights_do_not_fit_its_tokens_is_not_drawn(tmp_path: Path):
    write_run(tmp_path, 1)
    pictures = [
        records.Attention(["a", "[EOS]"], ["b"], [[0.5]]),
        records.Attention(["a", "[EOS]"], ["b"], [[0.5, 0.5], [0.5, 0.5]]),
        records.Attention(["a", "[EOS]"], ["b", "c"], [[0.5, 0.5], [0.5]]),
        records.Attention(["a"], [], []),
        records.Attention(["col", "·", "legi", "[EOS]"], ["b"], [[0.1, 0.2, 0.3, 0.4]], "col·legi"),
        *[records.Attention(["x", "[EOS]"], ["b"] * 50, [[0.5, 0.5]] * 50, "x " * 50)] * 4,
    ]
    validation = records.LastValidation(1, "de", [("a", "b", "c")], pictures)
    (tmp_path / "validation.json").write_text(json.dumps(asdict(validation)))
    found = section(render(read_run(tmp_path), LATER), "validation")
    assert found is not None
    drawn = [figure for figure in found.iter("figure") if figure.get("class") == "chart wide"]
    assert [len(rects(figure)) for figure in drawn] == [4, 80, 80]
    assert captions(found) == ["col·legi", *["x " * 29 + "x…"] * 2]


def test_the_page_is_written_whole(tmp_path: Path):
    write_run(tmp_path, 3, "running")
    path = write_report(tmp_path)
    assert path == tmp_path / "report.html"
    assert path.read_text().startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
