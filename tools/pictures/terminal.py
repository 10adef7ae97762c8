"""A recording of a terminal: training the demo, then translations by it."""

import re
import shlex
import subprocess
import sys
from html import escape
from itertools import groupby
from pathlib import Path

from tools.pictures.drawing import Drawing

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "torchrun train.py"
TRANSLATE = """translate-ddp translate \\
    "The old doctor reads the letter in the garden." \\
    "where is my mother?\""""

# The rows of the training that are shown. Times are left out: they depend on the machine.
KEPT = re.compile(
    r" *(?P<start>preset|model|corpus|ranks) |(?P<epoch>epoch \d+, step)|(?P<end>Finished)"
)
TIMES = re.compile(r"after [\w ]+\.")

COLUMNS, SIZE, ROW = 72, 15, 20  # characters; pixels of the font, of a row
COLUMN = 9.05  # pixels; text is fitted to it in every font
MARGIN, TITLE = 16, 38
SECONDS, PAUSE = 0.25, 1.0  # after a row of output, after a command
MOTION = """
.row { animation: appear 1ms both; }
@keyframes appear { from { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { .row { animation: none; } }
"""


def terminal(work: Path) -> str:
    """The rows appear one after the other, once; programs without animations show all of them."""
    session = [(TRAIN, shortened((work / "train.log").read_text(encoding="utf-8")))]
    session.append((TRANSLATE, translations(work)))
    drawing = Drawing(
        "A terminal: the demo is trained and translates", COLUMNS * COLUMN + 2 * MARGIN
    )
    drawing.styles.append(MOTION)
    for k, color in enumerate(("train", "note", "model")):
        drawing.rectangle(MARGIN + 20 * k, 14, 12, 12, color)
    y, seconds = TITLE + ROW, 0.5
    for command, output in session:
        for text in f"$ {command}".split("\n"):
            drawing.shapes.append(row(text, y, seconds, "bold"))
            y += ROW
        seconds += PAUSE
        for text in output:
            drawing.shapes.append(row(text, y, seconds))
            y, seconds = y + ROW, seconds + SECONDS
        y, seconds = y + ROW / 2, seconds + PAUSE
    return drawing.render(y)


def translations(work: Path) -> list[str]:
    """The output of `TRANSLATE`."""
    _, *words = shlex.split(TRANSLATE.replace("\\\n", ""))
    command = [sys.executable, "-m", "translate_ddp", *words]
    command += ["--model_folder", str((work / "weights").resolve())]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def shortened(output: str) -> list[str]:
    """The rows to show, cut to the width; an ellipsis stands before rows of another kind."""
    kept = [found for text in output.splitlines() if (found := KEPT.match(text))]
    rows = list[str]()
    for _, several in groupby(kept, lambda found: found.lastgroup):
        rows += ["...", *(cut(TIMES.sub("...", found.string)) for found in several)]
    return rows


def cut(text: str) -> str:
    return text if len(text) <= COLUMNS else f"{text[: COLUMNS - 3].rpartition(',')[0]}, ..."


def row(text: str, y: float, seconds: float, weight: str = "normal") -> str:
    """A row of the terminal that appears after these seconds."""
    indent = len(text) - len(text.lstrip())
    text = text[indent:]
    place = f'x="{MARGIN + indent * COLUMN:g}" y="{y:g}" textLength="{len(text) * COLUMN:g}"'
    look = f'font-size="{SIZE}" font-weight="{weight}" style="animation-delay: {seconds:.2f}s"'
    return f'<text {place} class="mono row" {look}>{escape(text, False)}</text>'
