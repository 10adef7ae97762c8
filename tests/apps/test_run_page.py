"""The page of a run shows what the files in its folder hold, in each state of the run."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

from tests.helpers.pages import Page, captions, section, tables, values
from tests.helpers.records import (
    PAUSE_SECONDS,
    RESUMED,
    START,
    STEPS,
    hold,
    launch,
    time_at,
    write_events,
    write_lines,
    write_metrics,
    write_run,
    write_status,
)
from translate_ddp.apps.reporting.run_page import MAX_NOTICES, render_run
from translate_ddp.run_record import (
    EVENTS_FILE,
    METRICS_FILE,
    SAMPLES_FILE,
    VALIDATION_FILE,
    Attention,
    End,
    Event,
    LastValidation,
    Notice,
    SampleRows,
    Saved,
    TextRow,
    read_run,
)

LATER = START + 100_000
DAY = 86_400.0
AVERAGE = {"loss": 1.5, "BLEU": 41.5, "chrf": 63.25, "cer": 0.25, "wer": 0.5}
SCORES = {"BLEU": "{:.2f}", "loss": "{:.4g}", "chrf": "{:.2f}", "cer": "{:.4g}", "wer": "{:.4g}"}
CHARTS = ["Loss, in nats per token", "BLEU and chrF of validation", "Error rates of validation"]
CHARTS += ["Learning rate", "Gradient norm, before clipping", "Tokens per second"]


@dataclass(frozen=True)
class Run:
    """The page of a run and the files that it was made from."""

    folder: Path
    html: str
    epochs: int
    state: str

    def section(self, name: str) -> ET.Element:
        found = section(self.html, name)
        assert found is not None
        assert f'<a href="#{name}">' in self.html.split("</nav>")[0]
        return found

    def lines(self, name: str) -> list[dict[str, Any]]:
        return list(map(json.loads, (self.folder / name).read_text().splitlines()))

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.lines(EVENTS_FILE) if event["event"] == kind]

    def validations(self, group: str = "validation") -> list[dict[str, Any]]:
        return [line for line in self.lines(METRICS_FILE) if f"{group}/BLEU" in line]

    @property
    def validation(self) -> dict[str, Any]:
        return json.loads((self.folder / VALIDATION_FILE).read_text())


@pytest.fixture(
    scope="module", params=[(10, "finished"), (6, "preempted"), (3, "running")], ids=lambda p: p[1]
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with the scores of an average of epochs after its last validation."""
    epochs, state = request.param
    folder = tmp_path_factory.mktemp(state)
    write_run(folder, epochs, state)
    if state == "running":
        hold(folder)
    step = epochs * STEPS
    average = {f"validation_average/{name}": value for name, value in AVERAGE.items()}
    with (folder / METRICS_FILE).open("a") as file:
        file.write(json.dumps({"step": step, "time": time_at(step) + 2.5} | average) + "\n")
    return Run(folder, render_run(read_run(folder), time_at(step) + 14), epochs, state)


def score_cells(line: Mapping[str, float], group: str = "validation") -> list[str]:
    return [form.format(line[f"{group}/{name}"]) for name, form in SCORES.items()]


def test_scores_are_those_of_the_best_and_the_last_validation_and_of_the_average(run: Run):
    curves, found = run.section("curves"), run.validations()
    best = max(found, key=lambda line: line["validation/BLEU"])
    [average] = run.validations("validation_average")
    assert tables(curves) == [
        [
            ["", "BLEU", "loss (nats/token)", "chrF", "CER", "WER"],
            [f"best: epoch {best['epoch']}", *score_cells(best)],
            [f"last: epoch {run.epochs}", *score_cells(found[-1])],
            [f"average: epoch {run.epochs}", *score_cells(average, "validation_average")],
        ]
    ]
    assert captions(curves) == CHARTS * 2
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in "".join(curves.itertext())


