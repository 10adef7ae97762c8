"""The figures of docs/ddp.md: python -m tools.pictures.ddp"""

from collections.abc import Callable
from pathlib import Path

from tools.pictures.drawing import Drawing, Kind

FIGURES = Path(__file__).resolve().parents[2] / "docs/figures"
WIDTH = 640
BAR = 40  # height of a bar of a timeline
RANKS: tuple[Kind, Kind] = ("model", "use")  # colours of two ranks


def middle(drawing: Drawing, x: float, y: float, text: str, size: int = 15, **more: str) -> None:
    """A line of text around `x`."""
    drawing.text(x, y, text, size, text_anchor="middle", **more)


def bar(drawing: Drawing, x: float, y: float, width: float, kind: Kind, text: str) -> None:
    """A part of a timeline."""
    drawing.rectangle(x, y, width, BAR, kind)
    middle(drawing, x + width / 2, y + 25, text)


def caption(drawing: Drawing, y: float, *lines: str) -> None:
    for k, line in enumerate(lines):
        middle(drawing, WIDTH / 2, y + 20 * k, line, of="weak")


def heading(drawing: Drawing, x: float, y: float, text: str) -> None:
    middle(drawing, x, y, text, 16, font_weight="bold")


def ranks() -> str:
    drawing = Drawing("Two nodes with two processes each: rank, local rank, world size", WIDTH)
    for node in range(2):
        left = 14 + 312 * node
        drawing.rectangle(left, 40, 300, 252, "note")
        heading(drawing, left + 150, 28, f"node {node}" + " = MASTER_ADDR" * (node == 0))
        drawing.box(left + 12, 52, 276, 36, "code", "torchrun")
        for local in range(2):
            x, rank = left + 12 + 144 * local, 2 * node + local
            drawing.arrow((x + 66, 88), (x + 66, 110))
            variables = f"RANK={rank}", f"LOCAL_RANK={local}", "WORLD_SIZE=4"
            drawing.box(x, 112, 132, 92, "data", f"rank {rank}", *variables)
            drawing.arrow((x + 66, 204), (x + 66, 230))
            drawing.box(x + 16, 232, 100, 36, "model", f"GPU {local}")
            drawing.arrow((x + 66, 268), (x + 66, 322), both=True)
    drawing.rectangle(14, 324, 612, 62, "world")
    middle(drawing, 320, 350, "process group, backend nccl (GPUs) or gloo (CPUs)", 16)
    middle(drawing, 320, 373, "found through the store at MASTER_ADDR:MASTER_PORT")
    return drawing.render(400)


def dp_ddp() -> str:
    drawing = Drawing("DataParallel: one process. DDP: one process for each GPU", WIDTH)
    heading(drawing, 160, 30, "nn.DataParallel: one process")
    heading(drawing, 480, 30, "DDP: a process for each GPU")
    drawing.rectangle(14, 44, 294, 226, "note")
    drawing.box(70, 56, 182, 76, "train", "GPU 0", "weights, optimizer,", "whole batch")
    for k in range(2):
        x = 28 + 138 * k
        drawing.box(x, 196, 128, 62, "data", f"GPU {k}", "copy, its part")
        drawing.arrow((120 + 60 * k, 132), (x + 44, 194))
        drawing.arrow((x + 84, 194), (142 + 64 * k, 134))
    for rank in range(2):
        x = 332 + 150 * rank
        drawing.rectangle(x, 44, 144, 160, "note")
        middle(drawing, x + 72, 66, f"rank {rank}, GPU {rank}", font_weight="bold")
        for y, kind, text in (
            (76, "code", "its shard"),
            (118, "data", "weights, opt."),
            (160, "train", "gradients"),
        ):
            drawing.rectangle(x + 10, y, 124, 34, kind)
            middle(drawing, x + 72, y + 22, text)
        drawing.arrow((x + 72, 196), (x + 72, 232), both=True)
    drawing.box(332, 234, 294, 36, "world", "all-reduce of gradients")
    for x, lines in (
        (160, ("Each step copies the weights out", "and gathers outputs on GPU 0.")),
        (480, ("Each rank makes the same update,", "so weights stay equal.")),
    ):
        for k, line in enumerate(lines):
            middle(drawing, x, 294 + 20 * k, line, of="weak")
    return drawing.render(330)


