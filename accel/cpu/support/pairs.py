"""The arguments of GPST's layers over pairs of vectors, under the names that `pair_layers` gives them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]


class Layers(NamedTuple):
    """What the layers read; float arrays are contiguous."""

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
