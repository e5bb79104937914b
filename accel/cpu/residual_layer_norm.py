"""The end of a Transformer's sublayer: bias, dropout, residual and layer normalisation in one pass, and its gradient.

Mirrors `refimpl.layers.layer_norm` of a sum.
Parallel over chunks of rows; sums over rows are kept per chunk ([chunks, 3, d]) and added in order. The gradient
recomputes the sum and its normalisation: only the mean and the deviation of every row are stored for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.layers import EPSILON, centre, normalised_vjp
from accel.cpu.support.arguments import check_floats, contiguous
from accel.cpu.support.kernels import chunk_begin, keep_threshold, kept, kernel, n_chunks, seed_of_dropout
from accel.cpu.support.rows import row_dot, row_sum
from accel.cpu.support.team import LEAST, share, team_kernel

Float = NDArray[Any]


@contiguous
def residual_layer_norm(
    x: Float, y: Float, bias: Float, scale: Float, shift: Float, rate: float, seed: int
) -> tuple[Float, Float, Float]:
    """Return layer_norm(x + dropout(y + bias)) [N, d], and mean [N] and reciprocal standard deviation [N] of each sum.

    Spec: LAY-1, LAY-3, of a batch.

    Raises ValueError if shapes or dtypes do not fit, or the rate is not in [0, 1).
    """
    n = check_floats(x=(x, "Nd"), y=(y, "Nd"), bias=(bias, "d"), scale=(scale, "d"), shift=(shift, "d"))["N"]
    out, mean, rstd = np.empty(x.shape, x.dtype), np.empty(n, x.dtype), np.empty(n, x.dtype)
    _forward(x, y, bias, scale, shift, x.dtype.type(EPSILON), *_dropout(x, rate, seed), out, mean, rstd, n_chunks(n))
    return out, mean, rstd


@contiguous
def residual_layer_norm_vjp(
    d_out: Float, outputs: tuple[Float, Float, Float],
    x: Float, y: Float, bias: Float, scale: Float, shift: Float, rate: float, seed: int,
) -> tuple[Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of x [N, d], y [N, d], bias [d], scale [d] and shift [d]."""
    check_floats(x=(x, "Nd"), y=(y, "Nd"), scale=(scale, "d"), d_out=(d_out, "Nd"))
    d_x, sums = np.empty(x.shape, x.dtype), np.zeros((n_chunks(len(x)), 3, x.shape[1]), x.dtype)
    d_y, drop = np.empty(x.shape, x.dtype), _dropout(x, rate, seed)
    _backward(d_out, x, y, bias, scale, *outputs[1:], *drop, d_x, d_y, sums)
    return d_x, d_y if drop[1] else d_x, *sums.sum(axis=0)


def _dropout(x: Float, rate: float, seed: int) -> tuple[Any, np.uint64, np.uint64]:
    threshold = keep_threshold(rate)
    return x.dtype.type(1 / (1 - rate)), threshold, seed_of_dropout(seed)


@kernel()
def _set_keep(keep, first, keep_scale, threshold, seed):
    """Set `keep` to dropout's factors of the elements from number `first`."""
    zero = keep.dtype.type(0)
    if threshold == 0:
        keep[:] = 1
        return
    for a in range(keep.size):
        keep[a] = keep_scale if kept(seed, first + a, threshold) else zero


@team_kernel(LEAST)
def _forward(part, x, y, bias, scale, shift, epsilon, keep_scale, threshold, seed, out, mean, rstd, chunks):
    rows, d = x.shape
    one, width = x.dtype.type(1), x.dtype.type(d)
    for chunk in share(part, chunks):
        keep = np.empty(d, x.dtype)
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            left, right, row = x[i], y[i], out[i]
            _set_keep(keep, i * d, keep_scale, threshold, seed)
            for a in range(d):
                row[a] = left[a] + keep[a] * (right[a] + bias[a])
            mean[i] = row_sum(row) / width
            centre(row, mean[i], row)
            rstd[i] = one / np.sqrt(row_dot(row, row) / width + epsilon)
            for a in range(d):
                row[a] = row[a] * rstd[i] * scale[a] + shift[a]


@team_kernel(LEAST)
def _backward(part, d_out, x, y, bias, scale, mean, rstd, keep_scale, threshold, seed, d_x, d_y, sums):
    rows, d = x.shape
    chunks = len(sums)
    for chunk in share(part, chunks):
        d_bias, d_scale, d_shift = sums[chunk, 0], sums[chunk, 1], sums[chunk, 2]
        keep, normal = np.empty(d, x.dtype), np.empty(d, x.dtype)
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            g, left, right, out, dropped = d_out[i], x[i], y[i], d_x[i], d_y[i]
            _set_keep(keep, i * d, keep_scale, threshold, seed)
            for a in range(d):
                normal[a] = left[a] + keep[a] * (right[a] + bias[a])
            centre(normal, mean[i], normal)
            for a in range(d):
                normal[a] *= rstd[i]
            normalised_vjp(g, normal, scale, rstd[i], out, d_scale, d_shift)
            if threshold == 0:
                for a in range(d):
                    d_bias[a] += out[a]
            else:
                for a in range(d):
                    dropped[a] = out[a] * keep[a]
                    d_bias[a] += dropped[a]
