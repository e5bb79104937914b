"""A plug-in for pytest: write the outcome of every test as it ends, and leave out the tests that have passed before.

python -m pytest -p benchmarks.gpu_report.each_test --record FILE ...
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu_report.records import append_line, read_lines

KEPT = ("passed", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, metavar="FILE", help="a line of JSON for every test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--record")
    past_tests = {line["test"] for line in read_lines(path) if line["outcome"] in KEPT}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in past_tests])
    items[:] = [item for item in items if item.nodeid not in past_tests]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # with xdist only the main process records
        config.pluginmanager.register(Recorder(config.getoption("--record")))


class Recorder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        line = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 3)}
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            line["reason"] = " ".join(str(crash.message if crash else report.longrepr).split())[:300]
        elif report.skipped and isinstance(report.longrepr, tuple):
            line["reason"] = str(report.longrepr[2])[:200]
        append_line(self.path, line)
