"""Layer normalisation, dropout, embedding and cross-entropy, each with its gradient.

Mirrors `refimpl.layers`.
Parallel over chunks of rows; sums over rows are kept per chunk ([chunks, d]) and added in order, so that no result but
a matrix product, which rounds as the BLAS does, depends on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_indices, contiguous
from accel.cpu.support.kernels import chunk_begin, exp, keep_threshold, kept, kernel, n_chunks, row_max, seed_of_dropout
from accel.cpu.support.rows import row_dot, row_sum
from accel.cpu.support.team import LEAST, share, team_kernel

Float = NDArray[Any]
EPSILON = 1e-5
LOGITS = 2**24
"""Largest number of logits in memory at a time (64 MiB in float32)."""
CHUNK_ELEMENTS = 4096
"""Smallest number of elements of a chunk, in loops over elements instead of rows."""
BLOCK_COLUMNS = 64
"""Columns of a table that a thread adds to."""
MOST_SUMS = 16
"""Largest number of partial sums of rows that are as long as the vocabulary."""


@contiguous
def layer_norm(x: Float, scale: Float, bias: Float) -> tuple[Float, Float, Float]:
    """Return the normalised rows of x [N, d], and mean [N] and reciprocal standard deviation [N] of each."""
    n = check_floats(x=(x, "Nd"), scale=(scale, "d"), bias=(bias, "d"))["N"]
    y, mean, rstd = np.empty(x.shape, x.dtype), np.empty(n, x.dtype), np.empty(n, x.dtype)
    _layer_norm(x, scale, bias, x.dtype.type(EPSILON), y, mean, rstd, n_chunks(n))
    return y, mean, rstd


@contiguous
def layer_norm_vjp(
    d_out: Float, outputs: tuple[Float, Float, Float], x: Float, scale: Float, bias: Float
) -> tuple[Float, Float, Float]:
    """Return the gradients of x [N, d], scale [d] and bias [d]."""
    check_floats(x=(x, "Nd"), scale=(scale, "d"), bias=(bias, "d"), d_out=(d_out, "Nd"))
    d_x, sums = np.empty(x.shape, x.dtype), np.zeros((n_chunks(len(x)), 2, x.shape[1]), x.dtype)
    _layer_norm_vjp(d_out, x, scale, *outputs[1:], d_x, sums)
    d_scale, d_bias = sums.sum(axis=0)
    return d_x, d_scale, d_bias


@team_kernel(LEAST)
def _layer_norm(part, x, scale, bias, epsilon, y, mean, rstd, chunks):
    rows, d = x.shape
    one, width = x.dtype.type(1), x.dtype.type(d)
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            row, out = x[i], y[i]
            mean[i] = row_sum(row) / width
            centre(row, mean[i], out)
            rstd[i] = one / np.sqrt(row_dot(out, out) / width + epsilon)
            for a in range(d):
                out[a] = out[a] * rstd[i] * scale[a] + bias[a]


@kernel()
def centre(row, mean, out):
    """Set out to the row minus its mean; a second step removes the rounding error of a mean of nearly equal numbers."""
    for a in range(row.size):
        out[a] = row[a] - mean
    rest = row_sum(out) / row.dtype.type(row.size)
    for a in range(row.size):
        out[a] -= rest


@kernel()
def normalised_vjp(d_out, normal, scale, rstd, d_x, d_scale, d_bias):
    """Set d_x of a row from its normalised numbers `normal`; add the row's part to the gradients of scale and bias."""
    width = normal.dtype.type(normal.size)
    for a in range(normal.size):
        d_x[a] = d_out[a] * scale[a]
    along, across = row_sum(d_x) / width, row_dot(d_x, normal) / width
    for a in range(normal.size):
        d_x[a] = rstd * (d_x[a] - along - normal[a] * across)
    for a in range(normal.size):
        d_scale[a] += d_out[a] * normal[a]
        d_bias[a] += d_out[a]


