"""Write what the lab's commands print into docs/ddp-lab.md: python -m lab.page"""

import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/ddp-lab.md"


def with_output(found: re.Match[str]) -> str:
    """A block with a command, and a block with what it prints now."""
    done = subprocess.run(found[1], shell=True, stdout=subprocess.PIPE, text=True, check=True)
    return f"```\n{found[1]}\n```\n```\n{done.stdout.strip()}\n```\n"


if __name__ == "__main__":
    block = r"```\n(python -m lab\.[^\n]*)\n```\n```\n.*?```\n"
    PAGE.write_text(re.sub(block, with_output, PAGE.read_text(), flags=re.S))
