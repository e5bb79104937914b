"""A pytest plug-in that records which test runs which line of the mutated folders, and the seconds of passed tests.

pytest -p tests.mutants.measure --contexts FILE ...

Seconds are processor time. Lines that run in another process, or in code compiled by Numba, are not recorded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage

FOLDERS = ("cpu", "cuda", "autodiff", "models", "search", "scoring", "trained", "training")
"""The folders of `accel/` that are mutated."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--contexts", type=Path, required=True, help="the JSON file to write")


class Measurement:
    """Measure coverage, with the running test as its context."""

    def __init__(self, root: Path, path: Path) -> None:
        self.root, self.path = root, path
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()
        self.coverage = Coverage(data_file=None, config_file=False, include=[f"{root}/accel/{f}/*" for f in FOLDERS])
        self.coverage.set_option("run:disable_warnings", ["no-data-collected"])  # a test may only run other processes
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        begin = time.process_time()
        yield
        if item.nodeid in self.passed:
            self.seconds[item.nodeid] = time.process_time() - begin
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {}
        for path in sorted(data.measured_files()):
            contexts = {line: sorted(set(tests) - {""}) for line, tests in data.contexts_by_lineno(path).items()}
            lines[str(Path(path).relative_to(self.root))] = {line: tests for line, tests in contexts.items() if tests}
        self.path.write_text(json.dumps({"seconds": self.seconds, "lines": lines}))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Measurement(config.rootpath, config.getoption("--contexts")))
