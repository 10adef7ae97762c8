"""Screenshots of the pages, in light mode, with a headless Chromium."""

import base64
import csv
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from struct import pack

from tests.helpers.browser import Browser, chromium
from tests.helpers.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT, SCALE = 800, 500, 1.5  # of the window; pictures are as high as the content
TYPED = """The old doctor reads the letter in the garden.
Where is my mother?
The boy has a new xylophone."""  # the demo has no xylophone: the page marks uncertain words
FOREIGN = "Старый врач читает письмо в саду."  # in a column of Italian
PLAIN, TWICE, COPIED, EMPTY, WRONG = 3000, 60, 40, 25, 20  # pairs of each kind


def serve_page(work: Path) -> bytes:
    """The page of `serve` with a translation by the demo."""
    with served(work / "weights") as url, chromium() as browser:
        browser.open(url, WIDTH, HEIGHT, ready="settings && document.activeElement.id === 'source'")
        browser.call("Input.insertText", text=TYPED)
        browser.wait_for("latest && !document.body.matches('.outdated')")
        browser.evaluate("document.activeElement.blur()")
        return picture(browser)


@contextmanager
def served(weights: Path) -> Iterator[str]:
    """The address of a server with this model."""
    port = free_port()
    words = ["-m", "translate_ddp", "serve", "--model_folder", str(weights), "--port", str(port)]
    server = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        next(line for line in server.stdout if "Serving" in line)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


def inspect_page(work: Path) -> bytes:
    """The upper part of the page of `inspect --html`, of a table with some defects."""
    write_table(work / "corpus.csv")
    words = "-m translate_ddp inspect --dataset corpus.csv --lang_src en --lang_tgt it --seconds 0"
    command = [sys.executable, *words.split(), "--html", "inspect.html"]
    environment = {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=work, check=True, env=environment, stdout=subprocess.DEVNULL)
    with chromium() as browser:
        browser.open(f"file://{work / 'inspect.html'}", WIDTH, HEIGHT)
        browser.evaluate("[...document.querySelectorAll('details')].at(-1).open = true")
        return picture(browser, "document.querySelector('main > section')")


def write_table(path: Path) -> None:
    """Pairs of the demo, with pairs that are double, copied, empty or in another language."""
    with (ROOT / "translate_ddp/data/demo.tsv").open(encoding="utf-8") as lines:
        demo = (line.rstrip("\n").split("\t")[1:] for line in lines)
        pairs = list(islice((pair for pair in demo if pair[0].count(" ") > 4), 0, 3 * PLAIN, 3))
    rest = iter(pairs)
    rows = [("en", "it"), *pairs, *islice(rest, TWICE)]
    rows += [(source, source) for source, _ in islice(rest, COPIED)]
    rows += [(source, "") for source, _ in islice(rest, EMPTY)]
    rows += [(source, FOREIGN) for source, _ in islice(rest, WRONG)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


# Of the report: no times, which depend on the machine, two charts and two sentences.
SHORTEN = """
for (const each of document.querySelectorAll(
    "nav, fieldset, p:has(progress), figure:nth-child(n + 3), .samples > :nth-child(n + 3)"))
  each.remove();
for (const each of document.querySelectorAll(".tiles > div"))
  if (/time|tokens/.test(each.textContent)) each.remove();
"""


def report_page(work: Path) -> bytes:
    """Scores, curves and sentences of the page of the demo's run; some are left out."""
    with chromium() as browser:
        browser.open(f"file://{work / 'weights/report.html'}", WIDTH, HEIGHT)
        browser.evaluate(SHORTEN)
        return picture(browser, "document.querySelectorAll('main > section')[1]")


def picture(browser: Browser, last: str = "") -> bytes:
    """A PNG of the page, down to the element that is the value of `last`."""
    # No scroll bar, whose width would be that of the text in the picture.
    browser.evaluate("document.documentElement.style.overflow = 'hidden'")
    height = browser.evaluate(
        f"{last}.getBoundingClientRect().bottom + scrollY + 12"
        if last
        else "document.documentElement.scrollHeight"
    )
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": SCALE}
    shot = browser.call(
        "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
    )
    return with_palette(browser, shot["data"])


# The 256 most frequent colors, and of each pixel the nearest of them, row by row.
INDEX = """(async () => {
  const bytes = Uint8Array.from(atob("PNG"), (each) => each.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(
    context.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  const colors = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  const parts = (color) => [color & 255, color >> 8 & 255, color >> 16 & 255];
  const palette = colors.slice(0, 256).map(parts);
  const nearest = new Map(colors.map((color) => {
    const own = parts(color);
    const distances = palette.map((each) => Math.hypot(...each.map((x, k) => x - own[k])));
    return [color, distances.indexOf(Math.min(...distances))];
  }));
  const text = Array.from(pixels, (pixel) => String.fromCharCode(nearest.get(pixel))).join("");
  return [image.width, image.height, palette.flat(), btoa(text)];
})()"""


def with_palette(browser: Browser, png: str) -> bytes:
    """The picture as a PNG with at most 256 colors, which has a third of the bytes."""
    browser.open("about:blank", WIDTH, HEIGHT)
    expression = INDEX.replace("PNG", png)
    call = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    found = browser.call("Runtime.evaluate", **call)["result"]["value"]
    width, height, palette, pixels = *found[:2], bytes(found[2]), base64.b64decode(found[3])
    rows = (b"\0" + pixels[k * width : (k + 1) * width] for k in range(height))  # no filter
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", palette),
            chunk(b"IDAT", zlib.compress(b"".join(rows), 9)),
            chunk(b"IEND", b""),
        ]
    )


def chunk(name: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data))
