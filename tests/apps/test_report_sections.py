"""Each section of the page of a run shows what the files in its folder hold."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from tests.helpers.charts import rects
from tests.helpers.pages import captions, section, tables, values
from tests.helpers.records import PAUSE_SECONDS, RESUMED, START, STEPS, hold, time_at, write_run
from translate_ddp.apps.reporting.page import render
from translate_ddp.apps.reporting.reading import read_run
from translate_ddp.run_record import EVENTS_FILE, METRICS_FILE, SAMPLES_FILE, VALIDATION_FILE

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
    (folder / f"tmodel_step_{step - 20:08}-aaaaaaaa.pt").write_bytes(b"x" * 2_500_000)
    return Run(folder, render(read_run(folder), time_at(step) + 14), epochs, state)


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


def test_tiles_show_the_state_the_progress_and_the_speed(run: Run):
    [tiles] = (dict(each) for each in values(ET.fromstring(between(run.html, "<dl", "</dl>"))))
    speeds = [
        line["train/tokens_per_second"] for line in run.lines(METRICS_FILE) if "train/lr" in line
    ]
    of_launch = speeds[36:] if run.epochs > RESUMED else speeds  # nine records an epoch
    recent = sorted(of_launch[-20:])
    median = (recent[(len(recent) - 1) // 2] + recent[len(recent) // 2]) / 2
    bleu = f"{run.validations()[-1]['validation/BLEU']:.2f}"
    expected = {"state": run.state, "epoch": f"{run.epochs} of 10", "training time": duration(run)}
    if run.state == "running":
        expected["time left"] = f"about {clock_text((10 - run.epochs) * STEPS * 8)}"
    expected |= {"recent tokens/s": f"{median:,.0f}", "best BLEU": bleu, "last BLEU": bleu}
    assert tiles == expected
    step = run.epochs * STEPS
    progress = f'max="1800" value="{step}"'
    assert (f"<progress {progress}" in run.html) == (run.state == "running")
    assert f"step {step:,} of 1,800" in run.html


def between(html: str, start: str, end: str) -> str:
    return start + html.split(start, 1)[1].split(end)[0] + end


def worked(run: Run) -> float:
    """Seconds until the page was made, or until the end, without the pause.

    The last time before the pause is that of a checkpoint, 3 s after its step.
    """
    last = time_at(run.epochs * STEPS) + (14 if run.state == "running" else 4)
    return last - START - (PAUSE_SECONDS - 3) * (run.epochs > RESUMED)


def duration(run: Run) -> str:
    return clock_text(worked(run))


def clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def test_sentences_have_their_translation_of_each_validation(run: Run):
    last = run.lines(SAMPLES_FILE)[-1]
    found = tables(run.section("sentences"))
    assert [table[:2] for table in found] == [
        [["source", source], ["reference", reference]] for source, reference, _ in last["rows"]
    ]
    for place, table in enumerate(found):
        texts = [line["rows"][place][2] for line in run.lines(SAMPLES_FILE)]
        changes = [text for at, text in enumerate(texts) if [text] != texts[at - 1 : at]]
        assert [text for _, text in table[2:]] == changes
        assert table[2][0].startswith("epoch 1") and table[-1][0].endswith(str(run.epochs))


def test_the_last_validation_has_charts_pictures_and_the_worst_sentences(run: Run):
    found, validation = run.section("validation"), run.validation
    rows, pictures = validation["rows"], validation["attention"]
    heading = f"Last validation: step {run.epochs * STEPS:,}, {len(rows)} sentences"
    assert found.findtext("h2") == heading
    assert captions(found)[:2] == [
        f"{name} by the words of the source" for name in ("chrF", "BLEU")
    ]
    for chart in found.findall("div[1]/figure"):
        shown = [rect.findtext("title", "") for rect in rects(chart)]
        assert sum(int(text.rpartition("(")[2].rstrip(")")) for text in shown) == len(rows)
        assert [text.split(" words")[0] for text in shown] == ["5–6", "9", "11", "13"]

    drawn = [figure for figure in found.iter("figure") if figure.get("class") == "chart wide"]
    assert len(drawn) == len(pictures) == 3
    for figure, picture in zip(drawn, pictures, strict=True):
        assert {each.findtext("title") for each in rects(figure)} == {
            f"{short(token)} / {short(source)}: {weight:.2f}"
            for token, weights in zip(picture["predicted"], picture["weights"], strict=True)
            for source, weight in zip(picture["source"], weights, strict=True)
            if weight >= 0.1
        }

    least = sorted(sacrebleu.sentence_chrf(text, [reference]).score for _, reference, text in rows)
    worst = tables(found)
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
            ("dropped rows", "193"),
            ("vocabulary", "5,000 tokens"),
            ("padding", "4.2% of the tokens of a step"),
        ]
    ]
    assert captions(data) == ["Dropped rows", "Tokens of a training sentence, with [EOS]"]
    dropped, lengths = data.iter("figure")
    assert [rect.findtext("title") for rect in rects(dropped)] == [
        "longer than --seq_len: 150",
        "duplicate: 31",
        "empty: 12",
    ]
    edges = [*map(str, launch["length_edges"][1:-1]), None]
    assert [rect.findtext("title") for rect in rects(lengths)] == [
        f"{language}: {low} {f'to {high}' if high else 'or more'}: {count:,}"
        for language, counts in zip(
            ("en", "de"), (launch["source_lengths"], launch["target_lengths"]), strict=True
        )
        for low, high, count in zip(launch["length_edges"][:-1], edges, counts, strict=True)
    ]

    changed, every = values(run.section("settings"))
    assert changed == [("num_epochs", "10"), ("dataset", "bentrevett/multi30k"), ("seed", "7")]
    assert every == [("preset", "small"), ("lang_src", "en"), ("lang_tgt", "de")]
    ranks = [" ".join(rank.split()) for rank in launch["ranks"]]
    assert values(run.section("environment")) == [
        [
            ("model", "4,200,000 parameters"),
            ("precision", "fp32"),
            ("versions", "translate_ddp 0.2.0, torch 2.13.0+cpu"),
            ("ranks", "2"),
            *(("", rank) for rank in ranks),
        ]
    ]


def test_checkpoints_are_the_files_of_the_folder_with_the_scores_of_their_steps(run: Run):
    scores = {line["step"]: line["validation/BLEU"] for line in run.validations()}
    best = max(scores, key=lambda step: scores[step])
    rows = []
    for path in run.folder.glob("*.pt"):
        [(epoch, step)] = re.findall(r"tmodel_(?:epoch_(\d+)_)?step_(\d+)-", path.name)
        score = f"{scores[int(step)]:.2f}" if int(step) in scores else ""
        score += " (best)" if int(step) == best else ""
        size = "640 kB" if epoch else "2.5 MB"
        rows.append([str(int(epoch or 0) or ""), f"{int(step):,}", size, score, path.name])
    found = run.section("checkpoints")
    rows.sort(key=lambda row: -int(row[1].replace(",", "")))
    assert tables(found) == [[["epoch", "step", "size", "BLEU", "file"], *rows]]
    gone = len(run.events("saved")) - sum(row[0] != "" for row in rows)
    line = {0: None, 1: "1 other is no longer in the folder."}
    assert found.findtext("p") == line.get(gone, f"{gone} others are no longer in the folder.")


def test_history_has_the_launches_the_notices_and_the_cost(run: Run):
    found = run.section("history")
    first = ["2027-01-15 08:00", "0", "2 × CPU"]
    reason = ": SIGTERM" if run.state == "preempted" else ""
    if run.epochs > RESUMED:
        before = time_at(RESUMED * STEPS) + 3 - START
        rows = [[*first, clock_text(before), "without a record: killed, or its machine was lost"]]
        second = ["2027-01-15 10:59", "720", "2 × CPU", clock_text(worked(run) - before)]
        rows.append([*second, f"{run.state}{reason}"])
    else:
        rows = [[*first, duration(run), "running"]]
    launches, notices = tables(found)
    assert launches == [["start (UTC)", "from step", "ranks", "time", "end"], *rows]
    texts = [[f"{each['step']}", each["text"]] for each in run.events("notice")]
    assert [row[1:] for row in notices] == [["step", "notice"], *texts]
    cost = f"Cost: {2 * 3 * worked(run) / 3600:,.3g} core hours. Energy is not measured."
    assert found.findtext("p") == cost
