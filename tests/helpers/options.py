"""Options of pytest: which tests run, and what is written about them."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet
from pytest import CollectReport, TestReport

Report = TypeVar("Report", CollectReport, TestReport)

DURATIONS = Path(__file__).parents[1] / "durations.json"  # seconds of each test that takes long
RECORDED_SECONDS = 1.0
IS_SLOW = pytest.StashKey[dict[str, bool]]()  # for each test, before the choice
PASSED = "translate_ddp/passed"  # tests of the last run, in the cache of pytest
OPTIONS = {
    "--all": "run the tests marked slow, too",
    "--not_passed": "run the tests that the last run skipped or lacked, or that failed",
    "--no_skips": "a test that is skipped fails",
    "--record": "write tests/durations.json",
}


def slow(*cases: Any) -> list[ParameterSet]:
    """Cases of a parametrized test that run with --all only."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=pytest.mark.slow) for each in values]


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, text in OPTIONS.items():
        parser.addoption(name, action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that receives the reports of all
        config.pluginmanager.register(Recorder(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, except with --all or -m, and where a test is named."""
    slow = {item.nodeid: item.get_closest_marker("slow") is not None for item in items}
    config.stash[IS_SLOW] = slow
    left_out = set[str]()
    named = config.getoption("markexpr") or any("::" in argument for argument in config.args)
    if not (named or config.getoption("all")):
        left_out |= {name for name in slow if slow[name]}
    if config.getoption("not_passed"):
        left_out |= set(config.cache.get(PASSED, []))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


class Recorder:
    """Keeps which tests passed, and their seconds without fixtures."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.seconds = config, dict[str, float]()

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = round(report.duration, 1)

    def pytest_sessionfinish(self) -> None:
        before = self.config.cache.get(PASSED, []) if self.config.getoption("not_passed") else []
        self.config.cache.set(PASSED, sorted({*before, *self.seconds}))
        if self.config.getoption("record"):
            long = {name: each for name, each in self.seconds.items() if each >= RECORDED_SECONDS}
            text = json.dumps(long, indent=0, sort_keys=True) + "\n"
            DURATIONS.write_text(text, encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, TestReport, TestReport]:
    return failed_if_skipped((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, CollectReport, CollectReport]:
    return failed_if_skipped((yield), collector.config)


def failed_if_skipped(report: Report, config: pytest.Config) -> Report:
    if report.skipped and config.getoption("no_skips"):
        report.outcome = "failed"
        report.longrepr = str(report.longrepr)
    return report