def ring_all_reduce() -> str:
    """Rank r has the chunks a, b and c; in each send it gives one to rank r + 1."""
    drawing = Drawing("Ring all-reduce of three ranks: reduce-scatter, then all-gather", WIDTH)
    size, column, top, row = 26, 120, 88, 58
    parts = [[{rank} for _ in "abc"] for rank in range(3)]

    def place(step: int, rank: int, chunk: int) -> tuple[float, float]:
        return 72 + column * step + size * chunk, top + row * rank

    for rank in range(3):
        drawing.text(12, top + row * rank + 19, f"rank {rank}", font_weight="bold")
    for step in range(5):
        title = "before" if not step else f"send {step}"
        middle(drawing, place(step, 0, 0)[0] + 1.5 * size, 72, title, of="weak")
        for rank, chunks in enumerate(parts):
            for chunk, summed in enumerate(chunks):
                x, y = place(step, rank, chunk)
                kind = {1: "data", 2: "train", 3: "model"}[len(summed)]
                name = "abc"[chunk]
                drawing.rectangle(x + 1, y, size - 2, size, kind)
                text = "Σ" + name if len(summed) == 3 else name + "₂" * (len(summed) == 2)
                middle(drawing, x + size / 2, y + 19, text)
        if step == 4:
            break
        sent = [(rank - step) % 3 for rank in range(3)]
        before = [[set(chunk) for chunk in chunks] for chunks in parts]
        for rank, chunk in enumerate(sent):
            to = (rank + 1) % 3
            parts[to][chunk] = before[to][chunk] | before[rank][chunk]
            x, y = place(step, rank, 3)
            end_x, end_y = place(step + 1, to, 0)
            drawing.arrow((x + 1, y + size / 2), (end_x - 2, end_y + size / 2))
    for x, kind, text in (
        (158, "train", "reduce-scatter: add, pass on"),
        (398, "model", "all-gather: pass on"),
    ):
        drawing.rectangle(x, 36, 226, 6, kind)
        middle(drawing, x + 113, 26, text)
    caption(
        drawing,
        top + 3 * row + 14,
        "a, b, c: parts of the gradient; a₂: summed over two ranks, Σa: over all.",
        "N ranks: 2·(N−1) sends, each of 1/N of the bytes.",
    )
    return drawing.render(top + 3 * row + 50)


# Of base in fp32 with torch 2.13, in MB, in the order of sending (`--bucket_cap_mb 25`).
BASE_BUCKETS = (26.3, 26.3, 29.4, 27.3, 26.3, 27.3, 79.2)


def overlap() -> str:
    drawing = Drawing("Buckets of gradients are sent while backward still computes", WIDTH)
    left, forward, scale = 84, 70, 1.5
    drawing.text(12, 78, "device", font_weight="bold")
    drawing.text(12, 164, "network", font_weight="bold")
    bar(drawing, left, 54, forward, "data", "forward")
    start = left + forward + 4
    x = free = start
    last = len(BASE_BUCKETS) - 1
    for k, size in enumerate(BASE_BUCKETS):
        width = size * scale * (0.75 if k == last else 1)  # the embedding has little arithmetic
        text = "embedding" if k == last else f"{k + 1}"
        bar(drawing, x, 54, width - 2, "train", text)
        x += width
        begin, long = max(x, free), size * 0.9
        bar(drawing, begin, 140, long, "world", f"{size:.0f} MB" if k == last else f"{k + 1}")
        drawing.arrow((x - 2, 96), (begin + 4, 138))
        free = begin + long + 2
    middle(drawing, (start + x) / 2, 40, "backward, last layer first", font_weight="bold")
    drawing.arrow((x, 206), (free, 206), both=True)
    middle(drawing, (x + free) / 2, 228, "waits", of="weak")
    bar(drawing, free + 4, 54, WIDTH - 14 - free, "model", "update")
    caption(
        drawing,
        256,
        "The seven buckets of base, sent in fixed order. Widths of the network's bars",
        "are bytes, not measured times. The last bucket holds the shared embedding.",
    )
    return drawing.render(290)


