"""Checks of arguments: an error is one line that names the argument; checks of indices are vectorised."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

_FLOATS = np.dtype(np.float32), np.dtype(np.float64)

P = ParamSpec("P")
R = TypeVar("R")


def contiguous(operation: Callable[P, R]) -> Callable[P, R]:
    """Return the operation for arrays of any layout: those that are read-only or not in C order are copied first.

    Otherwise Numba would compile the kernels once more for every such layout, which takes seconds.
    """

    @wraps(operation)
    def of_any_layout(*arguments: P.args, **options: P.kwargs) -> R:
        keywords: Any = {name: _in_c_order(x) for name, x in options.items()}
        return operation(*map(_in_c_order, arguments), **keywords)

    return of_any_layout


def _in_c_order(x: Any) -> Any:
    if isinstance(x, tuple):  # the outputs that a gradient gets
        return tuple(map(_in_c_order, x))
    if not isinstance(x, np.ndarray):
        return x
    return np.asarray(x) if x.flags.carray else np.array(x, order="C")


def check_floats(**arguments: tuple[NDArray[Any], str]) -> dict[str, int]:
    """Return the sizes of the axes of float arrays; every array comes with the names of its axes: ``q=(q, "NHD")``.

    Raises
    ------
    ValueError
        An argument is no float array, has another dtype than the first, or a size that contradicts an earlier one.
    """
    sizes: dict[str, int] = {}
    first, dtype = "", None
    for name, (array, axes) in arguments.items():
        if not isinstance(array, np.ndarray) or array.dtype not in _FLOATS:
            raise ValueError(f"{name}: expected a float32 or float64 array, not {getattr(array, 'dtype', type(array))}")
        if dtype is None:
            first, dtype = name, array.dtype
        if array.dtype != dtype:
            raise ValueError(f"{name}: {array.dtype}, but {first} is {dtype}")
        fits = array.ndim == len(axes)
        for axis, size in zip(axes, array.shape, strict=False):
            fits = fits and sizes.setdefault(axis, size) == size
        if not fits:
            shape = ", ".join(str(sizes.get(axis, axis)) for axis in axes)
            raise ValueError(f"{name}: shape {array.shape}, expected [{shape}]")
    return sizes


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise ValueError, naming the first bad row, if the array holds a NaN or an infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum())  # one pass, no second array; the sum may overflow
    if suspicious and not np.isfinite(array).all():
        row, *_ = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(f"{name}: NaN or infinity in row {row}")


def check_indices(name: str, indices: NDArray[np.int32], size: int, bound: int, least: int = 0) -> None:
    """Raise ValueError unless there are `size` int32 indices, all from `least` to `bound - 1`."""
    if not isinstance(indices, np.ndarray) or indices.dtype != np.int32 or indices.shape != (size,):
        actual = f"{indices.dtype} {indices.shape}" if isinstance(indices, np.ndarray) else type(indices).__name__
        raise ValueError(f"{name}: expected int32 ({size},), not {actual}")
    if size and (indices.min() < least or indices.max() >= bound):
        where = int(np.flatnonzero((indices < least) | (indices >= bound))[0])
        raise ValueError(f"{name}: {indices[where]} at {where} is not in {least}..{bound - 1}")


def check_offsets(name: str, offsets: NDArray[np.int64], count: int | None, end: int) -> None:
    """Raise ValueError unless the int64 offsets rise from 0 to `end` in `count` steps (any number if None)."""
    if not isinstance(offsets, np.ndarray) or offsets.dtype != np.int64 or offsets.ndim != 1 or not offsets.size:
        raise ValueError(f"{name}: expected a vector of int64")
    if count is not None and offsets.size != count + 1:
        raise ValueError(f"{name}: {offsets.size} offsets, expected {count + 1}")
    if offsets[0] != 0 or offsets[-1] != end:
        raise ValueError(f"{name}: from {offsets[0]} to {offsets[-1]}, expected 0 to {end}")
    if (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"{name}: decreases at {int(np.flatnonzero(offsets[1:] < offsets[:-1])[0]) + 1}")
