"""compute-sanitizer over the fast kernels and every operation: accesses beyond an array, races in shared memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu_report.records import Missing, Row, Setting, run_command

TOOLS = ("memcheck", "racecheck")
OPTIONS = ("--report-api-errors", "no")  # CUDA's bindings for Python ask the driver for functions that it lacks
SECONDS = 20
FOUND = 9  # the status that says that the sanitizer found an error


def rows(setting: Setting) -> Iterator[Row]:
    setting.ops()
    for tool in TOOLS:
        yield tool, lambda tool=tool: checked(setting, tool)
    if setting.stand_in:
        yield "without a sanitizer", lambda: checked(setting, "")


def checked(setting: Setting, tool: str) -> dict[str, Any]:
    """Return what ran under a tool, and what it found."""
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if tool and (sanitizer is None or setting.stand_in):
        raise Missing("compute-sanitizer is not here" if sanitizer is None else "compute-sanitizer needs a GPU")
    log = setting.out / f"sanitizer-{tool or 'none'}.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.gpu_report.every_kernel", "--seconds", str(SECONDS)]
    command += ["--stand-in"] if setting.stand_in else []
    command += ["--only", "fast_fasttrees", "layer_norm", "dropout", "cumax"] if setting.small else []
    if tool and sanitizer:
        command = [sanitizer, "--tool", tool, *OPTIONS, "--error-exitcode", str(FOUND), *command]
    status = run_command(command, log)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith("=========") and line.strip("= ")]
    was_stopped = any(line.startswith("Timeout (") for line in lines)
    if status not in (0, FOUND) and not was_stopped:
        raise RuntimeError(f"status {status}: {lines[-1] if lines else 'no output'}")
    covered = [line for line in lines if line.isidentifier()]
    return {
        "operations": covered,
        "errors": errors[-1:] if status == FOUND else [],
        "found": status == FOUND,
        "stopped": was_stopped,
    }
