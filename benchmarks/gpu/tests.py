"""The tests that need a GPU, by pytest in a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.lab import Case, Failed, Found, Lab, Missing, require

ROOT = Path(__file__).resolve().parents[2]
FILE = "tests/test_cuda.py"
NEEDED = ("pytest", "pytest_timeout", "sacrebleu", "jiwer", "tqdm", "yaml")
NO_TESTS = 5  # pytest's exit code where none is selected
COUNT = re.compile(r"(\d+) (passed|failed|skipped|deselected|errors?|xfailed|xpassed|warnings?)")
MARGIN_SECONDS = 5.0  # to report in time what pytest printed
TAIL_CHARACTERS = 8_000


def cases(lab: Lab) -> Iterator[Case]:
    yield Case(FILE, lambda: run_tests(lab), 20)


def run_tests(lab: Lab) -> Found:
    if not (ROOT / FILE).exists():
        raise Missing(FILE)
    require(*NEEDED)
    # Not -q, which the project's settings have already: a second one would hide the counts.
    command = [sys.executable, "-m", "pytest", "-m", "cuda", "-p", "no:cacheprovider", FILE]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=max(1.0, lab.left() - MARGIN_SECONDS),
        )
    except subprocess.TimeoutExpired as error:
        problem = f"stopped after {error.timeout:.0f} s"
        raise Failed(problem, found(error.stdout or b"")) from error
    result = found(done.stdout)
    if done.returncode not in (0, NO_TESTS):
        raise Failed(f"pytest ended with exit code {done.returncode}", result)
    return result


def found(output: bytes) -> Found:
    """What pytest's last line counts, and the end of its output."""
    text = output.decode(errors="replace")[-TAIL_CHARACTERS:]
    last = next(reversed(text.strip().splitlines()), "")
    counts = {name: int(number) for number, name in COUNT.findall(last)}
    return Found({"outcome": "no tests ran"} if not counts else {**counts}, {"output": text})
