"""Options of pytest: `--all`, `--record` and `--no_skips`."""

import json
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet
from pytest import CollectReport, TestReport

Report = TypeVar("Report", CollectReport, TestReport)

DURATIONS = Path(__file__).parents[1] / "durations.json"  # seconds of each test that takes long
RECORDED_SECONDS = 0.5
IS_SLOW = pytest.StashKey[dict[str, bool]]()  # by the name of each test, before the choice


def slow(*cases: Any) -> list[ParameterSet]:
    """Cases of a parametrized test that run with --all only."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=pytest.mark.slow) for each in values]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--record", action="store_true", help="write tests/durations.json; with --all")
    parser.addoption("--no_skips", action="store_true", help="a test that is skipped fails")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, except with --all or -m, and where a test is named."""
    slow = {item.nodeid: item.get_closest_marker("slow") is not None for item in items}
    config.stash[IS_SLOW] = slow
    chosen = config.getoption("all") or config.getoption("markexpr")
    if chosen or any("::" in argument for argument in config.args):
        return
    config.hook.pytest_deselected(items=[item for item in items if slow[item.nodeid]])
    items[:] = [item for item in items if not slow[item.nodeid]]


class Recorder:
    """Writes the seconds of the tests; those of shared fixtures do not count."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        if report.when == "call":
            self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        long = {
            name: round(seconds, 1)
            for name, seconds in sorted(self.seconds.items())
            if seconds >= RECORDED_SECONDS
        }
        DURATIONS.write_text(json.dumps(long, indent=0) + "\n", encoding="utf-8")


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
