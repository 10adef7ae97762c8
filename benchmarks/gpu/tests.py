"""The tests that need a GPU, run by pytest in a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.common import ROOT, Values, last_line
from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable, require

FILE = "tests/test_cuda.py"
NEEDED = ("pytest", "pytest_timeout", "sacrebleu", "jiwer", "tqdm", "yaml")
NO_TESTS = 5  # pytest's exit code if no test is selected
COUNT = re.compile(r"(\d+) (passed|failed|skipped|deselected|errors?|xfailed|xpassed|warnings?)")
MARGIN_SECONDS = 5.0  # to report the output of pytest in time
TAIL_CHARACTERS = 8_000


def tests(setup: Setup) -> Iterator[Case]:
    yield Case(FILE, lambda: run_tests(setup), 20)


def run_tests(setup: Setup) -> Measurement:
    if not (ROOT / FILE).exists():
        raise Unavailable("missing", FILE)
    require(*NEEDED)
    # No -q: the project's settings have one, and a second one would hide the counts.
    command = [sys.executable, "-m", "pytest", "-m", "cuda", "-p", "no:cacheprovider", FILE]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=max(1.0, setup.left() - MARGIN_SECONDS),
        )
    except subprocess.TimeoutExpired as error:
        return found(error.stdout or b"", f"stopped after {error.timeout:.0f} s")
    passed = done.returncode in (0, NO_TESTS)
    return found(done.stdout, "" if passed else f"pytest ended with exit code {done.returncode}")


def found(output: bytes, problem: str) -> Measurement:
    """The counts in pytest's last line, and the end of its output."""
    text = output.decode(errors="replace")[-TAIL_CHARACTERS:]
    counts = {name: int(number) for number, name in COUNT.findall(last_line(text))}
    values: Values = {**counts} if counts else {"outcome": "no tests ran"}
    return Measurement(values, {"output": text}, problem, "failed" if problem else "done")
