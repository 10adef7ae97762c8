"""The tests that run by default take few minutes, and each module's tests are found by name."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.options import DURATIONS, IS_SLOW

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "translate_ddp"
SECONDS, OF_A_FILE, OF_A_TEST = 450, 30, 25  # of recorded tests on two cores, in four processes


def test_tests_that_are_not_slow_take_few_minutes(request: pytest.FixtureRequest):
    slow, recorded = request.config.stash[IS_SLOW], json.loads(DURATIONS.read_text())
    seconds = {test: recorded[test] for test in recorded if slow.get(test) is False}
    assert max(seconds.values(), default=0) <= OF_A_TEST
    files = Counter[str]()
    for test, each in seconds.items():
        files[test.split("::")[0]] += each
    assert max(files.values(), default=0) <= OF_A_FILE and files.total() <= SECONDS, (
        files.most_common(5)
    )


def test_the_map_names_tests_of_each_module():
    files = {path.name for path in TESTS.rglob("test_*.py")}
    rows = re.findall(r"^\| (`.+\.py`) \| (`.+`) \|$", (TESTS / "README.md").read_text(), re.M)
    named = {Path(name).name for modules, _ in rows for name in re.findall("`(.+?)`", modules)}
    for _, tests in rows:
        assert {Path(name).name for name in re.findall("`(.+?)`", tests)} <= files
    modules = {path.name for path in PACKAGE.rglob("*.py") if not path.name.startswith("__")}
    assert named == {module for module in modules if f"test_{module}" not in files}
