"""The figure of docs/benchmarks.md, drawn from the records: python -m benchmarks.figures

It follows the light and dark mode of the reader, and is as readable on a phone as beside text.
"""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from benchmarks.common import OWN, RESULTS, ROOT
from benchmarks.report import shown
from translate_ddp.apps.reporting import svg_charts

FIGURES = ROOT / "docs" / "figures"
STYLE = Path(svg_charts.__file__).with_name("charts.css")
OURS, OTHERS = 0, 7  # colours

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


def main() -> None:
    (FIGURES / "speed.svg").write_text(speed(ROOT / RESULTS), encoding="utf-8")


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


def _text(x: float, y: float, content: str, kind: str = "") -> Markup:
    return Markup('<text x="{:.1f}" y="{}" class="{}">{}</text>').format(x, y, kind, content)


if __name__ == "__main__":
    main()
