"""How many threads compute: Numba's kernels, and the products of NumPy's own OpenBLAS."""

from __future__ import annotations

import numba
from numba import config

from accel.cpu.support import blas


def available_threads() -> int:
    """Return how many threads this process may use."""
    return int(config.NUMBA_NUM_THREADS)


def use_one_thread() -> None:
    """Compute with one thread from now on, whichever thread calls; for a process that was forked.

    The threads of Numba are not forked with it, and GNU's OpenMP would end a process that asked for them.
    """
    use_threads(1)
    config.NUMBA_NUM_THREADS = 1


def use_threads(count: int) -> None:
    """Compute with so many threads, or as many as are available, from now on, when this thread calls.

    The products of a NumPy with another BLAS keep the threads with which they began.
    """
    count = min(count, available_threads())
    numba.set_num_threads(count)
    blas.set_threads(count)
