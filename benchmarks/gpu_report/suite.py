"""The rest of the test suite, as far as time allows: what has passed is not run again when the report continues."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu_report.operations import tests
from benchmarks.gpu_report.records import Row, Setting

FIRST = ("tests/kernels", "tests/models", "tests/training", "tests/autodiff")
ALL = ("tests", "accel/verify")
SMALL = ("tests/kernels/test_optimizer.py",)


def rows(setting: Setting) -> Iterator[Row]:
    setting.ops()
    if setting.small:
        yield "a few", lambda: tests(setting, "suite", SMALL)
        return
    yield "kernels, models, training", lambda: tests(setting, "suite", FIRST)
    yield "all", lambda: tests(setting, "suite", ALL)
