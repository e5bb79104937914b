"""The folder of outside data, and fixtures that run commands, for the tests of all folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.fixtures")

from accel.cpu.support.compiling import NOTICE  # noqa: E402
from tests.fixtures.command_line import grove, mistake, run_grove  # noqa: E402

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when a test first imports Triton

NOTICE.is_due = False  # what a command prints in a test must not depend on Numba's cache

__all__ = ["grove", "mistake", "run_grove"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data", default=None, help="folder with treebanks and EVALB's known answers, for tests on real data"
    )


@pytest.fixture
def data_dir(request: pytest.FixtureRequest) -> Path:
    """The folder given by --data; without that option, a test that needs the folder is skipped."""
    folder = request.config.getoption("--data")
    if folder is None:
        pytest.skip("no outside data: give their folder with --data=DIR")
    return Path(folder)
