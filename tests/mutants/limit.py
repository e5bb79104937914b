"""A pytest plug-in that ends the process when a test takes SECONDS of the processor: a mutant may loop for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

SECONDS = 90.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """The signal ends the process also in compiled code."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
