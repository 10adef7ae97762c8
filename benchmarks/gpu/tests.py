"""The tests that need a GPU, run by pytest in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.common import ROOT, last_line
from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable, require

FILE = "tests/runtime/test_cuda.py"
NEEDED = ("pytest", "pytest_timeout", "xdist", "sacrebleu", "jiwer", "tqdm", "yaml")
NO_TESTS = 5  # pytest's exit code if no test is selected
MARGIN_SECONDS = 5.0  # to report the output of pytest in time


def tests(setup: Setup) -> Iterator[Case]:
    yield Case(FILE, lambda: run_tests(setup), 20)


def run_tests(setup: Setup) -> Measurement:
    if not (ROOT / FILE).exists():
        raise Unavailable("missing", FILE)
    require(*NEEDED)
    # No -q: the project's settings have one, and a second one would hide the counts.
    command = [sys.executable, "-m", "pytest", "-n0", "-m", "cuda", "-p", "no:cacheprovider", FILE]
    limit = max(1.0, setup.left() - MARGIN_SECONDS)
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=limit)
        output, code = done.stdout, done.returncode
        problem = "" if code in (0, NO_TESTS) else f"pytest ended with exit code {code}"
    except subprocess.TimeoutExpired as error:
        output, problem = error.stdout or b"", f"stopped after {limit:.0f} s"
    text = output.decode(errors="replace")
    status = "failed" if problem else "done"
    return Measurement({"outcome": last_line(text)}, {"output": text}, problem, status)
