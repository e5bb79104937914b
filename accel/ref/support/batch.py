"""The reference over a batch: offsets, joined rows, and gradients by central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = tuple[Array, ...]


def ranges_of(offsets: Array, n_rows: int, name: str = "offsets") -> list[slice]:
    """Return the rows of every sequence; refuse offsets that do not rise from 0 to `n_rows`."""
    if len(offsets) == 0 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: must start at 0 and never decrease")
    if offsets[-1] != n_rows:
        raise ValueError(f"{name}: end at {offsets[-1]}, not at {n_rows}")
    return [slice(int(a), int(b)) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def sequences_of(offsets: Array, n_rows: int) -> list[slice]:
    """Return the rows of every sequence; refuse an empty sequence, and all that `ranges_of` refuses."""
    parts = ranges_of(offsets, n_rows)
    for b, part in enumerate(parts):
        if part.start == part.stop:
            raise ValueError(f"sequence {b}: empty")
    return parts


def offsets_of(lengths: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def one_dtype(**arrays: Array) -> None:
    """Refuse float arguments of different dtypes."""
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.dtype != arrays[first].dtype:
            raise ValueError(f"{name}: {array.dtype}, but {first} is {arrays[first].dtype}")


def finite(**arrays: Array) -> None:
    """Refuse a NaN or an infinity."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: NaN or infinity in row {np.argwhere(~np.isfinite(array))[0, 0]}")


def joined(rows: Sequence[Array], dtype: Any) -> Array:
    return np.concatenate([np.asarray(row, dtype=dtype) for row in rows]) if rows else np.zeros(0, dtype)


def of_sequence(b: int, call: Callable[[], Any]) -> Any:
    """Return the result of `call`; if it raises ValueError, name the sequence in the message."""
    try:
        return call()
    except ValueError as error:
        raise ValueError(f"sequence {b}: {error}") from error


def central_difference(f: Callable[..., Outputs], n_differentiable: int, step: float = 1e-5) -> Callable[..., Outputs]:
    """Return f_vjp: the derivatives of <d_out, f(inputs)[0]> by all numbers of the first `n_differentiable` inputs."""

    def f_vjp(d_out: Array, outputs: Outputs, *inputs: Any, **options: Any) -> Outputs:
        wide = [np.array(x, np.float64) if getattr(x, "dtype", None) == np.float32 else x for x in inputs]
        wide[:n_differentiable] = [np.array(x, np.float64) for x in wide[:n_differentiable]]
        gradients = []
        for x, original in zip(wide[:n_differentiable], inputs, strict=False):
            gradient = np.empty(x.shape)
            for index in np.ndindex(x.shape):
                value, ends = x[index], []
                for x[index] in (value + step, value - step):
                    ends.append(np.sum(f(*wide, **options)[0] * d_out))
                x[index] = value
                gradient[index] = (ends[0] - ends[1]) / (2 * step)
            gradients.append(gradient.astype(original.dtype))
        return tuple(gradients)

    return f_vjp
