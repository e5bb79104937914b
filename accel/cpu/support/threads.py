"""The number of threads of Numba's kernels and of the products of NumPy's own OpenBLAS."""

from __future__ import annotations

import numba
from numba import config

from accel.cpu.support import blas


def available_threads() -> int:
    """Return how many threads this process may use."""
    return int(config.NUMBA_NUM_THREADS)


def use_one_thread() -> None:
    """Compute with one thread from now on, whichever thread calls; for use in a forked process.

    A forked process has no threads of Numba, and GNU's OpenMP would end it if it asked for them.
    """
    use_threads(1)
    config.NUMBA_NUM_THREADS = 1


def use_threads(count: int) -> None:
    """Compute with `count` threads, or all if fewer are available, from now on, when this thread calls.

    If NumPy has another BLAS, its products keep their number of threads.
    """
    count = min(count, available_threads())
    numba.set_num_threads(count)
    blas.set_threads(count)
