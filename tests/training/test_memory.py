"""Freed memory stays with the process if the setting is on; the memory of graphs is counted."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from weakref import WeakKeyDictionary

import pytest

from accel import cpu
from accel.cuda import device
from accel.cuda.support import graphs
from accel.training.graphs import with_room
from accel.training.memory import free_unused, greatest

FAULTS = """
import resource
import numpy as np
from accel.training.graphs import with_room
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


class LacksMemory(RuntimeError):
    """CuPy's `CUDARuntimeError`."""

    status = 2


class Pool:
    """A memory pool of CuPy: memory that arrays no longer use stays in it, also when the pool itself goes."""

    gpu = 0  # bytes that pools hold of it
    size = 10**12  # of its memory

    def __init__(self, allocate: Callable[[int], object]) -> None:
        self.used, self.free, self.allocate = 0, 0, allocate

    def malloc(self, size: int) -> int:
        """Ask the GPU; if it has no memory, free what no array uses, and ask again."""
        try:
            self.allocate(size)
        except LacksMemory:
            self.free_all_blocks()
            self.allocate(size)
        Pool.gpu += size
        self.used += size
        return size

    def release(self, size: int) -> None:
        self.used, self.free = self.used - size, self.free + size

    def total_bytes(self) -> int:
        return self.used + self.free

    def free_all_blocks(self) -> None:
        Pool.gpu -= self.free
        self.free = 0


@pytest.fixture
def of_pools(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Pool], SimpleNamespace]:
    """Return the pools of graphs as they are made, and a stand-in for CuPy with one GB in its own pool."""
    stream, pools = SimpleNamespace(begin_capture=lambda: None, end_capture=lambda: None), list[Pool]()

    def memory(size: int) -> None:
        if Pool.gpu + size > Pool.size:
            raise LacksMemory

    cuda = SimpleNamespace(
        MemoryPool=lambda allocate: pools.append(Pool(allocate)) or pools[-1], get_current_stream=lambda: stream,
        using_allocator=lambda malloc: nullcontext(), Memory=memory, MemoryPointer=lambda memory, offset: memory,
        runtime=SimpleNamespace(CUDARuntimeError=LacksMemory),
    )  # fmt: skip
    own = SimpleNamespace(total_bytes=lambda: 10**9, free_all_blocks=lambda: None)
    xp = SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: own)
    monkeypatch.setattr(device, "xp", lambda: xp)
    monkeypatch.setattr(Pool, "gpu", 0)
    monkeypatch.setattr(graphs, "_most_bytes", 0)
    monkeypatch.setattr(graphs, "_pools", WeakKeyDictionary())
    monkeypatch.setattr(graphs, "_left", [])
    return pools, xp


def test_memory_of_graphs_counts_and_goes_back(of_pools: tuple[list[Pool], SimpleNamespace]) -> None:
    """What a deleted graph leaves in its pool goes back at the next capture, but not an array that is still used."""
    pools, xp = of_pools

    def capture(size: int) -> Callable[[], None]:
        return graphs.captured_by_cupy(lambda: (pools[-1].malloc(size), pools[-1].malloc(1)))[1]

    replays = [capture(3 * 10**9), capture(10**9)]
    ops = SimpleNamespace(xp=xp, graph_bytes=graphs.graph_bytes, free_graph_memory=graphs.free_graph_memory)
    assert greatest(ops).endswith("5 GB on the GPU") and "GPU" not in greatest(cpu)
    del replays[0]
    pools[0].release(3 * 10**9)
    replays.append(capture(2 * 10**9))
    assert Pool.gpu == 3 * 10**9 + 3 and graphs.graph_bytes() == 4 * 10**9 + 2
    pools[0].release(1)
    free_unused(ops)
    assert Pool.gpu == 3 * 10**9 + 2 and graphs._left == []


def test_a_capture_without_memory_gives_back_what_it_had(of_pools: tuple[list[Pool], SimpleNamespace]) -> None:
    pools, xp = of_pools

    def work() -> None:
        pools[-1].malloc(10**9)
        raise LacksMemory

    with pytest.raises(MemoryError, match="no memory for a graph"):
        graphs.captured_by_cupy(work)
    pools[0].release(10**9)
    free_unused(SimpleNamespace(xp=xp, free_graph_memory=graphs.free_graph_memory))
    assert Pool.gpu == 0


def test_a_capture_frees_no_memory_that_its_kernels_use(
    of_pools: tuple[list[Pool], SimpleNamespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an operation has released is free for the next one, but its kernels are in the graph already."""
    pools, _ = of_pools
    monkeypatch.setattr(Pool, "size", 10)

    def work() -> None:
        pools[-1].malloc(6)
        pools[-1].release(6)
        try:
            pools[-1].malloc(8)
        finally:
            assert Pool.gpu == 6

    with pytest.raises(MemoryError, match="no memory for a graph"):
        graphs.captured_by_cupy(work)


def test_room_is_made_by_forgetting_graphs() -> None:
    """The oldest graph goes until there is room; without a graph left, the lack of memory is the run's."""
    ops, results = SimpleNamespace(xp=None), iter([MemoryError, MemoryError, 7])

    def compute() -> int:
        if (result := next(results)) is MemoryError:
            raise MemoryError
        return result

    run = SimpleNamespace(ops=ops, graphs=SimpleNamespace(graphs=["old", "newer", "newest"], most=16))
    assert with_room(run, compute) == 7
    assert run.graphs.graphs == ["newest"] and run.graphs.most == 2
    for without in (None, SimpleNamespace(graphs=[], most=2)):
        results = iter([MemoryError])
        with pytest.raises(MemoryError):
            with_room(SimpleNamespace(ops=ops, graphs=without), compute)
