"""Helpers for arrays of every backend: host copies, joined arrays, offsets of ragged rows, named parts of a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray


def host(array: Array) -> np.ndarray:
    """Return the array in the memory of the host. A copy from the GPU is made only if the host has none."""
    if isinstance(array, np.ndarray):
        return array
    from accel.cuda.support import known  # already loaded, since the array is on a GPU

    return known.host(array)


def fact(compute: Callable[..., Any], *arrays: Array) -> Any:
    """Return the result of `compute` on host copies of the arrays: a number, or None for a check, which may raise.

    Batches share a CUDA graph only if their facts are equal. An array that `host` returned is such a fact as a whole.
    """
    if all(isinstance(array, np.ndarray) for array in arrays):
        return compute(*arrays)
    from accel.cuda.support import known  # already loaded, since an array is on a GPU

    return known.fact(compute, *arrays)


def on_device(ops: ModuleType, arrays: Mapping[str, np.ndarray], **uses: Any) -> dict[str, Array]:
    """Return the arrays of a batch, by name, in the memory of a backend; nobody may change them.

    A GPU gets them in one copy, with what is computed from them for their `uses`: see `accel.cuda.support.batches`.
    """
    return dict(arrays) if ops.xp is np else ops.from_host(arrays, **uses)


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


def multiple_of(ops: ModuleType, itemsize: int) -> int:
    """Return n: on this backend, the arrays of a flat vector begin at multiples of n numbers of `itemsize` bytes.

    A GPU reads and writes 16 bytes at once, and its tensor cores read tiles, only where they are aligned.
    """
    return max(1, getattr(ops, "alignment", 1) // itemsize)


def places(shapes: Mapping[str, tuple[int, ...]], multiple: int = 1) -> tuple[dict[str, slice], int]:
    """Return the slice of each array in a flat vector, and the vector's length; `multiple` divides where slices begin.

    >>> places({"a": (2, 3), "b": (1,)}, 4)
    ({'a': slice(0, 6, None), 'b': slice(8, 9, None)}, 12)
    """
    of_name, start = {}, 0
    for name, shape in shapes.items():
        of_name[name] = slice(start, start + prod(shape))
        start += -(-prod(shape) // multiple) * multiple
    return of_name, start


def named_views(vector: Array, shapes: Mapping[str, tuple[int, ...]], multiple: int = 1) -> dict[str, Array]:
    """Return the parts of a flat vector as arrays of the given shapes, in order; they share its memory.

    Raises
    ------
    ValueError
        If the shapes do not fill the vector exactly.
    """
    of_name, total = places(shapes, multiple)
    if vector.shape != (total,):
        raise ValueError(f"vector: shape {vector.shape}, but the named shapes fill {(total,)}")
    return {name: vector[place].reshape(shapes[name]) for name, place in of_name.items()}


def packed(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], multiple: int = 1) -> np.ndarray:
    """Return arrays of the host as one flat vector, which `named_views` splits again; zeros fill the gaps."""
    of_name, total = places(shapes, multiple)
    vector = np.zeros(total, np.result_type(*(arrays[name].dtype for name in shapes)))
    for name, place in of_name.items():
        vector[place] = arrays[name].ravel()
    return vector
