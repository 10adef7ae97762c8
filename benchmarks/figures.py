"""The figures of docs/figures that show measurements, drawn from the records.

    python -m benchmarks.figures

They follow the light and dark mode of the reader, and are as readable on a phone as beside text.
"""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from benchmarks.common import OWN, RESULTS, ROOT
from benchmarks.report import shown
from translate_ddp.apps.reporting.svg_charts import STYLE, WIDTH, Bar, Series, bars, lines

FIGURES = ROOT / "docs" / "figures"
OURS, OTHERS = 0, 7  # colours
MARGIN, HEADING, ZOOM = 12, 24, 1.25  # of files

# Speed: the title of a panel, its record, and the bars: their labels and the contestants.
TRAINING = {
    f"{name}, {precision}, {arrangement}": f"{contestant}, {precision}, {arrangement}"
    for name, contestant, arrangement in (
        (OWN, OWN, "2 x 1"),
        ("transformers", "transformers Seq2SeqTrainer", "2 x 1"),
        ("Eole", "Eole", "1 x 2"),
    )
    for precision in ("fp32", "bf16")
}


def decoding(search: str) -> dict[str, str]:
    """The bars of greedy decoding or of a beam."""
    return {
        f"{OWN}, fp32, 1 x 2": f"{OWN} {search}, fp32",
        f"{OWN}, bf16, 1 x 2": f"{OWN} {search}, bf16",
        "transformers, fp32, 1 x 2": f"transformers generate {search}, fp32, by length",
        "CTranslate2, fp32, 2 x 1": f"CTranslate2 {search}, float32, 2 x 1",
        "CTranslate2, int8, 2 x 1": f"CTranslate2 {search}, int8, 2 x 1",
    }


PANELS = (
    ("Training, target tokens per second", "training", TRAINING),
    ("Greedy decoding, sentences per second", "decoding", decoding("greedy")),
    ("Beam 5, sentences per second", "decoding", decoding("beam 5")),
)
SPEED_WIDTH, SPEED_BARS, SPEED_LENGTH = 440, 206, 176  # of the drawing, left and length of bars
SPEED_ROW, SPEED_TITLE, SPEED_MARGIN = 24, 38, 14

# Recipe: what the reader sees, the recipe to compare with, the compared one, and whether that
# lacks a part of `small` (-1) or has more (1).
PARTS = (
    ("all of small, instead of its first version (raw)", "old-default", "raw, small", 1),
    ("45 epochs instead of 15", "small", "tok, epochs-15", -1),
    ("Muon instead of AdamW", "small", "tok, without-muon", -1),
    ("dropout 0.2 instead of 0.1", "small", "tok, dropout-0.1", -1),
    ("linear decay instead of inverse square root", "small", "tok, inverse-sqrt", -1),
)
OPTIONS = (
    ("option: SimCut, dropout 0.1; twice the work", "small", "tok, muon-simcut", 1),
    ("option: SimCut, AdamW, 80 epochs; 3.6 x the work", "small", "tok, adamw-simcut", 1),
    ("option: 60 epochs instead of 45", "small", "tok, dropout-0.2-60-epochs", 1),
    ("option: --perturb (raw)", "small", "raw, perturb", 1),
    ("option: preset fast, decodes faster", "small", "tok, fast", 1),
)


def main() -> None:
    figures = {"speed": speed, "recipe": recipe, "time_to_quality": time_to_quality}
    for name, draw in figures.items():
        (FIGURES / f"{name}.svg").write_text(draw(ROOT / RESULTS), encoding="utf-8")


def record(results: Path, name: str) -> dict[str, Any]:
    return json.loads((results / f"{name}.json").read_text(encoding="utf-8"))


