"""Plants faults into a copy of the checkout, one at a time, and reports which of them tests catch.

    python -m tools.faults                          # all; takes 40 minutes on one core
    python -m tools.faults end_marker_not_learnt    # some
    python -m tools.faults --all_tests NAME         # with all tests, until one fails

`faults.toml` has the faults, each with the tests to run. A fault with which tests do not end is
caught, too. The record is benchmarks/results/faults.md; a fault that is not run keeps its row.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from translate_ddp.console import ProgressBar, print_line

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks/results/faults.md"
PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:benchmark", "--timeout=0"]
FAILED = re.compile(r"^(?:FAILED|ERROR) ([\w/.:]+)", re.MULTILINE)  # in the summary of pytest
ROW = re.compile(r"^\| (\w+) \| \w+ \| (.+) \|$", re.MULTILINE)
NOT_CAUGHT = MISSED, NOT_FOUND, NO_TESTS = "MISSED", "TEXT NOT FOUND ONCE", "TESTS NOT RUN"
TEXT = """# Planted faults

`python -m tools.faults` plants each fault of `tools/faults/faults.toml` and runs the tests that it
names: without slow ones, then, if all pass, with `--all`. {} of {} faults are caught, {} of them
by tests that are not slow.

| fault | path | caught by |
| --- | --- | --- |
"""
ALL = " (`--all`)"  # after a slow test


def main() -> None:
    paths = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
    faults = {name: each | {"path": path} for path in paths for name, each in paths[path].items()}
    parser = argparse.ArgumentParser(
        "python -m tools.faults", None, __doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; default: all")
    parser.add_argument("--all_tests", action="store_true", help="of the project, not the fault's")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds of all its tests")
    given = parser.parse_args()
    if unknown := set(given.names) - set(faults):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    found = dict(ROW.findall(RECORD.read_text(encoding="utf-8"))) if RECORD.exists() else {}
    names = given.names or list(faults)
    bar = closing(ProgressBar("Faults", len(names)))
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch, bar as progress:
        copy_checkout(Path(scratch))
        for name in names:
            tests = ["tests"] if given.all_tests else faults[name]["tests"]
            found[name] = run_tests(faults[name], tests, Path(scratch), given.timeout)
            if found[name] in (MISSED, NO_TESTS):  # all of them may be slow
                tests = ["--all", *tests]
                found[name] = run_tests(faults[name], tests, Path(scratch), given.timeout)
                found[name] += ALL * (found[name] not in NOT_CAUGHT)
            print_line(f"{name}: {'caught by ' * (found[name] not in NOT_CAUGHT)}{found[name]}")
            progress.advance()
            rows = [(each, faults[each]["path"], found[each]) for each in faults if each in found]
            caught = [row[2] for row in rows if row[2] not in NOT_CAUGHT]
            text = TEXT.format(len(caught), len(rows), sum(ALL not in each for each in caught))
            text += "".join(f"| {' | '.join(row)} |\n" for row in rows)
            RECORD.write_text(text, encoding="utf-8")
    print_line(f"{sum(found[name] not in NOT_CAUGHT for name in names)} of {len(names)} caught.")


def copy_checkout(folder: Path) -> None:
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in listed.rstrip("\0").split("\0"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def run_tests(fault: Mapping[str, Any], tests: list[str], copy: Path, seconds: float) -> str:
    """The test that fails with the fault in the copy of the checkout; else why there is none."""
    file, output = copy / fault["file"], copy / "output"
    text = file.read_text(encoding="utf-8")
    if text.count(fault["old"]) != 1:
        return NOT_FOUND
    file.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    words = ["timeout", "--signal=KILL", str(seconds), *PYTEST, *tests]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    with output.open("wb") as stdout:  # no pipe: a process that hangs may keep it open
        code = subprocess.call(words, cwd=copy, env=environment, stdout=stdout, stderr=stdout)
    file.write_text(text, encoding="utf-8")
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return f"no end within {seconds:g} s"
    printed = output.read_text(encoding="utf-8", errors="replace")
    failed = FAILED.findall(printed)
    if code > 1 or (code and not failed):
        print_line(printed)
        return NO_TESTS
    return failed[0] if failed else MISSED


if __name__ == "__main__":
    main()
