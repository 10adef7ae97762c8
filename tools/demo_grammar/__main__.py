"""Writes the demo corpus: `python -m tools.demo_grammar [path]`, by default the shipped file."""

import sys
from pathlib import Path

from tools.demo_grammar.corpus import demo_tsv

SHIPPED = Path(__file__).parents[2] / "translate_ddp" / "data" / "demo.tsv"

if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    path.write_text(demo_tsv(), encoding="utf-8", newline="\n")