def speed(results: Path) -> str:
    """The pace of each program in training and decoding, fastest first."""
    drawn: list[Markup] = []
    y, machines = SPEED_MARGIN, dict[str, str]()
    for title, name, contestants in PANELS:
        found = record(results, name)
        machines[name] = found["facts"]["cpu"].replace("(R)", "").removesuffix(" Processor")
        # The pace is the first column of both tables.
        paces = {row["label"]: next(iter(row["values"].values())) for row in found["rows"]}
        chosen = {label: paces[contestant] for label, contestant in contestants.items()}
        drawn.append(_text(SPEED_MARGIN, y + 18, title, "heading"))
        y += SPEED_TITLE - SPEED_MARGIN
        for label, pace in sorted(chosen.items(), key=lambda item: -item[1]):
            color = OURS if label.startswith(OWN) else OTHERS
            length = SPEED_LENGTH * pace / max(chosen.values())
            drawn.append(_text(SPEED_MARGIN, y + 16, label))
            drawn.append(
                Markup('<rect class="color-{}" x="{}" y="{}" width="{:.1f}" height="16"/>').format(
                    color, SPEED_BARS, y + 3, length
                )
            )
            drawn.append(_text(SPEED_BARS + length + 5, y + 16, shown(pace)))
            y += SPEED_ROW
        y += SPEED_MARGIN
    cores = f"2 CPU cores: {machines['training']} (training), {machines['decoding']} (decoding)."
    for line in (cores, "1 x 2 is processes x threads. Medians; longer is faster."):
        drawn.append(_text(SPEED_MARGIN, y + 12, line, "note"))
        y += 20
    y += SPEED_MARGIN - 6
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {0} {1}" width="600" '
        'height="{2:.0f}"><title>Speed of training and decoding on 2 CPU cores</title><style>{3}'
        "svg {{ font-size: 14px; }} svg .heading {{ font-size: 15px; }} "
        "svg .note {{ font-size: 13px; fill: var(--muted); }}</style>"
        '<rect class="background" width="100%" height="100%"/>{4}</svg>\n'
    ).format(
        SPEED_WIDTH, y, y * 600 / SPEED_WIDTH, STYLE.read_text("utf-8"), Markup("").join(drawn)
    )


def recipe(results: Path) -> str:
    """What the parts of `small` gain, and what options would change."""
    differences, drawn = record(results, "recipe")["raw"], []
    for color, rows in ((OURS, PARTS), (OTHERS, OPTIONS)):
        for label, against, name, sign in rows:
            found = differences[against][name]["val"]
            mean = sign * found["mean"]
            low, high = sorted((sign * found["low"], sign * found["high"]))
            drawn.append(Bar(label, mean, f"{mean:+.1f} ({low:+.1f} to {high:+.1f})", color))
    return standalone(bars("Gain in validation BLEU (95 % interval)", drawn))


def time_to_quality(results: Path) -> str:
    """Validation BLEU over minutes of training, a line for each trainer."""
    curves: Mapping[str, Sequence[Mapping[str, float]]] = record(results, "time_to_quality")["raw"]
    series = [
        Series(name.partition(", ")[0], [p["bleu"] for p in curve], [p["minutes"] for p in curve])
        for name, curve in curves.items()
    ]
    return standalone(lines("Greedy validation BLEU", series, "minutes of training", x_range=[0]))


def standalone(*charts: Markup) -> str:
    """The content of an .svg file: the charts with their titles, one below the other.

    It has a background of its own, as its colours may be dark where the page around it is light.
    """
    heading = Markup('<text class="heading" x="{}" y="{}">{}</text>')
    titles: list[str] = []
    parts: list[Markup] = []
    y = MARGIN
    for title, drawing in map(ET.fromstring, charts):
        height = int(drawing.get("viewBox", "").split()[3])
        drawing.attrib |= {"x": f"{MARGIN}", "y": f"{y + HEADING}", "height": f"{height}"}
        drawing.set("width", f"{WIDTH}")
        titles.append(title.text or "")
        parts.append(heading.format(MARGIN, y + 12, titles[-1]))
        parts.append(Markup(ET.tostring(drawing, encoding="unicode")))
        y += HEADING + height + MARGIN
    width = WIDTH + 2 * MARGIN
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" role="group" aria-label="{}" '
        'viewBox="0 0 {} {}" width="{:.0f}" height="{:.0f}"><style>{}</style>'
        '<rect class="background" width="100%" height="100%"/>{}</svg>\n'
    ).format(
        "; ".join(titles),
        width,
        y,
        ZOOM * width,
        ZOOM * y,
        STYLE.read_text("utf-8"),
        Markup("").join(parts),
    )


def _text(x: float, y: float, content: str, kind: str = "") -> Markup:
    return Markup('<text x="{:.1f}" y="{}" class="{}">{}</text>').format(x, y, kind, content)


if __name__ == "__main__":
    main()
