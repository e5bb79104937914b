"""Run the suite with the kernels of other processors, and print a table: `python -m tests.house.portable`.

OpenBLAS, NumPy and Numba choose their kernels by the processor. Each setting makes one of them choose as on another
processor, with an empty Numba cache. All arguments go to pytest (`-k norm`, `accel/verify/test_values.py`). The exit
status is 1 if any test fails in any setting.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
CHOICES = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME")
AVX2, AVX512 = ("X86_V3", "AVX2"), ("X86_V4", "AVX512")  # NumPy 2.4 and newer, older ones


@dataclass(frozen=True)
class Setting:
    """Environment variables, and the instruction sets that the processor needs for the kernels that they choose."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def settings(features: list[str]) -> list[Setting]:
    """Return every setting; `features` are the instruction sets for which NumPy has kernels and which are available."""
    wide = [name for name in features if name.startswith(AVX512)]
    return [
        Setting("as it is"),
        Setting("two threads", dict.fromkeys(THREADS, "2")),
        *(Setting(f"OpenBLAS for {name}", {"OPENBLAS_CORETYPE": name}, AVX2) for name in ("Haswell", "Zen")),
        Setting("OpenBLAS for SkylakeX", {"OPENBLAS_CORETYPE": "SkylakeX"}, AVX512),
        Setting("NumPy without AVX-512", {"NPY_DISABLE_CPU_FEATURES": " ".join(wide)}, AVX512),
        Setting("NumPy without AVX2", {"NPY_DISABLE_CPU_FEATURES": " ".join(features)}, AVX2),
        *(Setting(f"Numba for {name}", {"NUMBA_CPU_NAME": name}, AVX2) for name in ("x86-64-v3", "znver3")),
    ]


def run(setting: Setting, arguments: list[str]) -> tuple[int, str]:
    """Run pytest with a setting; return its exit status and its output."""
    clean = {name: value for name, value in os.environ.items() if name not in CHOICES}
    with tempfile.TemporaryDirectory() as cache:
        environment = clean | dict.fromkeys(THREADS, "1") | {"NUMBA_CACHE_DIR": cache} | setting.variables
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfE", *arguments]
        process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return process.returncode, process.stdout


def counted(printed: str, outcome: str) -> int:
    """Return the number of tests with this outcome, from the last line that pytest printed.

    >>> counted("4 failed, 4463 passed, 127 skipped in 392.81s", "passed")
    4463
    """
    lines = [line for line in printed.splitlines() if re.search(r" in [\d.]+s", line)]
    match = re.search(rf"(\d+) {outcome}", lines[-1]) if lines else None
    return int(match[1]) if match else 0


def red_tests(printed: str) -> Iterator[str]:
    for line in printed.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            yield line.split(" ", 1)[1].split(" - ")[0]


def main(arguments: list[str]) -> int:
    features = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    status = 0
    print(f"{'setting':<24}{'passed':>8}{'failed':>8}{'minutes':>9}")
    for setting in settings(features):
        if setting.needs and not any(name.startswith(setting.needs) for name in features):
            print(f"{setting.name:<24}not run: this processor lacks {setting.needs[-1]}", flush=True)
            continue
        begin = time.monotonic()
        code, output = run(setting, arguments)
        failed = counted(output, "failed") + counted(output, "error")
        minutes = (time.monotonic() - begin) / 60
        print(f"{setting.name:<24}{counted(output, 'passed'):>8}{failed:>8}{minutes:>9.1f}", flush=True)
        for name in red_tests(output):
            print(f"    {name}", flush=True)
        if code:
            status = 1
            if not failed:
                print("\n".join(output.splitlines()[-20:]), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
