"""The arguments of GPST's layers over pairs, under the names that `pair_layers` gives them, and arrays for them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]
LINE = 64
"""Bytes of a line of the cache."""


def aligned(shape: tuple[int, ...], dtype: Any) -> Float:
    """Return a new array that begins at a line of the cache; a vector that lies on two lines takes longer to read."""
    size, spare = math.prod(shape), LINE // dtype.itemsize
    whole = np.empty(size + spare, dtype)
    first = -whole.ctypes.data % LINE // dtype.itemsize
    return whole[first : first + size].reshape(shape)


class Layers(NamedTuple):
    """The arguments of the layers."""

    x: Float  # [2 P, d]
    first: Float  # [2 P, 3 d]
    bias: Float  # [K, R, 3 d]
    product: Float  # [K, d, 3 d]
    output: Float  # [K, d, d]
    output_bias: Float  # [K, d]
    inner: Float  # [K, d, f]
    inner_bias: Float  # [K, f]
    outer: Float  # [K, f, d]
    outer_bias: Float  # [K, d]
    roles: NDArray[np.int32]  # [2 P]
    n_heads: int
    rate: float
    seeds: tuple[int, ...]

    @property
    def weights(self) -> tuple[Float, ...]:
        return self[2:10]
