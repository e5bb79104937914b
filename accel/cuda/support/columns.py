"""Sums of the columns of matrices, where each block sums a part of the rows: gradients of biases and scales.

Extra memory: a row for every 64 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from accel.cuda import device
from accel.cuda.device import Array

ROWS_TOGETHER = 64  # as in columns.cu
THREADS = 128  # columns
ADDING_THREADS = 256  # elements
MOST_PARTS = 256  # parts of the rows, in a kernel that also sums the columns of what it computes
SUMMING_WARPS = 8  # of a block of such a kernel, if each warp computes a row at a time


def column_sums(*matrices: Array) -> list[Array]:
    """Return the sum over the rows of each of up to three matrices [N, ...], C-contiguous, of one shape and dtype.

    Few rows are added by one kernel, many by two.
    """
    return list(_added(column_parts(*matrices)))


def column_parts(*matrices: Array) -> Array:
    """Return the sums [matrices, parts, ...] over parts of the rows of the same matrices that `column_sums` takes."""
    x, xp = matrices[0], device.xp()
    n, columns, count = len(x), x.size // max(1, len(x)), len(matrices)
    parts = -(-n // ROWS_TOGETHER)
    partial = xp.empty((count, parts, *x.shape[1:]), x.dtype)
    if parts:
        of_three = [*matrices, x, x][:3]
        grid = parts, -(-columns // THREADS), count
        device.launch("support/columns", "sum_rows", grid, (THREADS,), (*of_three, partial, n, columns), x.dtype)
    return partial


@dataclass(frozen=True)
class Unsummed:
    """An array that is not summed yet: it is the sum of parts [parts, ...] over their first axis."""

    parts: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts.shape[1:]  # type: ignore[no-any-return]

    def summed(self) -> Array:
        """Return the array."""
        return _added(self.parts[None])[0]


_unsummed: ContextVar[bool] = ContextVar("unsummed", default=False)


@contextmanager
def unsummed() -> Iterator[None]:
    """While the context lasts, gradients of biases and scales may be `Unsummed`: `copy_all` sums many at once."""
    token = _unsummed.set(True)
    try:
        yield
    finally:
        _unsummed.reset(token)


def sums_of(partial: Array) -> list[Any]:
    """Return the sums [count, ...] of a kernel's parts [count, parts, ...]; inside `unsummed`, perhaps `Unsummed`."""
    if _unsummed.get() and partial.shape[1] > 1:
        return [Unsummed(parts) for parts in partial]
    return list(_added(partial))


def rows_of_part(n: int, least: int) -> int:
    """Return how many of n rows a block sums, a multiple of `least`, so that there are at most MOST_PARTS parts."""
    return least * max(1, -(-n // (least * MOST_PARTS)))


def _added(partial: Array) -> Array:
    """Return the sums over the second axis, added in its order."""
    xp = device.xp()
    count, parts, *shape = partial.shape
    if parts == 1:
        return partial[:, 0]
    sums = xp.empty((count, *shape), partial.dtype)
    if parts == 0:
        sums.fill(0)
        return sums
    args = partial, sums, count, parts, sums.size // count
    grid = (-(-sums.size // ADDING_THREADS),)
    device.launch("support/columns", "add_parts", grid, (ADDING_THREADS,), args, partial.dtype)
    return sums
