"""`pytest --no_skips`: what would be skipped fails, where all that the tests need is installed."""

from collections.abc import Generator
from typing import TypeVar

import pytest
from pytest import CollectReport, TestReport

Report = TypeVar("Report", CollectReport, TestReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no_skips", action="store_true", help="a test that is skipped fails")


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
