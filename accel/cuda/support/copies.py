"""Copies of many small arrays by few kernels."""

from __future__ import annotations

from collections.abc import Sequence

from accel.cuda import device
from accel.cuda.device import Array

TOGETHER = 8  # arrays, as in copies.cu
THREADS = 256


def copy_all(pairs: Sequence[tuple[Array, Array]]) -> None:
    """Copy in every pair the second array into the first, which is C-contiguous and of the same shape and type."""
    xp = device.xp()
    for first in range(0, len(pairs), TOGETHER):
        part = [(xp.ascontiguousarray(source), target) for target, source in pairs[first : first + TOGETHER]]
        args = [x for source, target in part for x in (source, target, source.size)]
        args += [*args[:2], 0] * (TOGETHER - len(part))
        grid = *device.wide_grid(max((source for source, _ in part), key=lambda x: x.nbytes), THREADS), len(part)
        device.launch("support/copies", "copy_arrays", grid, (THREADS,), tuple(args), part[0][0].dtype)