def accumulation() -> str:
    drawing = Drawing("Gradient accumulation: no_sync for all micro-batches but the last", WIDTH)
    for rank, count in enumerate((3, 2)):
        y = 48 + 92 * rank
        drawing.text(12, y + 25, f"rank {rank}", font_weight="bold")
        for k in range(count):
            x = 72 + 118 * k
            bar(drawing, x, y, 36, "data", "fwd")
            bar(drawing, x + 38, y, 74, "train", "backward")
            is_last = k == count - 1
            text = "last: sends" if is_last else "no_sync"
            middle(drawing, x + 56, y - 8, text, of="" if is_last else "mono weak")
    bar(drawing, 72 + 236, 140, 112, "note", "waits")
    drawing.rectangle(430, 40, 92, 148, "world")
    middle(drawing, 476, 119, "all-reduce")
    drawing.rectangle(530, 40, 98, 148, "model")
    for k, text in enumerate(("clip", "update", "zero_grad")):
        middle(drawing, 579, 101 + 20 * k, text)
    caption(
        drawing,
        216,
        "Both ranks divide by the target tokens of the whole step.",
        "Ranks may need different numbers of micro-batches.",
    )
    return drawing.render(250)


def sharding() -> str:
    drawing = Drawing("The plan of an epoch: sort, cut into buckets, mix into steps, shard", WIDTH)
    buckets = {"a": (236, 146), "b": (384, 96), "c": (482, 70), "d": (554, 70)}
    titles = (
        (44, "1  sort by length", ""),
        (104, "2  cut into buckets", "of equal size, padded"),
        (176, "3  mix into steps", "by (seed, epoch)"),
        (256, "4  shard a step", "equal parts for ranks"),
        (336, "5  micro-batches", "of at most max_tokens"),
    )
    for y, title, more in titles:
        drawing.text(14, y, title, 16, font_weight="bold")
        drawing.text(36, y + 20, more, of="weak")
    for k in range(16):
        height = 8 + 2.3 * k
        drawing.rectangle(238 + 24.4 * k, 60 - height, 18, height, "data")
    for name, (x, width) in buckets.items():
        bar(drawing, x, 88, width, "train", name)
    for number, names, x in ((1, "bc", 236), (2, "da", 408)):
        total = sum(buckets[name][1] for name in names) + 2
        for name in names:
            bar(drawing, x, 160, buckets[name][1], "train", name)
            x += buckets[name][1] + 2
        middle(drawing, x - total / 2, 217, f"step {number}", of="weak")
    bar(drawing, 408, 240, 70, RANKS[0], "rank 0")
    bar(drawing, 480, 240, 146, RANKS[1], "rank 1")
    drawing.text(396, 265, "step 2", of="weak", text_anchor="end")
    for rank, x, width in ((0, 408, 34), (0, 444, 34), (1, 480, 72), (1, 554, 72)):
        bar(drawing, x, 322, width, RANKS[rank], "da"[rank])
    for x in (443, 553):
        drawing.arrow((x, 280), (x, 320))
    caption(drawing, 392, "Bucket a has many short sentences, d few long ones: about equal tokens.")
    return drawing.render(408)


def rank0_work() -> str:
    drawing = Drawing("Rank 0 validates; the other ranks wait in a collective", WIDTH)
    for y, name in ((63, "rank 0"), (133, "others")):
        drawing.text(12, y, name, font_weight="bold")
    for y in (38, 108):
        bar(drawing, 78, y, 90, "data", "steps")
        bar(drawing, 548, y, 80, "data", "steps")
    bar(drawing, 170, 38, 80, "train", "copy")
    bar(drawing, 252, 38, 212, "model", "validate: decode, score")
    bar(drawing, 466, 38, 80, "train", "copy")
    bar(drawing, 170, 108, 376, "note", "wait in a collective")
    for x in (251, 465, 547):
        drawing.arrow((x, 79), (x, 107))
    caption(
        drawing,
        176,
        "Copy: the state of a checkpoint, which a thread of rank 0 writes.",
        "The watchdogs of the waiting ranks read the heartbeat of rank 0:",
        "no limit of time while it makes progress.",
    )
    return drawing.render(230)


FIGURES_OF_PAGE: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (ranks, dp_ddp, ring_all_reduce, overlap, accumulation, sharding, rank0_work)
}

if __name__ == "__main__":
    for name, draw in FIGURES_OF_PAGE.items():
        (FIGURES / f"{name}.svg").write_text(draw(), encoding="utf-8")
