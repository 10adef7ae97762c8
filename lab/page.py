"""Write what the lab's commands print into docs/ddp-lab.md: python -m lab.page"""

import re
import shlex
import subprocess
import sys
from glob import glob
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/ddp-lab.md"


def with_output(found: re.Match[str]) -> str:
    """A block with a command, and a block with what it prints now."""
    words = [each for word in shlex.split(found[1]) for each in sorted(glob(word)) or [word]]
    printed = subprocess.check_output([sys.executable, *words[1:]], text=True)
    return f"```\n{found[1]}\n```\n```\n{printed.strip()}\n```\n"


if __name__ == "__main__":
    block = r"```\n(python -m lab\.[^\n]*)\n```\n```\n.*?```\n"
    PAGE.write_text(re.sub(block, with_output, PAGE.read_text(), flags=re.S))
