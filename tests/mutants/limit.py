"""A pytest plug-in that ends the process if a test takes SECONDS of processor time: a mutant may loop for ever.

The first failing example is enough: Hypothesis does not look for a smaller one.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings

SECONDS = 240.0
"""Most of this may be compilation: a file of the CPU backend may be compiled into all of its kernels."""


def pytest_sessionstart() -> None:
    settings.register_profile("mutant", settings.default, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutant")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Start the timer; its signal ends the process also in compiled code."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
