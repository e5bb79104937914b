"""Sums of the columns of matrices, of which many blocks have a part: gradients of biases and scales.

Extra memory: a row for every 64 rows.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array

ROWS_TOGETHER = 64  # as in columns.cu
THREADS = 128  # columns
ADDING_THREADS = 256  # elements


def column_sums(*matrices: Array) -> list[Array]:
    """Return the sum over the rows of each of up to three matrices [N, ...], C-contiguous, of one shape and dtype.

    Few rows are added by one kernel, many by two.
    """
    x, xp = matrices[0], device.xp()
    n, columns, count = len(x), x.size // max(1, len(x)), len(matrices)
    parts = -(-n // ROWS_TOGETHER)
    sums = xp.empty((count, *x.shape[1:]), x.dtype)
    if parts == 0:
        sums.fill(0)
        return list(sums)
    partial = sums if parts == 1 else xp.empty((count, parts, columns), x.dtype)
    of_three = [*matrices, x, x][:3]
    grid = -(-columns // THREADS), parts, count
    device.launch("support/columns", "sum_rows", grid, (THREADS,), (*of_three, partial, n, columns), x.dtype)
    if parts > 1:
        args = partial, sums, count, parts, columns
        device.launch(
            "support/columns", "add_parts", (-(-sums.size // ADDING_THREADS),), (ADDING_THREADS,), args, x.dtype
        )
    return list(sums)
