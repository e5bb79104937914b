"""Layers on the GPU: kernels for rows and elements, matrix products by the array module. Mirrors `refimpl.layers`.

A warp for every row of a LayerNorm, a block for every row of logits, a thread for every element of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.products import fuses_sums, matmul
from accel.cuda.support import check, known, scatter
from accel.cuda.support.columns import SUMMING_WARPS, rows_of_part, sums_of
from accel.cuda.support.factors import factor
from accel.cuda.support.graphs import SIZES

LOGITS_AT_ONCE = 1 << 25  # numbers: the [N, V] logits exist in parts of this size
THREADS = 256
ROW_WARPS = 4  # rows a block
ROWS = 16  # a block, at least, in the gradient of a LayerNorm
LABEL_WARPS = 8  # a row of logits


def layer_norm(x: Array, scale: Array, bias: Array) -> tuple[Array, Array, Array]:
    """Return (y [N, d], mean [N], rstd [N]): every row normalised (epsilon 1e-5), then scaled and shifted.

    x [N, d]; scale, bias [d]. Raises ValueError naming the argument that does not fit.
    """
    x, scale, bias = check.floats(x=x, scale=scale, bias=bias)
    n, d = _matrix(x)
    check.shape("scale", scale, d)
    check.shape("bias", bias, d)
    xp = device.xp()
    y, mean, rstd = xp.empty_like(x), xp.empty(n, x.dtype), xp.empty(n, x.dtype)
    args = (x, scale, bias, y, mean, rstd, n, d)
    device.launch("layers", "layer_norm_forward", (-(-n // ROW_WARPS),), (32, ROW_WARPS), args, x.dtype)
    return y, mean, rstd


def layer_norm_vjp(
    d_y: Array, outputs: tuple[Array, Array, Array], x: Array, scale: Array, bias: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients of x, scale and bias."""
    d_y, x, scale = check.floats(d_y=d_y, x=x, scale=scale)
    n, d = x.shape
    rows, xp = rows_of_part(n, ROWS), device.xp()
    d_x, scaled, partial = xp.empty_like(x), xp.empty_like(x), xp.empty((2, -(-n // rows), d), x.dtype)
    args = (d_y, x, scale, *outputs[1:], d_x, scaled, partial, rows, n, d)
    device.launch("layers", "layer_norm_backward", (partial.shape[1],), (32, SUMMING_WARPS), args, x.dtype)
    return d_x, *sums_of(partial)


def dropout(x: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (y,): x [N, d] with elements set to 0 at `rate`, the others multiplied by 1 / (1 - rate).

    Raises ValueError naming the argument that does not fit.
    """
    (x,) = check.floats(x=x)
    y = device.xp().empty_like(x)
    args = (x, y, x.size, *check.dropout(rate, seed))
    device.launch("layers", "dropout", device.wide_grid(x, THREADS), (THREADS,), args, x.dtype)
    return (y,)


def dropout_vjp(d_y: Array, outputs: tuple[Array], x: Array, rate: float, seed: int) -> tuple[Array]:
    """Return the gradient of x."""
    return dropout(d_y, rate, seed)


def embedding(table: Array, ids: Array) -> tuple[Array]:
    """Return (y [N, d],): the rows of table [V, d] that ids [N] int32 name.

    Raises ValueError naming the argument that does not fit.
    """
    (table,) = check.floats(table=table)
    (ids,) = check.integers(np.int32, ids=ids)
    check.indices({"ids": (ids, 0, _matrix(table, "table")[0])})
    return (table[ids],)


def embedding_vjp(d_y: Array, outputs: tuple[Array], table: Array, ids: Array) -> tuple[Array]:
    """Return the gradient of table."""
    (d_y,) = check.floats(d_y=d_y)
    (d_table,) = scatter.sums(None, scatter.Sum(scatter.group(ids, len(table)), len(table), d_y[:, None, :]))
    return (d_table[:, 0],)


def cross_entropy(h: Array, table: Array, bias: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Return (logp [N], lse [N], no rows [0, V]) of the labels under softmax(h @ table.T + bias).

    Rows without a label give 0, at no cost. The last output saves the CPU work in its gradient; here it is empty.
    h [N, d]; table [V, d]; bias [V]; labels [N] int32, -1 for none. Logits exist for a part of the rows at a time.
    Raises ValueError naming the argument that does not fit.
    """
    logp, lse = _logps("label_logp", LABEL_WARPS, h, table, bias, labels)
    return logp, lse, device.xp().empty((0, len(table)), h.dtype)


def cross_entropy_vjp(
    d_logp: Array, outputs: tuple[Array, Array, Array], h: Array, table: Array, bias: Array, labels: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients of h, table and bias; the logits are recomputed."""
    return _gradients("label_logp_backward", d_logp, outputs[1], h, table, bias, labels)


def smoothed_cross_entropy(h: Array, table: Array, bias: Array, labels: Array, smoothing: float) -> tuple[Array, Array]:
    """Return (gains [N], lse [N]): as `cross_entropy`, but the other labels share `smoothing` of the target equally.

    gains: mean log-probability under the target. It is no operation of the table: where a backend lacks it,
    `accel.autodiff.layers.smoothed_cross_entropy` computes the same from `cross_entropy`.
    """
    return _logps("smoothed_logp", 1, h, table, bias, labels, *_targets(smoothing, table))


def smoothed_cross_entropy_vjp(
    d_gains: Array, outputs: tuple[Array, Array], h: Array, table: Array, bias: Array, labels: Array, smoothing: float
) -> tuple[Array, Array, Array]:
    """Return the gradients of h, table and bias."""
    targets = _targets(smoothing, table)
    return _gradients("smoothed_logp_backward", d_gains, outputs[1], h, table, bias, labels, *targets)


def _targets(smoothing: float, table: Array) -> tuple[float, float]:
    """Return the target's probabilities: of the label, and of each other label."""
    return 1.0 - smoothing, smoothing / max(len(table) - 1, 1)


def _logps(
    kernel: str, warps: int, h: Array, table: Array, bias: Array, labels: Array, *options: float
) -> tuple[Array, Array]:
    h, table, bias = check.floats(h=h, table=table, bias=bias)
    (labels,) = check.integers(np.int32, labels=labels)
    size, d = _matrix(table, "table")
    check.shape("h", h, "N", d)
    check.shape("bias", bias, size)
    check.shape("labels", labels, len(h))
    check.indices({"labels": (labels, -1, size)})
    xp = device.xp()
    labelled = _labelled(labels, size)
    logp, lse = (xp.empty if labelled.n == len(h) else xp.zeros)((2, len(h)), h.dtype)
    for rows, of_rows in _parts(labelled, len(h), size):
        logits = matmul(h[rows], table.T)
        in_place = isinstance(rows, slice)
        parts = (logp[rows], lse[rows]) if in_place else xp.empty((2, len(logits)), h.dtype)
        args = (logits, bias, of_rows, *parts, size, *options)
        device.launch("layers", kernel, (len(logits),), (32, warps), args, h.dtype)
        if not in_place:
            logp[rows], lse[rows] = parts
    return logp, lse


def _gradients(
    kernel: str, d_logp: Array, lse: Array, h: Array, table: Array, bias: Array, labels: Array, *options: float
) -> tuple[Array, Array, Array]:
    d_logp, h, table, bias = check.floats(d_logp=d_logp, h=h, table=table, bias=bias)
    xp = device.xp()
    size = len(table)
    labelled = _labelled(labels, size)
    d_h, d_table, d_bias = (xp.empty_like if labelled.n == len(h) else xp.zeros_like)(h), xp.empty_like(table), None
    for rows, of_rows in _parts(labelled, len(h), size):
        part = h[rows]
        gradients = matmul(part, table.T)
        args = (gradients, bias, of_rows, lse[rows], d_logp[rows], size, *options)
        device.launch("layers", kernel, (len(part), -(-size // THREADS)), (THREADS,), args, h.dtype)
        fused = fuses_sums(gradients)
        sums = xp.empty(size, h.dtype) if fused else gradients.sum(axis=0)
        gradients = factor(gradients)
        if isinstance(rows, slice):
            matmul(gradients, table, out=d_h[rows])
        else:
            d_h[rows] = matmul(gradients, table)
        matmul(gradients.T, part, out=d_table, add=d_bias is not None, sums_of_a=sums if fused else None)
        d_bias = sums if d_bias is None else d_bias + sums
    if d_bias is None:
        return d_h, xp.zeros_like(table), xp.zeros_like(bias)
    return d_h, d_table, d_bias


@dataclass(frozen=True)
class Labelled:
    """The rows that have a label, [n] int64, and their labels, [n] int32.

    With graphs, if some rows have no label, one of these is repeated until n is a multiple of an eighth of all rows.
    """

    n: int
    rows: Array
    labels: Array


def labelled_of(labels: np.ndarray) -> Labelled:
    """Return the rows with a label, on the host."""
    rows, others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    if forms.current().graphs and len(others):
        share = -(-len(labels) // SIZES)
        n = min(-(-len(rows) // share) * share, len(labels) - 1)
        rows = np.concatenate([rows, np.full(n - len(rows), others[0])])
    return Labelled(len(rows), rows, labels[rows])


def _labelled(labels: Array, size: int) -> Labelled:
    if known.promised(labels, 0, size):
        return Labelled(len(labels), labels, labels)
    copy = known.copy_of(labels)
    return known.once(labelled_of, [labels], [device.to_host(labels) if copy is None else copy])


def _parts(labelled: Labelled, n: int, size: int) -> Iterator[tuple[Array | slice, Array]]:
    """Yield which of n rows have a label, as many at a time as LOGITS_AT_ONCE allows, and their labels."""
    step = max(1, LOGITS_AT_ONCE // size)
    for first in range(0, labelled.n, step):
        part = slice(first, min(first + step, labelled.n))
        yield part if labelled.n == n else labelled.rows[part], labelled.labels[part]


def _matrix(x: Array, name: str = "x") -> tuple[int, int]:
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"{name}: shape {x.shape}, expected a matrix with one column or more")
    return x.shape
