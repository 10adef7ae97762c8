"""A recording of a terminal: training the demo, then translations by it.

    python -m tools.pictures.terminal

Writes docs/figures/terminal.svg. Trains the demo, which takes minutes.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from html import escape
from itertools import groupby
from pathlib import Path

from tools.pictures.drawing import FIGURES, ROOT, Drawing

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
    trained = run("-m", "torch.distributed.run", str(ROOT / "train.py"), folder=work)
    _, *words = shlex.split(TRANSLATE.replace("\\\n", ""))
    translated = run("-m", "translate_ddp", *words, folder=work)
    session = [(TRAIN, shortened(trained)), (TRANSLATE, translated.splitlines())]
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


def run(*words: str, folder: Path) -> str:
    """The output of a command of Python."""
    command = [sys.executable, *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (FIGURES / "terminal.svg").write_text(terminal(Path(folder)), encoding="utf-8")