@team_kernel(LEAST)
def _layer_norm_vjp(part, d_out, x, scale, mean, rstd, d_x, sums):
    rows, d = x.shape
    chunks = len(sums)
    for chunk in share(part, chunks):
        d_scale, d_bias = sums[chunk, 0], sums[chunk, 1]
        normal = np.empty(d, x.dtype)
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            g, out = d_out[i], d_x[i]
            centre(x[i], mean[i], normal)
            for a in range(d):
                normal[a] *= rstd[i]
            normalised_vjp(g, normal, scale, rstd[i], out, d_scale, d_bias)


@contiguous
def dropout(x: Float, rate: float, seed: int) -> tuple[Float]:
    """Return x [N, d] with elements set to 0 by the hash of seed and place, the others multiplied by 1 / (1 - rate)."""
    check_floats(x=(x, "Nd"))
    keep_threshold(rate)  # refuses a rate of 1
    return (dropped(x, 1 / (1 - rate), rate, seed),)


def dropped(x: Float, scale: float, rate: float, seed: int) -> Float:
    """Return x with elements set to 0 with probability `rate`, and the others multiplied by `scale`."""
    threshold, y, chunks = keep_threshold(rate), np.empty(x.shape, x.dtype), n_chunks(x.size, CHUNK_ELEMENTS)
    _dropout(x.ravel(), x.dtype.type(scale), seed_of_dropout(seed), threshold, y.ravel(), chunks)
    return y


@contiguous
def dropout_vjp(d_out: Float, outputs: tuple[Float], x: Float, rate: float, seed: int) -> tuple[Float]:
    """Return the gradient of x [N, d]."""
    check_floats(x=(x, "Nd"), d_out=(d_out, "Nd"))
    return dropout(d_out, rate, seed)


@team_kernel(LEAST)
def _dropout(part, x, scale, seed, threshold, y, chunks):
    for chunk in share(part, chunks):
        begin, end = chunk_begin(chunk, chunks, x.size), chunk_begin(chunk + 1, chunks, x.size)
        _drop(x[begin:end], scale, seed, threshold, begin, y[begin:end])


@kernel()
def _drop(x, scale, seed, threshold, first, y):
    for a in range(x.size):
        y[a] = x[a] * (scale if kept(seed, first + a, threshold) else x.dtype.type(0))


@contiguous
def embedding(table: Float, ids: NDArray[np.int32]) -> tuple[Float]:
    """Return the rows [N, d] of the table [V, d] whose numbers are `ids` [N]."""
    check_indices("ids", ids, len(ids), check_floats(table=(table, "Vd"))["V"])
    return (table.take(ids, axis=0),)


@contiguous
def embedding_vjp(d_out: Float, outputs: tuple[Float], table: Float, ids: NDArray[np.int32]) -> tuple[Float]:
    """Return the gradient of the table [V, d]."""
    sizes = check_floats(table=(table, "Vd"), d_out=(d_out, "Nd"))
    check_indices("ids", ids, sizes["N"], sizes["V"])
    d_table = np.zeros(table.shape, table.dtype)
    add_rows(d_table, ids, d_out)
    return (d_table,)


def add_rows(table: Float, rows: NDArray[np.integer[Any]], x: Float) -> None:
    """Add row i of x [n, d] to row `rows[i]` of the table [N, d], in order; a row may be named more than once."""
    _scatter_rows(np.ascontiguousarray(x), rows.astype(np.int32, copy=False), table)