def test_scores_of_each_direction_are_in_the_table(tmp_path: Path):
    write_events(tmp_path, [launch(START, 0, best_metric="chrf")])

    def line(step: int, group: str, mean: float) -> dict[str, Any]:
        scores = {"chrf": mean, "en-hau/chrf": mean - 5, "en-ibo/chrf": mean + 5}
        scores["off_target"] = 0.25
        named = {f"{group}/{name}": score for name, score in scores.items()}
        return {"step": step, "time": START + step, "epoch": step / 10} | named

    write_metrics(
        tmp_path,
        [
            line(10, "validation", 31),
            line(20, "validation", 30),
            line(20, "validation_average", 28),
        ],
    )
    curves = section(render_run(read_run(tmp_path), START + 60), "curves")
    assert curves is not None
    [table] = tables(curves)
    assert table == [
        ["", "chrF", "off-target share"],
        ["best: epoch 1", "31.00", "0.25"],
        ["last: epoch 2", "30.00", "0.25"],
        ["average: epoch 2", "28.00", "0.25"],
        ["en-hau: epoch 2", "25.00", ""],
        ["en-ibo: epoch 2", "35.00", ""],
    ]
    assert captions(curves)[0] == "chrF of validation, by direction"


def test_tiles_show_the_state_the_progress_and_the_speed(run: Run):
    [tiles] = (dict(each) for each in values(ET.fromstring(between(run.html, "<dl", "</dl>"))))
    speeds = [
        line["train/tokens_per_second"] for line in run.lines(METRICS_FILE) if "train/lr" in line
    ]
    of_launch = speeds[36:] if run.epochs > RESUMED else speeds  # nine records an epoch
    median = np.median(of_launch[-20:])
    bleu = f"{run.validations()[-1]['validation/BLEU']:.2f}"
    expected = {
        "state": run.state,
        "epoch": f"{run.epochs} of 10",
        "training time": clock_text(worked(run)),
    }
    if run.state == "running":
        expected["time left"] = f"about {clock_text((10 - run.epochs) * STEPS * 8)}"
    expected |= {"recent tokens/s": f"{median:,.0f}", "best BLEU": bleu, "last BLEU": bleu}
    assert tiles == expected
    step = run.epochs * STEPS
    assert "finished early" not in run.html
    progress = f'max="1800" value="{step}"'
    assert (f"<progress {progress}" in run.html) == (run.state == "running")
    assert f"step {step:,} of 1,800" in run.html


def between(html: str, start: str, end: str) -> str:
    return start + html.split(start, 1)[1].split(end)[0] + end


def worked(run: Run) -> float:
    """Seconds until the page was made, or until the end, without the pause.

    The last time before the pause is the time of a checkpoint, 3 s after its step.
    """
    last = time_at(run.epochs * STEPS) + (14 if run.state == "running" else 4)
    return last - START - (PAUSE_SECONDS - 3) * (run.epochs > RESUMED)


def clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def test_sentences_have_their_translation_of_each_validation(run: Run):
    last = run.lines(SAMPLES_FILE)[-1]
    found = tables(run.section("samples"))
    assert [table[:2] for table in found] == [
        [["source", source], ["reference", reference]] for source, reference, _ in last["rows"]
    ]
    for place, table in enumerate(found):
        texts = [line["rows"][place][2] for line in run.lines(SAMPLES_FILE)]
        changes = [text for at, text in enumerate(texts) if [text] != texts[at - 1 : at]]
        assert [text for _, text in table[2:]] == changes
        assert table[2][0].startswith("epoch 1") and table[-1][0].endswith(str(run.epochs))


def test_the_last_validation_has_its_attention_and_the_worst_sentences(run: Run):
    found, validation = run.section("validation"), run.validation
    rows, pictures = validation["rows"], validation["attention"]
    assert found.findtext("p") == f"Step {run.epochs * STEPS:,}, {len(rows)} sentences."
    heat_maps = [each for each in found.findall("div") if each.find("table/caption") is not None]
    for table, picture in zip(heat_maps, pictures, strict=True):
        assert table.findtext("table/caption") == picture["sentence"]
        _, *columns = table.findall("table/thead/tr/*")
        assert ["".join(each.itertext()) for each in columns] == list(map(short, picture["source"]))
        shown = table.findall("table/tbody/tr")
        assert [row.findtext("th") for row in shown] == list(map(short, picture["predicted"]))
        for row, weights in zip(shown, picture["weights"], strict=True):
            expected = [f"{weight:.2f}" if weight >= 0.02 else None for weight in weights]
            assert [cell.get("title") for cell in row.findall("td")] == expected

    least = sorted(sacrebleu.sentence_chrf(text, [reference]).score for _, reference, text in rows)
    [details] = found.findall("details")
    worst = tables(details)
    assert [table[2][0] for table in worst] == [f"chrF {score:.1f}" for score in least[:10]]
    assert all([table[0][1], table[1][1], table[2][1]] in rows for table in worst)
    assert found.findtext("details/summary") == "The 10 sentences with the lowest chrF"


