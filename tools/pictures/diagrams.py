"""Diagrams: the flow of the data, and the choice of a command."""

from tools.pictures.drawing import Drawing, Kind

COLUMN, BOX, ROW, HIGH = 143, 120, 104, 76  # of the grid of the flow: distances, sizes
LEFT, TOP = 14, 16

FOLDERS: dict[Kind, str] = {
    "data": "data/",
    "model": "modeling/",
    "train": "training/",
    "world": "runtime/",
    "use": "apps/",
}
# Column, row, columns, folder, name, what it does.
BOXES: list[tuple[int, int, int, Kind, list[str]]] = [
    (0, 0, 1, "data", ["sources", "files, hub,", "demo"]),
    (1, 0, 1, "data", ["corpus", "clean,", "split"]),
    (2, 0, 1, "data", ["tokenizer", "text to", "token ids"]),
    (3, 0, 1, "data", ["dataset", "arrays", "on disk"]),
    (4, 0, 1, "data", ["batches", "plan, shards,", "micro-batches"]),
    (0, 1, 1, "use", ["inspect", "lengths,", "defects"]),
    (1, 1, 1, "world", ["World", "ranks,", "all-reduce"]),
    (2, 1, 1, "train", ["step", "gradients,", "update"]),
    (3, 1, 1, "model", ["loss", "a sum,", "in nats"]),
    (4, 1, 1, "model", ["transformer", "ids to", "hidden states"]),
    (0, 2, 1, "train", ["logbook", "console, jsonl,", "W&B"]),
    (1, 2, 1, "train", ["checkpoint", "the whole run", "in one file"]),
    (2, 2, 1, "train", ["trainer", "when to", "do what"]),
    (3, 2, 1, "train", ["validation", "BLEU, chrF,", "loss"]),
    (4, 2, 1, "model", ["search", "greedy,", "beam"]),
    (0, 3, 1, "use", ["report", "the page", "of a run"]),
    (1, 3, 4, "note", ["Translator", "a checkpoint or an exported model: text in, text out"]),
    (1, 4, 1, "use", ["translate", "texts,", "files"]),
    (2, 4, 1, "use", ["validate", "score", "test sets"]),
    (3, 4, 1, "use", ["serve", "HTTP, a page", "for browsers"]),
    (4, 4, 1, "use", ["export", "CTranslate2,", "Hugging Face"]),
]


def data_flow() -> str:
    """From text to a translation, through the folders of the package."""
    drawing = Drawing("From text to a model, and from the model to translations", 720)
    for column, row, columns, kind, lines in BOXES:
        width = BOX + (columns - 1) * COLUMN
        drawing.box(LEFT + column * COLUMN, TOP + row * ROW, width, HIGH, kind, *lines)

    def side(column: int, row: int, x: float, y: float) -> tuple[float, float]:
        """The place at these shares of the width and height of a box of one column."""
        return LEFT + column * COLUMN + x * BOX, TOP + row * ROW + y * HIGH

    def right(column: int, row: int) -> None:
        drawing.arrow(side(column, row, 1, 0.5), side(column + 1, row, 0, 0.5))

    def left(column: int, row: int, both: bool = False) -> None:
        drawing.arrow(side(column, row, 0, 0.5), side(column - 1, row, 1, 0.5), both=both)

    def down(column: int, row: int, both: bool = False) -> None:
        drawing.arrow(side(column, row, 0.5, 1), side(column, row + 1, 0.5, 0), both=both)

    for column in range(4):
        right(column, 0)
    down(0, 0)
    down(4, 0)
    left(4, 1)
    left(3, 1)
    left(2, 1, both=True)
    down(2, 1, both=True)
    down(4, 1)
    left(2, 2, both=True)
    right(2, 2)
    left(4, 2)
    middle = TOP + 2 * ROW - (ROW - HIGH) / 2
    x_trainer, x_logbook = side(2, 2, 0.2, 0)[0], side(0, 2, 0.5, 0)[0]
    drawing.arrow(
        *((x_trainer, side(2, 2, 0, 0)[1]), (x_trainer, middle), (x_logbook, middle)),
        side(0, 2, 0.5, 0),
    )
    down(0, 2)
    down(1, 2)
    down(4, 2)
    for column in range(1, 5):
        down(column, 3)
    for k, (kind, name) in enumerate(FOLDERS.items()):
        y = TOP + 4 * ROW + 2 + 17 * k
        drawing.rectangle(LEFT, y - 1, 14, 10, kind)
        drawing.text(LEFT + 22, y + 9, name, 15, of="mono weak")
    return drawing.render(TOP * 2 + ROW * 4 + HIGH)


