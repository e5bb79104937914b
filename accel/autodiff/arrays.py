"""Helpers for arrays of every backend: host copies, joined arrays, offsets of ragged rows, named parts of a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray


def host(array: Array) -> np.ndarray:
    """Return the array in the memory of the host; an array that is or was there is not copied."""
    if isinstance(array, np.ndarray):
        return array
    from accel.cuda.support import known  # loaded long ago, for the array is of a GPU

    return known.host(array)


def on_device(ops: ModuleType, arrays: Mapping[str, np.ndarray], **uses: Any) -> dict[str, Array]:
    """Return the arrays of a batch by name in the memory of a backend; nobody may change them.

    A GPU gets them in one copy, with what follows from them for their `uses`: see `accel.cuda.support.batches`.
    """
    return dict(arrays) if ops.xp is np else ops.from_host(arrays, **uses)


def product_of(ops: ModuleType) -> Callable[..., Array]:
    """Return the matrix product of a backend: its own `matmul`, or that of its array module.

    It takes a [m, k], b [k, n], and `out` [m, n] to write into, or with `add` to add to; `bias` [n] for every row.
    """
    own: Callable[..., Array] | None = getattr(ops, "matmul", None)
    return own or partial(_matmul, ops.xp)


def _matmul(
    xp: ModuleType, a: Array, b: Array, out: Array | None = None, *, add: bool = False, bias: Array | None = None
) -> Array:
    if add:
        out += xp.matmul(a, b)
    else:
        out = xp.matmul(a, b, out=out)
    if bias is not None:
        out += bias
    return out


def joined(parts: Iterable[np.ndarray | Sequence[int]], dtype: Any) -> np.ndarray:
    """Return the parts one after another on the host; without parts an empty array.

    >>> joined([[2, 3], [], [5]], np.int32)
    array([2, 3, 5], dtype=int32)
    """
    return np.concatenate([np.zeros(0, dtype), *(np.asarray(part, dtype) for part in parts)])


def offsets_of(lengths: Iterable[int] | np.ndarray) -> np.ndarray:
    """Return the starts of consecutive rows of these lengths, and the end of the last row [n + 1] int64.

    >>> offsets_of([2, 3])
    array([0, 2, 5])
    """
    counts = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths), np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def named_views(vector: Array, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return the parts of a flat vector as arrays of the given shapes, in order; they share its memory.

    Raises
    ------
    ValueError
        If the shapes do not fill the vector exactly.
    """
    total = sum(prod(shape) for shape in shapes.values())
    if vector.shape != (total,):
        raise ValueError(f"vector: shape {vector.shape}, but the named shapes fill {(total,)}")
    views, start = {}, 0
    for name, shape in shapes.items():
        stop = start + prod(shape)
        views[name] = vector[start:stop].reshape(shape)
        start = stop
    return views
