"""The figures of docs/ddp-lab.md: python -m tools.pictures.lab

From the runs of the lab in weights/lab. The trace of both ranks is of 14 more steps.
"""

import gzip
import json
import os
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from markupsafe import Markup

from benchmarks.figures import STYLE
from tools.pictures.drawing import FIGURES, ROOT, Drawing
from translate_ddp.apps.reporting.svg_charts import WIDTH as CHART_WIDTH
from translate_ddp.apps.reporting.svg_charts import Series, lines

WIDTH = 640
MARGIN, HEADING, ZOOM = 12, 24, 1.25  # of the chart
RUNS = ROOT / "weights/lab"
TRACE = RUNS / "trace-of-both"
STEP = 12  # of the trace, which the figure shows
ALL_REDUCE = "gloo:all_reduce"
KINDS = {
    "DistributedDataParallel.forward": "data",
    "backward": "train",
    ALL_REDUCE: "world",
    "Optimizer.step#AdamW.step": "model",
}


def curves() -> str:
    """The training loss of one rank and of two."""
    series = []
    for name, folder in (("one rank", "one"), ("two ranks", "two")):
        records = map(json.loads, (RUNS / folder / "metrics.jsonl").read_text().splitlines())
        points = [(each["step"], each["train/loss"]) for each in records if "train/loss" in each]
        x, y = zip(*points, strict=True)
        series.append(Series(name, y, x))
    values = [value for each in series for value in each.y]
    limits = min(values), max(values)
    chart = lines("training loss (nats per token)", series, "step", y_limits=limits)
    return standalone(chart)


def standalone(chart: Markup) -> str:
    """The content of an .svg file: the chart below its title.

    It has a background of its own, as its colours may be dark where the page around it is light.
    """
    found, drawing = ET.fromstring(chart)
    title, height = found.text or "", int(drawing.get("viewBox", "").split()[3])
    drawing.attrib |= {"x": f"{MARGIN}", "y": f"{MARGIN + HEADING}"}
    drawing.attrib |= {"height": f"{height}", "width": f"{CHART_WIDTH}"}
    width, height = CHART_WIDTH + 2 * MARGIN, HEADING + height + 2 * MARGIN
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" role="group" aria-label="{}" '
        'viewBox="0 0 {} {}" width="{:.0f}" height="{:.0f}"><style>{}</style>'
        '<rect class="background" width="100%" height="100%"/>'
        '<text class="heading" x="{}" y="{}">{}</text>{}</svg>\n'
    ).format(
        title,
        width,
        height,
        ZOOM * width,
        ZOOM * height,
        STYLE.read_text("utf-8"),
        MARGIN,
        MARGIN + 12,
        title,
        Markup(ET.tostring(drawing, encoding="unicode")),
    )


def trace_both() -> None:
    """Train 14 steps with two ranks, each of which writes a trace; `--profile` is of rank 0."""
    flags = f"--config {RUNS}/lab.yaml --model_folder {TRACE} --bucket_cap_mb 1 --max_steps 14"
    words = ["-m", "torch.distributed.run", "--nproc_per_node=2", "-m", __spec__.name, "--rank"]
    subprocess.run([sys.executable, *words, *flags.split()], cwd=ROOT, check=True)


def train_traced(flags: list[str]) -> None:
    """This rank of the training, with a trace in a folder of its own."""
    from translate_ddp.training import trainer

    usual = trainer.profiled

    def profiled(_: int, folder: Path, *others: Any) -> Any:
        own = folder / f"rank-{os.environ['RANK']}"
        own.mkdir(exist_ok=True)
        return usual(3, own, *others)

    trainer.profiled = profiled
    sys.argv = ["train.py", *flags]
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")


def spans(rank: int) -> list[tuple[str, float, float]]:
    """Name, start and end of what a rank did in the step, in seconds of the machine's clock."""
    (file,) = (TRACE / f"rank-{rank}").glob("*.json.gz")
    with gzip.open(file, "rt") as text:
        trace = json.load(text)
    found = [each for each in trace["traceEvents"] if each.get("ph") == "X"]
    step = next(each for each in found if each["name"] == f"ProfilerStep#{STEP}")
    inside = [
        (each["name"], each["ts"], each["ts"] + each["dur"])
        for each in found
        if step["ts"] <= each["ts"] < step["ts"] + step["dur"]
    ]
    backward = [each for each in inside if each[0].startswith("autograd::engine")]
    joined = ("backward", min(each[1] for each in backward), max(each[2] for each in backward))
    shown = [joined, *(each for each in inside if each[0] in KINDS)]
    base = trace["baseTimeNanoseconds"] / 1e9
    return [(name, base + start / 1e6, base + end / 1e6) for name, start, end in shown]


def trace() -> str:
    """One step of two ranks: what each computes, and above it what is being sent."""
    drawing = Drawing("One measured step of two ranks: computing, and gradients being sent", WIDTH)
    ranks = [spans(rank) for rank in range(2)]
    first = min(start for rank in ranks for _, start, _ in rank)
    last = max(end for rank in ranks for _, _, end in rank)
    left, unit = 76, (WIDTH - 92) / (last - first)
    names = {"backward": "backward", "DistributedDataParallel.forward": "forward"}
    for rank, events in enumerate(ranks):
        top = 24 + 116 * rank
        drawing.text(12, top + 72, f"rank {rank}", font_weight="bold")
        drawing.text(12, top + 25, "sending", of="weak")
        sent = sorted(each for each in events if each[0] == ALL_REDUCE)
        for name, start, end in events:
            x, width = left + (start - first) * unit, max((end - start) * unit, 3)
            y = top if name == ALL_REDUCE else top + 48
            drawing.rectangle(x, y, width, 38, KINDS[name])
            if name in names and width > 70:
                drawing.middle(x + width / 2, y + 25, names[name])
        for number, (_, start, end) in enumerate(sorted(sent, key=lambda each: each[1])):
            text = "f" if number == len(sent) - 1 else str(number + 1)
            drawing.middle(left + ((start + end) / 2 - first) * unit, top - 4, text)
    y = 262
    drawing.arrow((left, y), (WIDTH - 16, y))
    drawing.middle(left, y + 20, "0", of="weak")
    time = f"{1000 * (last - first):,.0f} ms"
    drawing.text(WIDTH - 16, y + 20, time, of="weak", text_anchor="end")
    meaning = "Purple: all-reduces of buckets 1 to 4, then of the step's flags (f). Green: update."
    drawing.middle(WIDTH / 2, y + 44, meaning, of="weak")
    return drawing.render(y + 60)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        train_traced(sys.argv[2:])
    else:
        if not TRACE.exists():
            trace_both()
        for name, draw in (("lab_curves", curves), ("lab_trace", trace)):
            (FIGURES / f"{name}.svg").write_text(draw(), encoding="utf-8")
