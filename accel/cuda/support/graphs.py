"""CUDA graphs: the kernels and copies of a stream are captured once, and replayed by one call.

A replay does the same with the same memory. Whatever changes from step to step must lie in device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, finalize

import numpy as np

from accel.cuda import device, forms
from accel.cuda.support.streams import capturing, current

T = TypeVar("T")

NUMBER = np.dtype(np.float64).itemsize
SMALLEST = 32  # numbers: padded sizes are multiples of it
SIZES = 8  # padded sizes from one power of two to the next, at most

OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation

_pools: WeakKeyDictionary[Callable[[], None], Any] = WeakKeyDictionary()  # the memory of each graph, by its replay
_left: list[Any] = []  # pools of graphs that are gone, until all their memory is free: see `free_graph_memory`
_most_bytes = 0


class Inputs:
    """Numbers [n] float64 and seeds [m] uint64 in device memory that graphs read; one copy sends all of them."""

    def __init__(self, n_numbers: int, n_seeds: int) -> None:
        self._here = device.pinned(NUMBER * (n_numbers + n_seeds))
        self._there = device.xp().zeros(len(self._here), np.uint8)
        self._n = NUMBER * n_numbers
        self.numbers, self.seeds = self._there[: self._n].view(np.float64), self._there[self._n :].view(np.uint64)

    def send(self, numbers: Sequence[float], seeds: np.ndarray) -> None:
        """Send all of them. The copy before must be complete, for both read the same host memory."""
        self._here[: self._n].view(np.float64)[:] = numbers
        self._here[self._n :].view(np.uint64)[:] = seeds
        self._there.set(self._here, current())


def wants_graphs() -> bool:
    """Return whether training steps are to be captured."""
    return forms.current().graphs


def padded_size(n: int, sizes: int = SIZES) -> int:
    """Return n rounded up to a padded size: at most `sizes` of them lie from one power of two to the next.

    A padded size is a multiple of 32, and of the next power of two divided by 2 `sizes`.

    >>> [padded_size(n) for n in (0, 1, 33, 512, 513, 1100)]
    [0, 32, 64, 512, 576, 1152]
    """
    step = max(SMALLEST, (1 << (n - 1).bit_length()) // (2 * sizes))
    return -(-n // step) * step


def captured(work: Callable[[], T]) -> tuple[T, Callable[[], None]]:
    """Return what `work` returns, arrays whose contents are not computed yet, and a function that replays its kernels.

    All kernels must have run before, so that nothing is compiled. Raises RuntimeError, or what CuPy raises, if `work`
    waits for the device or copies from the host.
    """
    with capturing():
        return device.captured(work)


def captured_by_cupy(work: Callable[[], T]) -> tuple[T, Callable[[], None]]:
    """Capture the current stream of CuPy. Memory that `work` frees stays in the graph's pool: replays use it again."""
    free_graph_memory()
    cuda = device.xp().cuda
    pool = cuda.MemoryPool(_memory_of_gpu)
    try:
        with cuda.using_allocator(pool.malloc):
            result, graph = _captured(work)
    except BaseException as error:
        _left.append(pool)
        if getattr(error, "status", None) == OUT_OF_MEMORY:
            raise MemoryError(f"no memory for a graph: {error}") from error
        raise

    def replay() -> None:
        graph.launch(current())

    finalize(replay, _left.append, pool).atexit = False
    _pools[replay] = pool
    _note_bytes()
    return result, replay


def _memory_of_gpu(size: int) -> Any:
    """Return memory of the GPU, for the pool of a graph; MemoryError if there is none.

    For the error of CUDA the pool would free what kernels of the graph already use, and ask again.
    """
    cuda = device.xp().cuda
    try:
        return cuda.MemoryPointer(cuda.Memory(size), 0)
    except cuda.runtime.CUDARuntimeError as error:
        if error.status != OUT_OF_MEMORY:
            raise
        raise MemoryError(f"no memory for a graph: {error}") from error


def _captured(work: Callable[[], T]) -> tuple[T, Any]:
    """Return what `work` returns, and the graph of what it launches."""
    stream = current()
    stream.begin_capture()
    try:
        result = work()
    except BaseException:
        with suppress(Exception):  # the error of `work` says more
            stream.end_capture()
        raise
    return result, stream.end_capture()


def free_graph_memory() -> None:
    """Give memory of graphs that are gone back to the GPU, except that of arrays which are still used.

    CuPy does not do it: what is free in a pool stays allocated when the pool goes.
    """
    for pool in _left:
        pool.free_all_blocks()
    _left[:] = [pool for pool in _left if pool.total_bytes()]


def _note_bytes() -> None:
    global _most_bytes
    _most_bytes = max(_most_bytes, sum(pool.total_bytes() for pool in (*_pools.values(), *_left)))


def graph_bytes() -> int:
    """Return the largest number of bytes that all graphs had so far; CuPy's default pool does not contain them."""
    return _most_bytes
