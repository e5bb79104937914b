"""Matrix products by NumPy: small ones take only one thread, and a product can be added to an array in place.

Both call NumPy's own OpenBLAS. With another BLAS a product takes all threads, and is added in a second step.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]
LEAST = 2**22
"""Smallest product, in multiplications, for several threads: it takes 40 microseconds with one thread or with two."""
_ROWS, _AS_IT_IS, _TRANSPOSED = 101, 111, 112  # constants of CBLAS
_setting = Lock()


def set_threads(count: int) -> None:
    """Compute products with `count` threads from now on."""
    for library in _libraries():
        library.scipy_openblas_set_num_threads64_(count)


def matmul(a: Float, b: Float, out: Float | None = None, *, add: bool = False, bias: Float | None = None) -> Float:
    """Return a [m, k] @ b [k, n], in `out` if it is not None, added to `out` if `add`; plus `bias` [n] in every row.

    A product of fewer than `LEAST` multiplications takes one thread; OpenBLAS would wake its other threads for less.
    """
    is_large = a.size * b.shape[-1] >= LEAST
    if add and is_large:
        add_product(a, b, out)
    elif add:
        out += _multiplied_by_one(a, b, None)  # type: ignore[operator]
    else:
        out = (np.matmul if is_large else _multiplied_by_one)(a, b, out=out)
    if bias is not None:
        out += bias  # type: ignore[operator]
    return out  # type: ignore[return-value]


def _multiplied_by_one(a: Float, b: Float, out: Float | None) -> Float:
    """Return a @ b, computed by the calling thread; several threads may call at once."""
    if not _setting.acquire(blocking=False):
        return np.matmul(a, b, out=out)
    counts = [library.scipy_openblas_get_num_threads64_() for library in _libraries()]
    try:
        set_threads(1)
        return np.matmul(a, b, out=out)
    finally:
        for library, count in zip(_libraries(), counts, strict=True):
            library.scipy_openblas_set_num_threads64_(count)
        _setting.release()


def add_product(a: Float, b: Float, out: Any) -> None:
    """Add a [m, k] @ b [k, n] to `out` [m, n], without a third matrix if all are contiguous."""
    layouts = [_AS_IT_IS if x.flags.c_contiguous else _TRANSPOSED for x in (a, b)]
    fits = a.dtype == b.dtype == out.dtype and out.flags.c_contiguous
    if not (_libraries() and fits and all(x.flags.forc for x in (a, b)) and a.ndim == b.ndim == 2):
        out += np.matmul(a, b)
        return
    number, name = {"float32": (ctypes.c_float, "sgemm"), "float64": (ctypes.c_double, "dgemm")}[out.dtype.name]
    size, one = ctypes.c_int64, number(1)
    pitch_a, pitch_b = (
        size(x.shape[1] if layout == _AS_IT_IS else x.shape[0]) for x, layout in zip((a, b), layouts, strict=True)
    )
    getattr(_libraries()[0], f"scipy_cblas_{name}64_")(
        _ROWS, *layouts, size(a.shape[0]), size(b.shape[1]), size(a.shape[1]), one, _pointer(a), pitch_a,
        _pointer(b), pitch_b, one, _pointer(out), size(out.shape[1]),
    )  # fmt: skip


def _pointer(x: Float) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


@cache
def _libraries() -> tuple[Any, ...]:
    """Return NumPy's own OpenBLAS, or nothing if it has another BLAS."""
    paths = Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas64_*")
    return tuple(ctypes.CDLL(str(path)) for path in paths)
