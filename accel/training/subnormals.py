"""Subnormal numbers, which are below the smallest normal float, become zeros while a training runs.

A parameter without a gradient, such as those of the last chunk of FastTrees and ON-LSTM, which no gate writes, decays
until it is subnormal, and stays so. Intel's processors take some hundred cycles for each operation on one: a step of
logical inference took five times as long after 1,700 steps.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_FLAGS = 0x8040  # bits of the register MXCSR: subnormal results, and arguments, become 0
_WORD = 7  # the word of the C library's `fenv_t` for x86-64 that holds this register

for _dtype in (np.float32, np.float64):
    np.finfo(_dtype)  # NumPy caches what it measures here, and warns if it measures without subnormals


@contextmanager
def as_zeros() -> Iterator[None]:
    """Set subnormal numbers to 0 in this thread, and in those that it starts; on Linux with an x86-64 processor.

    Threads that the BLAS has started before, for matrix products, are not changed.
    """
    is_known = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    library = ctypes.CDLL(None) if is_known else None
    if library is None or not hasattr(library, "fegetenv"):  # another system, or a Python without libm
        yield
        return
    before, during = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    library.fegetenv(before)
    during[:] = before
    during[_WORD] |= _FLAGS
    library.fesetenv(during)
    try:
        yield
    finally:
        library.fesetenv(before)
