"""Matrices with rows and columns exchanged, many of them by one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from accel.cuda import device
from accel.cuda.device import Array

TOGETHER = 8  # arrays, as in transposes.cu
THREADS = 256


def transpose_all(arrays: Sequence[Array]) -> list[Array]:
    """Return the transposes [K, b, a], C-contiguous, of matrices in arrays [K, a, b], all of one dtype."""
    xp, results = device.xp(), []
    for first in range(0, len(arrays), TOGETHER):
        part = [xp.ascontiguousarray(x) for x in arrays[first : first + TOGETHER]]
        transposes = [xp.empty((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype) for x in part]
        args = [y for x, to in zip(part, transposes, strict=True) for y in (x, to, *x.shape[-2:], x.size)]
        args += [*args[:4], 0] * (TOGETHER - len(part))
        grid = -(-max(x.size for x in part) // THREADS), len(part)
        device.launch("support/transposes", "transpose_arrays", grid, (THREADS,), tuple(args), part[0].dtype)
        results += transposes
    return results