@team_kernel(LEAST)
def _scatter_rows(part, d_out, ids, d_table):
    d = d_table.shape[1]
    for block in share(part, (d + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS):  # one thread adds to a column, row by row
        for i in range(ids.size):
            columns = slice(block * BLOCK_COLUMNS, min(d, (block + 1) * BLOCK_COLUMNS))
            row, out = d_out[i, columns], d_table[ids[i], columns]
            for a in range(row.size):
                out[a] += row[a]


@contiguous
def cross_entropy(h: Float, table: Float, bias: Float, labels: NDArray[np.int32]) -> tuple[Float, Float, Float]:
    """Return the log-probability [N] of each label under softmax(h table^T + bias), and what its gradient needs.

    Rows with label -1 cost nothing and give 0. Of the other rows, `LOGITS` logits are in memory at a time. The second
    output has the `totals` [N] of `_normalise`. If all logits are in memory at once, the last output has their
    `_gradients` [rows, V]; otherwise it is [0, V], and the gradient recomputes them.
    """
    sizes = check_floats(h=(h, "Nd"), table=(table, "Vd"), bias=(bias, "V"))
    check_indices("labels", labels, sizes["N"], sizes["V"], least=-1)
    logp, totals = np.zeros(sizes["N"], h.dtype), np.zeros(sizes["N"], h.dtype)
    chunks, all_gradients = _labelled_rows(labels, sizes["V"]), np.empty((0, sizes["V"]), h.dtype)
    for rows in chunks:
        gradients = _gradients(h[rows], table, bias, labels, rows, logp, totals)
        all_gradients = gradients if len(chunks) == 1 else all_gradients
    return logp, totals, all_gradients


@contiguous
def cross_entropy_vjp(
    d_out: Float, outputs: tuple[Float, Float, Float], h: Float, table: Float, bias: Float, labels: NDArray[np.int32]
) -> tuple[Float, Float, Float]:
    """Return the gradients of h [N, d], table [V, d] and bias [V]."""
    sizes = check_floats(h=(h, "Nd"), table=(table, "Vd"), bias=(bias, "V"), d_out=(d_out, "N"))
    d_h, d_table, d_bias = np.zeros(h.shape, h.dtype), None, np.zeros(bias.shape, h.dtype)
    _, totals, all_gradients = outputs
    for rows in _labelled_rows(labels, sizes["V"]):
        hidden = h[rows]
        gradients = all_gradients
        if not len(all_gradients):
            gradients = _gradients(hidden, table, bias, labels, rows, *np.empty((2, len(h)), h.dtype))
        factors = -d_out[rows] / totals[rows]
        d_h[rows] = np.matmul(gradients, table) * factors[:, None]
        sums = np.zeros((n_chunks(len(rows), most=MOST_SUMS), sizes["V"]), h.dtype)
        _sum_rows(gradients, factors, sums)
        d_bias += sums.sum(axis=0)
        chunk_gradient = np.matmul(gradients.T, hidden * factors[:, None])
        d_table = chunk_gradient if d_table is None else np.add(d_table, chunk_gradient, out=d_table)
    return d_h, np.zeros(table.shape, h.dtype) if d_table is None else d_table, d_bias


def _labelled_rows(labels: NDArray[np.int32], vocabulary_size: int) -> list[NDArray[np.int64]]:
    """Return the rows that have a label, in chunks of nearly equal length."""
    rows = np.flatnonzero(labels >= 0)
    return np.array_split(rows, -(-rows.size * vocabulary_size // LOGITS)) if rows.size else []


def _gradients(
    hidden: Float, table: Float, bias: Float, labels: NDArray[np.int32], rows: NDArray[np.int64], logp: Float,
    totals: Float,
) -> Float:  # fmt: skip
    """Return the gradients of -logp by the logits of these rows, each row times its total; set logp and totals."""
    logits = np.matmul(hidden, table.T)
    _normalise(logits, bias, labels, rows, logp, totals)
    return logits


@team_kernel()
def _normalise(part, logits, bias, labels, rows, logp, totals):
    """Turn each row of logits into e^(logit - greatest logit), and subtract the sum of the row at the label."""
    for c in share(part, rows.size):
        row, i = logits[c], rows[c]
        for a in range(row.size):
            row[a] += bias[a]
        most, logit = row_max(row), row[labels[i]]
        for a in range(row.size):
            row[a] = exp(row[a] - most)
        total = row_sum(row)
        logp[i] = (logit - most) - np.log(total)  # exact near 0; logit - lse is not
        totals[i] = total
        row[labels[i]] -= total


@team_kernel()
def _sum_rows(part, x, factors, sums):
    """Set `sums`, for every chunk of rows of x, to the sum of the rows times their factors."""
    chunks = len(sums)
    for chunk in share(part, chunks):
        out = sums[chunk]
        for c in range(chunk_begin(chunk, chunks, len(x)), chunk_begin(chunk + 1, chunks, len(x))):
            row, factor = x[c], factors[c]
            for a in range(row.size):
                out[a] += factor * row[a]
