"""Freed memory stays with the process where it is asked to."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from accel.training.memory import keep_freed_memory
if {keep} and not keep_freed_memory():
    raise SystemExit(3)
for repeat in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(2**24, np.float32)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(after - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc can")
def test_freed_memory_is_used_again() -> None:
    """The third array of 64 MiB costs no page fault a page."""
    faults = {}
    for keep in (False, True):
        done = subprocess.run([sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True)
        if done.returncode == 3 and platform.libc_ver()[0] != "glibc":
            pytest.skip("this C library has no mallopt")
        faults[keep] = int(done.stdout)
    assert faults[True] < 10 < faults[False], faults
