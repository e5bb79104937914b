"""Sums of rows that share an index: the gradients of gathers, always added in the same order.

Sort the entries by index, sum chunks of at most 64 in parallel, then add up the chunks of each index.
Extra memory: one row a chunk, that is at most entries/64 + indices in use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array

CHUNK = 64  # as in scatter.cu
THREADS = 64  # columns
ADDING_THREADS = 256  # elements


@dataclass(frozen=True)
class Groups:
    """The entries of an index array, sorted and cut into chunks."""

    n_rows: int
    n_chunks: int  # at least the number of chunks
    order: Array  # [E] int64 entries, sorted by index, equal ones as they stood
    starts: Array  # [n_rows + 1] int64 into order
    chunk_starts: Array  # [n_rows + 1] int64


def group(index: Array, n_rows: int) -> Groups:
    """Return the entries of `index` [E] int32 grouped by its values 0..n_rows-1."""
    xp = device.xp()
    order = xp.argsort(index, kind="stable").astype(np.int64, copy=False)
    starts = xp.searchsorted(index[order], xp.arange(n_rows + 1, dtype=index.dtype)).astype(np.int64, copy=False)
    chunk_starts = xp.zeros(n_rows + 1, np.int64)
    chunk_starts[1:] = xp.cumsum((xp.diff(starts) + CHUNK - 1) // CHUNK)
    return Groups(n_rows, index.size // CHUNK + min(index.size, n_rows), order, starts, chunk_starts)


def sums(groups: Groups, x: Array, source: Array, weights: Array) -> Array:
    """Return [n_rows, H, D]: for every index the sum of weights[e, h] * x[source[e], h] over its entries e.

    x : [*, H, D] float;  source : [E] int32;  weights : [E, H] float
    """
    xp = device.xp()
    n_heads, d_head = x.shape[1:]
    width = n_heads * d_head
    partial = xp.empty((groups.n_chunks, width), x.dtype)
    out = xp.empty((groups.n_rows, n_heads, d_head), x.dtype)
    device.launch(
        "support/scatter", "chunk_sums", (groups.n_chunks, -(-width // THREADS)), (THREADS,),
        (x, source, weights, groups.order, groups.starts, groups.chunk_starts, partial, groups.n_rows, n_heads, d_head),
        x.dtype,
    )  # fmt: skip
    device.launch(
        "support/scatter", "add_chunks", (-(-out.size // ADDING_THREADS),), (ADDING_THREADS,),
        (partial, groups.chunk_starts, out, groups.n_rows, width), x.dtype,
    )  # fmt: skip
    return out
