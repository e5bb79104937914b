"""Freed memory stays with the process if the setting is on; the memory of graphs is counted."""

from __future__ import annotations

import platform
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from weakref import WeakKeyDictionary

import pytest

from accel import cpu
from accel.cuda import device
from accel.cuda.support import graphs
from accel.training.memory import greatest

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
    """A third array of 64 MiB causes few page faults, because it uses the memory of the first ones."""
    faults = {}
    for keep in (False, True):
        process = subprocess.run([sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True)
        if process.returncode == 3 and platform.libc_ver()[0] != "glibc":
            pytest.skip("this C library has no mallopt")
        faults[keep] = int(process.stdout)
    assert faults[True] < 10 < faults[False], faults


def test_the_memory_of_graphs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each graph has its own memory pool; the next graph takes over the pool of a deleted graph."""
    sizes, stream = iter((3 * 10**9, 10**9, 2 * 10**9)), SimpleNamespace()
    stream.begin_capture, stream.end_capture = lambda: None, lambda: None
    pools = SimpleNamespace(
        MemoryPool=lambda: SimpleNamespace(malloc=None, total_bytes=partial(next, sizes)),
        using_allocator=lambda malloc: nullcontext(), get_current_stream=lambda: stream,
    )  # fmt: skip
    xp = SimpleNamespace(cuda=pools, get_default_memory_pool=lambda: SimpleNamespace(total_bytes=lambda: 10**9))
    monkeypatch.setattr(device, "xp", lambda: xp)
    monkeypatch.setattr(graphs, "_most_bytes", 0)
    monkeypatch.setattr(graphs, "_pools", WeakKeyDictionary())
    replays = [graphs.captured_by_cupy(list)[1] for _ in range(2)]
    del replays[0]
    replays.append(graphs.captured_by_cupy(list)[1])
    ops = SimpleNamespace(xp=xp, graph_bytes=graphs.graph_bytes)
    assert greatest(ops).endswith("5 GB on the GPU") and "GPU" not in greatest(cpu)
