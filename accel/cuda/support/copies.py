"""Copies of many small arrays, and sums of their parts, by few kernels."""

from __future__ import annotations

from collections.abc import Sequence

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support.columns import Unsummed

TOGETHER = 32  # arrays, as in copies.cu
THREADS = 256


def copy_all(pairs: Sequence[tuple[Array, Array | Unsummed]]) -> None:
    """In every pair, copy the second array into the first, which is C-contiguous and of the same shape and dtype."""
    for first in range(0, len(pairs), TOGETHER):
        part = [(*_parts(source), target) for target, source in pairs[first : first + TOGETHER]]
        args = [x for source, n_parts, target in part for x in (source, n_parts, target, target.size)]
        args += [*args[:3], 0] * (TOGETHER - len(part))
        grid = *device.wide_grid(max((target for *_, target in part), key=lambda x: x.nbytes), THREADS), len(part)
        device.launch("support/copies", "copy_arrays", grid, (THREADS,), tuple(args), part[0][0].dtype)


def _parts(source: Array | Unsummed) -> tuple[Array, int]:
    return (
        (source.parts, len(source.parts))
        if isinstance(source, Unsummed)
        else (device.xp().ascontiguousarray(source), 1)
    )
