"""What lifts the reference over a batch: offsets, joined rows, and gradients by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = tuple[Array, ...]


def ranges_of(offsets: Array, name: str = "offsets") -> list[slice]:
    if len(offsets) == 0 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: must start at 0 and never decrease")
    return [slice(int(a), int(b)) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def offsets_of(lengths: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def joined(rows: Sequence[Array], dtype: Any) -> Array:
    return np.concatenate([np.asarray(row, dtype=dtype) for row in rows]) if rows else np.zeros(0, dtype)


def of_sequence(b: int, call: Callable[[], Any]) -> Any:
    """Return the call's answer; name the sequence if it is refused."""
    try:
        return call()
    except ValueError as error:
        raise ValueError(f"sequence {b}: {error}") from error


def central_difference(f: Callable[..., Outputs], n_differentiable: int, step: float = 1e-5) -> Callable[..., Outputs]:
    """Return f_vjp: the derivative of <d_out, f(inputs)[0]> for every number in the first n inputs."""

    def f_vjp(d_out: Array, outputs: Outputs, *inputs: Any, **options: Any) -> Outputs:
        wide = [np.array(x, np.float64) if i < n_differentiable else x for i, x in enumerate(inputs)]
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