Leaf = tuple[str, str, list[str]]  # condition, advice, lines of the command
NO_TRAINING_DATA: list[Leaf] = [
    ("No corpus yet?", "The demo, English to Italian:", ["torchrun train.py"]),
    ("Fewer than 2,000 pairs?", "First try a pretrained multilingual model.", []),
]
DATA: list[Leaf] = [
    (
        "A spreadsheet?",
        "Excel, LibreOffice or CSV; first row: en, de",
        ["--dataset pairs.xlsx --lang_src en --lang_tgt de"],
    ),
    (
        "Text, TMX, JSON, the hub?",
        "Such as train.en and train.de in data/",
        ["--dataset data/train --lang_src en --lang_tgt de"],
    ),
    (
        "Several languages?",
        "One model. Compare it with one of each.",
        ["--dataset 'en-{tgt}.csv' --lang_src en --lang_tgt hau ibo"],
    ),
]
LARGE = "    --preset base --lr 1e-3 --batch_tokens"
MACHINES: list[Leaf] = [
    ("A laptop, or one GPU?", "A GPU is used without a flag.", ["torchrun train.py DATA"]),
    (
        "A laptop, to see DDP work?",
        "Two processes:",
        ["torchrun --nproc_per_node=2 train.py DATA"],
    ),
    (
        "8 GPUs?",
        "From 1,000,000 pairs. For fewer, use one GPU.",
        ["torchrun --nproc_per_node=8 train.py DATA \\", f"{LARGE} 200000"],
    ),
    (
        "Slurm?",
        "For example 2 nodes of 8 GPUs:",
        [
            "sbatch --nodes=2 --gpus-per-node=8 --cpus-per-task=32 \\",
            "    launch/slurm.sh DATA \\",
            f"{LARGE} 400000",
        ],
    ),
]
WIDE, EDGE, TRUNK, CARD = 620, 14, 28, 48  # the drawing; x of the bars, the line, the cards
BAR, GAP, LINE = 38, 10, 21


def choose() -> str:
    """Which command, by the data and the machine."""
    drawing = Drawing("Which command to use, by the data and by the machine", WIDE)
    y = bar(drawing, EDGE, "1. Which data?", "The flags below are DATA in steps 2 and 3.", "weak")
    y = cards(drawing, y, [*NO_TRAINING_DATA, *DATA], ends=len(NO_TRAINING_DATA))
    y = bar(drawing, y + 20, "2. Look at the data", "translate-ddp inspect DATA", "mono")
    y = bar(drawing, y + 20, "3. Which machine?", "Add --model_folder weights/NAME.", "weak")
    y = cards(drawing, y, MACHINES)
    return drawing.render(y + EDGE)


def bar(drawing: Drawing, y: float, text: str, note: str, look: str = "") -> float:
    """A step over the whole width. Returns where it ends."""
    drawing.rectangle(EDGE, y, WIDE - 2 * EDGE, BAR, "data")
    drawing.text(EDGE + 12, y + 25, text, 17, font_weight="bold")
    drawing.text(WIDE - EDGE - 12, y + 25, note, 15, of=look, text_anchor="end")
    return y + BAR


def cards(drawing: Drawing, y: float, answers: list[Leaf], ends: int = 0) -> float:
    """Answers below a step, each with its command; the first `ends` of them lead to no other step.

    Returns where they end.
    """
    top = y
    for k, (condition, advice, command) in enumerate(answers):
        y += GAP
        height = (1 + len(command)) * LINE + 15
        middle = y + height / 2
        drawing.arrow((TRUNK, top), (TRUNK, middle), (CARD, middle))
        drawing.rectangle(CARD, y, WIDE - EDGE - CARD, height, "note" if k < ends else "model")
        drawing.text(CARD + 12, y + LINE + 1, condition, 16, font_weight="bold")
        drawing.text(WIDE - EDGE - 12, y + LINE + 1, advice, 15, of="weak", text_anchor="end")
        for row, line in enumerate(command, 2):
            drawing.text(CARD + 12, y + LINE * row + 1, line, 15, of="mono")
        y += height
    return y
