"""Sums of rows that share an index: the gradients of gathers, always added in the same order.

Sort the entries by index, sum chunks of at most 64 in parallel, then add up the chunks of each index.
Extra memory: one row a chunk, that is at most entries/64 + indices in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.support import known
from accel.cuda.support.columns import rows_of_part, sums_of

CHUNK = 64  # as in scatter.cu
SUMS = 3  # that a kernel takes
THREADS = 64  # columns
ADDING_THREADS = 256  # elements


@dataclass(frozen=True)
class Groups:
    """The entries of an index array, sorted and cut into chunks."""

    n_used: int  # rows from this number on have no entry
    n_chunks: int  # the number of chunks, or a larger one
    order: Array  # [E] int64 entries, sorted by index; entries of one index in their order
    starts: Array  # [n_used + 1] int64 into order
    chunk_starts: Array  # [n_used + 1] int64


def group(index: Array, n_rows: int) -> Groups:
    """Return the entries of `index` [E] int32 grouped by its values, which are less than n_rows."""
    copy = known.copy_of(index)
    if copy is not None:
        return known.once(groups_of, [index], [copy])
    xp = device.xp()
    order = xp.argsort(index, kind="stable").astype(np.int64, copy=False)
    starts = xp.searchsorted(index[order], xp.arange(n_rows + 1, dtype=index.dtype)).astype(np.int64, copy=False)
    chunk_starts = xp.zeros(n_rows + 1, np.int64)
    chunk_starts[1:] = xp.cumsum((xp.diff(starts) + CHUNK - 1) // CHUNK)
    return Groups(n_rows, index.size // CHUNK + min(index.size, n_rows), order, starts, chunk_starts)


def groups_of(index: np.ndarray) -> Groups:
    """Return the entries grouped, all on the host; indices of at most 16 bits are sorted in linear time.

    With graphs the sizes of all arrays depend only on the size of the index and the next power of two above its values.
    """
    n_used = int(index.max(initial=-1)) + 1
    order = np.argsort(index.astype(np.uint16) if n_used <= 2**16 else index, kind="stable")
    if forms.current().graphs:
        n_used = 1 << n_used.bit_length()
    counts = np.bincount(index, minlength=n_used)
    starts, chunk_starts = (np.concatenate([[0], np.cumsum(x)]) for x in (counts, -(-counts // CHUNK)))
    n_chunks = index.size // CHUNK + min(index.size, n_used) if forms.current().graphs else int(chunk_starts[-1])
    return Groups(n_used, n_chunks, order.astype(np.int64, copy=False), starts, chunk_starts)


@dataclass(frozen=True)
class Sum:
    """For every index the sum over its entries e of weights[e, h] * (x[source[e], h] + bias[h]), or of x[e, h]."""

    groups: Groups
    n_rows: int
    x: Array  # [*, H, D] float
    weights: Array | None = None  # [E, H] float; None if there is no source
    bias: Array | None = None  # [H, D] float
    out: Array | None = None  # [n_rows, H, D], to write into


def sums(source: Array | None, *parts: Sum, matrices: tuple[Array, ...] = ()) -> list[Any]:
    """Return [n_rows, H, D] for each of up to three sums, which share H, D and the source [E] int32, or have no source.

    `matrices` are none or two [N, H, D]: the sums over their rows come last, as `columns.sums_of` returns them.
    """
    xp, x = device.xp(), parts[0].x
    n_heads, d_head = x.shape[1:]
    width = n_heads * d_head
    partial = [xp.empty((part.groups.n_chunks, width), x.dtype) for part in parts]
    outs = [xp.empty((part.n_rows, n_heads, d_head), x.dtype) if part.out is None else part.out for part in parts]
    chunks, rows = [], []
    for part, sum_of_chunks, out in zip(parts, partial, outs, strict=True):
        groups = part.groups
        bias = (part.x, 0) if part.bias is None else (part.bias, 1)
        order = groups.order, groups.starts, groups.chunk_starts
        weights = part.x if source is None else part.weights
        chunks.append((part.x, *bias, weights, *order, sum_of_chunks, groups.n_used))
        rows.append((sum_of_chunks, groups.chunk_starts, out, part.n_rows, groups.n_used))
    of_source = (x.view(np.int32), 0) if source is None else (source, 1)
    none, n = SUMS - len(parts), len(matrices[0]) if matrices else 0
    rows_together = rows_of_part(n, CHUNK)
    n_parts = -(-n // rows_together)
    columns = xp.empty((len(matrices), n_parts, n_heads, d_head), x.dtype)
    device.launch(
        "support/scatter", "chunk_sums",
        (max(n_parts, *(part.groups.n_chunks for part in parts)), -(-width // THREADS),
         SUMS + len(matrices) if matrices else len(parts)), (THREADS,),
        (*chain(*chunks, *[(*chunks[0][:-1], 0)] * none), *of_source, n_heads, d_head, *(matrices or (x, x)), columns,
         n_parts, rows_together, n), x.dtype,
    )  # fmt: skip
    device.launch(
        "support/scatter", "add_chunks", (-(-max(out.size for out in outs) // ADDING_THREADS), len(parts)),
        (ADDING_THREADS,), (*chain(*rows, *rows[:1] * none), width), x.dtype,
    )  # fmt: skip
    return [*outs, *(sums_of(columns) if matrices else ())]
