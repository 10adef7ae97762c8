"""Makes the pictures of docs/figures that no benchmark makes.

    python -m tools.pictures                        # all; trains the demo, which takes minutes
    python -m tools.pictures choose.svg             # some
    python -m tools.pictures --work build/pictures  # keeps the demo there, and uses it again

Needs Chromium for screenshots, and requirements-serve.txt.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.pictures.diagrams import choose, data_flow
from tools.pictures.screenshots import ROOT, inspect_page, report_page, serve_page
from tools.pictures.terminal import terminal

FIGURES = ROOT / "docs/figures"
# Functions of the folder with the demo.
PICTURES: dict[str, Callable[[Path], str | bytes]] = {
    "choose.svg": lambda work: choose(),
    "data_flow.svg": lambda work: data_flow(),
    "terminal.svg": terminal,
    "report.png": report_page,
    "inspect.png": inspect_page,
    "serve.png": serve_page,
}
USE_DEMO = {"terminal.svg", "report.png", "serve.png"}


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.pictures", None, __doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(PICTURES))
    parser.add_argument("--work", type=Path, help="folder of the demo; default: a temporary one")
    given = parser.parse_args()
    if unknown := set(given.names) - set(PICTURES):
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    names = given.names or list(PICTURES)
    with tempfile.TemporaryDirectory() as temporary:
        work = (given.work or Path(temporary)).resolve()
        if USE_DEMO & set(names) and not (work / "train.log").exists():
            train_demo(work)
        for name in names:
            content = PICTURES[name](work)
            data = content.encode() if isinstance(content, str) else content
            (FIGURES / name).write_bytes(data)
            print(f"{name}: {len(data) / 1000:.0f} kB", flush=True)


def train_demo(work: Path) -> None:
    """Train the demo into `work`/weights; its output becomes `work`/train.log."""
    work.mkdir(parents=True, exist_ok=True)
    # As `torchrun train.py`, in `work`.
    words = ["-m", "torch.distributed.run", str(ROOT / "train.py")]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=work,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (work / "train.log").write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