def short(token: str) -> str:
    return token if len(token) <= 16 else f"{token[:15]}…"


def test_data_settings_and_environment_are_those_of_the_last_launch(run: Run):
    launch = run.events("launch")[-1]
    data = run.section("data")
    assert values(data) == [
        [
            ("training pairs", "29,000"),
            ("validation pairs", "1,014"),
            ("vocabulary", "5,000"),
            ("padding", "4.2% of the tokens of a step"),
            ("dropped rows", "193"),
            ("dropped: longer than --seq_len", "150"),
            ("dropped: duplicate", "31"),
            ("dropped: empty", "12"),
        ]
    ]

    changed, every = values(run.section("settings"))
    assert changed == [("num_epochs", "10"), ("dataset", "bentrevett/multi30k"), ("seed", "7")]
    assert every == [("preset", "small"), ("lang_src", "en"), ("lang_tgt", "de")]
    ranks = [" ".join(rank.split()) for rank in launch["ranks"]]
    [environment] = values(run.section("environment"))
    assert environment[:3] == [
        *(("preset", "small"), ("model", launch["model"]), ("parameters", "4,200,000")),
    ]
    assert environment[-3:] == [("threads of a rank", "3"), *(("", rank) for rank in ranks)]


# --- states ---


def text_of(folder: Path, now: float = LATER) -> str:
    return Page(render_run(read_run(folder), now)).text


def loads_again(folder: Path) -> bool:
    """Whether browsers load the page again by themselves."""
    elements = Page(render_run(read_run(folder), LATER)).elements
    return ("meta", {"http-equiv": "refresh", "content": "60"}) in elements


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        ("failed", "the disk is full", "has failed: the disk is full"),
        ("preempted", "SIGTERM", "stopped on request (SIGTERM)"),
        ("finished", "no better BLEU", "It has finished early: no better BLEU."),
    ],
)
def test_a_run_that_stopped_shows_why(tmp_path: Path, state: str, reason: str, message: str):
    write_run(tmp_path, 6, state)
    write_status(tmp_path, state, reason=reason)
    assert message in text_of(tmp_path) and not loads_again(tmp_path)


@pytest.mark.slow
def test_the_page_of_a_running_run_is_loaded_again_until_its_process_is_gone(tmp_path: Path):
    write_run(tmp_path, 2, "running")
    hold(tmp_path)
    assert loads_again(tmp_path)
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").touch()
    assert "no process holds the folder" in text_of(tmp_path) and not loads_again(tmp_path)


def test_a_run_without_any_record_has_a_page(tmp_path: Path):
    write_metrics(tmp_path, [])
    text = text_of(tmp_path)
    assert "state unknown" in text and "There is no validation yet" in text


