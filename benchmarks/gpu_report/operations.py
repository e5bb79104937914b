"""The tests of every operation, its gradient and all sizes of its tiles: every kernel, at several sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from benchmarks.gpu_report.records import ROOT, Missing, Row, Setting, read_lines, run_command

TESTS = ("accel/verify/test_sizes.py", "accel/verify/test_values.py", "accel/verify/test_gradients.py")
SMALL = ("-k", "adam or layer_norm")
PROCESSES = 6
NO_TESTS = 5  # the status of pytest when all are done


def rows(setting: Setting) -> Iterator[Row]:
    setting.ops()
    few = SMALL if setting.small else ()
    yield "values, gradients, sizes", lambda: tests(setting, "operations", (*TESTS, "--backend", "cuda", *few))


def tests(setting: Setting, name: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Run tests that have not passed yet, and return how many passed, failed and were skipped."""
    if find_spec("pytest") is None or find_spec("hypothesis") is None:
        raise Missing("pytest or hypothesis is not here")
    record = setting.out / f"{name}-tests.jsonl"
    command = [sys.executable, "-m", "pytest", *words, "--hypothesis-profile", "quick", "--color", "no"]
    command += ["-p", "no:benchmark"]  # if installed, it warns when xdist runs, and warnings are errors
    command += ["-p", "benchmarks.gpu_report.each_test", "--record", str(record)]
    command += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]  # not those of the folder of the record
    command += [] if setting.stand_in else ["--require", "cuda"]
    if not setting.small and find_spec("xdist") is not None:
        command += ["-n", str(PROCESSES)]
    status = run_command(command, setting.out / f"{name}-tests.log")
    if status not in (0, 1, NO_TESTS):
        raise RuntimeError(f"pytest ended with status {status}: see {name}-tests.log")
    return summary(setting, name)


def summary(setting: Setting, name: str) -> dict[str, Any]:
    """Return the outcomes of the tests that have run so far, and the failures."""
    last = {line["test"]: line for line in read_lines(setting.out / f"{name}-tests.jsonl")}
    outcomes = [line["outcome"] for line in last.values()]
    failures = {test: line.get("reason", "") for test, line in last.items() if line["outcome"] == "failed"}
    return {x: outcomes.count(x) for x in ("passed", "failed", "skipped")} | {"failures": failures}
