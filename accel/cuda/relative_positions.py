"""Tables of relative positions on the GPU: their sinusoids, and one table with the dropout of each of many layers.

Mirrors `refimpl.layers.sinusoids`. A thread for every element of a table, or for every 16 bytes of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

THREADS = 256
TOGETHER = 16  # seeds that a kernel takes


def sinusoids(count: int, d: int, dtype: Any, first: int = 0) -> Array:
    """Return the [count, d] table [sin | cos] of the positions first, first + 1, ...; d is even."""
    y = device.xp().empty((count, d), dtype)
    grid = (-(-y.size // THREADS),)
    device.launch("relative_positions", "sinusoids", grid, (THREADS,), (y, first, count, d), dtype)
    return y


def dropout_all(x: Array, rate: float, seeds: Sequence[int]) -> Array:
    """Return [seeds, N, d]: what `dropout` returns for x [N, d] and each of several seeds.

    Raises ValueError naming the argument that does not fit.
    """
    (x,) = check.floats(x=x)
    y = device.xp().empty((len(seeds), *x.shape), x.dtype)
    for begin in range(0, len(seeds), TOGETHER):
        draws = [check.dropout(rate, seed) for seed in seeds[begin : begin + TOGETHER]]
        _, threshold, keep_scale = draws[0]
        places = [place for place, *_ in draws]
        args = x, y[begin:], x.size, *places, *places[:1] * (TOGETHER - len(draws)), threshold, keep_scale
        grid = *device.wide_grid(x, THREADS), len(draws)
        device.launch("relative_positions", "dropout_all", grid, (THREADS,), args, x.dtype)
    return y