def test_problems_of_the_record_are_shown(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text("damaged\n")
    assert "metrics.jsonl: skipped 1 damaged line" in text_of(tmp_path)


@pytest.mark.slow
def test_a_long_run_has_a_page_below_1_mb(tmp_path: Path):
    random = np.random.default_rng(0)
    names = ["train/loss", "train/nll", "train/lr", "train/grad_norm", "train/tokens_per_second"]
    lines = [
        {"step": step, "time": START + step, **dict(zip(names, row, strict=True))}
        for step, row in enumerate(random.normal(size=(20_000, len(names))).tolist(), 1)
    ]
    for record in lines[::20]:
        record |= {f"validation/{name}": float(random.normal()) for name in AVERAGE}
    write_run(tmp_path)
    write_metrics(tmp_path, lines)
    events: list[Event] = [launch(START + n, n) for n in range(500)]
    events += [Saved(START + n, n, f"{n}.pt", 1, None) for n in range(5000)]
    events += [Notice(START + n, n, f"notice {n} " * 100) for n in range(5000)]
    write_events(tmp_path, events)
    rows = [(f"{n} " + "word " * 90, "word " * 90, "other word " * 50) for n in range(5)]
    write_samples(tmp_path, *[rows] * 1000)
    tokens = [f"token{n}" for n in range(40)]
    attention = Attention(tokens, tokens, random.dirichlet(np.ones(40), 40).tolist())
    write_validation(tmp_path, LastValidation(9, rows * 50, [attention] * 5))
    assert len(render_run(read_run(tmp_path), LATER).encode()) < 1_000_000


# --- tables ---


def write_samples(folder: Path, *validations: list[TextRow]) -> None:
    samples = [SampleRows(10 * n, rows) for n, rows in enumerate(validations, 1)]
    write_lines(folder / "samples.jsonl", list(map(vars, samples)))


def write_validation(folder: Path, validation: LastValidation) -> None:
    (folder / VALIDATION_FILE).write_text(json.dumps(asdict(validation)))


def tables_of(folder: Path, name: str) -> list[list[list[str]]]:
    found = section(render_run(read_run(folder), 1e6), name)
    assert found is not None
    return tables(found)


def test_words_that_differ_from_the_reference_are_marked(tmp_path: Path):
    write_run(tmp_path, 1)
    write_samples(tmp_path, [("s", "a good day", "a bad day")])
    found = section(render_run(read_run(tmp_path), LATER), "samples")
    assert found is not None and [each.text for each in found.iter("mark")] == ["Marked", "bad"]


def test_a_sentence_that_is_twice_in_the_samples_keeps_its_place(tmp_path: Path):
    write_run(tmp_path, 1)
    twice = [("s", "r", "a"), ("s", "other", "x"), ("s", "r", "b")]
    write_samples(tmp_path, twice, [("new", "r", "d")], [*twice[:2], ("s", "r", "c")])
    found = tables_of(tmp_path, "samples")
    assert [[text for _, text in table[1:]] for table in found] == [
        ["r", "a"],
        ["other", "x"],
        ["r", "b", "c"],
    ]


def test_each_launch_has_its_own_last_end(tmp_path: Path):
    write_metrics(tmp_path, [])
    write_status(tmp_path, "finished")
    events: list[Event] = [
        launch(0.0, 0),
        End(60.0, 5, "preempted", "SIGTERM"),
        End(60.0, 5, "failed", "the disk is full"),
        launch(1000.0, 5, device="cuda", world_size=16, nodes=2),
        launch(2000.0, 6, device="cuda", world_size=1),
        End(2060.0, 8, "finished"),
        launch(DAY, 8),
    ]
    write_events(tmp_path, events)
    [shown, *_] = tables_of(tmp_path, "history")
    killed = "without a record: killed, or its machine was lost"
    assert shown[1:] == [
        ["1970-01-01 00:00", "0", "2 × CPU", "1 min 0 s", "failed: the disk is full"],
        ["1970-01-01 00:16", "5", "16 on 2 nodes × GPU", "0 s", killed],
        ["1970-01-01 00:33", "6", "1 × GPU", "1 min 0 s", "finished"],
        ["1970-01-02 00:00", "8", "2 × CPU", "0 s", "finished"],  # the state of the run
    ]


def test_of_equal_notices_and_of_many_the_last_ones_are_shown(tmp_path: Path):
    write_metrics(tmp_path, [])
    texts = ["a", "b", "a", "c\nd", "b", "b"]
    write_events(tmp_path, [Notice(60.0 * n, n, text) for n, text in enumerate(texts)])
    [shown] = tables_of(tmp_path, "history")
    assert shown[1:] == [
        ["1970-01-01 00:02", "2", "a"],
        ["1970-01-01 00:03", "3", "c d"],
        ["1970-01-01 00:05", "5", "b"],
    ]
    count = MAX_NOTICES + 30
    write_events(tmp_path, [Notice(float(n), n, f"{n % count}") for n in range(count + 5)])
    [shown] = tables_of(tmp_path, "history")
    assert [row[2] for row in shown[1:]] == [str(n % count) for n in range(35, count + 5)]
    assert f"The last {MAX_NOTICES} of {count} notices" in text_of(tmp_path)


def test_cost_is_the_time_of_all_launches_times_their_cores_or_gpus(tmp_path: Path):
    write_metrics(tmp_path, [])
    hour = 3600.0
    launches = [
        launch(0.0, 0, world_size=2, threads=3, device="cpu"),
        End(hour, 5, "preempted"),
        launch(5 * hour, 5, world_size=8, threads=3, device="cuda"),
    ]
    write_events(tmp_path, launches)
    write_status(tmp_path, "running")
    hold(tmp_path)
    assert "Cost: 6 core hours and 4 GPU hours." in text_of(tmp_path, 5.5 * hour)
