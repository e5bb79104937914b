"""Layers over pairs of vectors, without their matrix products: attention of two rows, and residual norms.

Mirrors `refimpl.gpst.composition.pair_attention` and `residual_norm`.
A softmax over two scores is a sigmoid of their difference, which is one product of the query and the difference of
the two keys. Parallel over chunks of pairs or rows; sums over rows are kept per chunk and added in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.layers import EPSILON, centre
from accel.cpu.support.arguments import check_floats, check_indices, contiguous
from accel.cpu.support.kernels import chunk_begin, exp, keep_threshold, kept, kernel, n_chunks, seed_of_dropout
from accel.cpu.support.rows import add, dot, row_dot, row_sum
from accel.cpu.support.team import LEAST, share, team_kernel

Float = NDArray[Any]
Int = NDArray[np.int32]


@contiguous
def pair_attention(x: Float, bias: Float, roles: Int, n_heads: int, rate: float, seed: int) -> tuple[Float, Float]:
    """Return the attention output [2 P, d] of both rows of every pair over the two rows, and the weights [2 P, 2 H].

    Spec: IO-1, of a batch.

    Parameters
    ----------
    x : [2 P, 3 d]
        Queries, keys and values of the rows, pair after pair.
    bias : [R, 3 d], roles : [2 P] int32
        `bias[s]` is added to every row of role s; `roles` has the role of every row.
    n_heads : int
        H, divides d.
    rate, seed
        Dropout of the weights. The weight of row i for row j, 0 or 1, of its pair in head h is element (2 i + j) H + h.

    Raises
    ------
    ValueError
        An odd number of rows; shapes, dtypes, roles or heads that do not fit.
    """
    heads, drop = _check(x, bias, roles, n_heads, rate, seed)
    out, weights = np.zeros((len(x), x.shape[1] // 3), x.dtype), np.empty((len(x), 2 * n_heads), x.dtype)
    _attend(x, bias, roles, heads, *drop, out.reshape(-1, heads[1]), weights, n_chunks(len(x)))
    return out, weights


@contiguous
def pair_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float], x: Float, bias: Float, roles: Int, n_heads: int, rate: float, seed: int
) -> tuple[Float, Float]:
    """Return the gradients of x [2 P, 3 d] and bias [R, 3 d]."""
    heads, drop = _check(x, bias, roles, n_heads, rate, seed)
    check_floats(x=(x, "Nt"), d_out=(d_out, "Nd"))
    d_x, sums = np.zeros(x.shape, x.dtype), np.zeros((n_chunks(len(x)), *bias.shape), x.dtype)
    g = d_out.reshape(-1, heads[1])
    _attend_vjp(x, bias, roles, heads, *drop, outputs[1], g, d_x.reshape(-1, heads[1]), sums)
    return d_x, sums.sum(axis=0)


def _check(x: Float, bias: Float, roles: Int, n_heads: int, rate: float, seed: int) -> tuple[Any, Any]:
    sizes = check_floats(x=(x, "Nt"), bias=(bias, "Rt"))
    check_indices("roles", roles, sizes["N"], sizes["R"])
    if sizes["N"] % 2:
        raise ValueError(f"x: {sizes['N']} rows, but pairs need an even number")
    if n_heads < 1 or sizes["t"] % (3 * n_heads):
        raise ValueError(f"n_heads: {n_heads} heads of queries, keys and values do not divide rows of {sizes['t']}")
    width = sizes["t"] // (3 * n_heads)
    return (n_heads, width), _dropout(x, rate, seed)


def _dropout(x: Float, rate: float, seed: int) -> tuple[Any, np.uint64, np.uint64]:
    threshold = keep_threshold(rate)
    return x.dtype.type(1 / (1 - rate)), threshold, seed_of_dropout(seed)


@kernel()
def _read(x, bias, roles, p, rows, difference):
    """Set `rows` to a pair's queries, keys and values, by head, and `difference` to the first keys minus the second."""
    size, d = x.shape[1], difference.size
    flat, keys = rows.reshape(-1), difference.reshape(-1)
    for half in range(2):
        row, shift, out = x[2 * p + half], bias[roles[2 * p + half]], flat[half * size : (half + 1) * size]
        for a in range(size):
            out[a] = row[a] + shift[a]
    first, second = flat[d : 2 * d], flat[size + d : size + 2 * d]
    for a in range(d):
        keys[a] = first[a] - second[a]


@kernel()
def _keep(seed, threshold, scale, row, heads, h):
    """Return dropout's factors of the two weights of a row: for the first and for the second row of its pair."""
    zero, number = scale - scale, 2 * row * heads + h
    if threshold == 0:
        return scale, scale
    return scale if kept(seed, number, threshold) else zero, scale if kept(seed, number + heads, threshold) else zero


@team_kernel(LEAST)
def _attend(part, x, bias, roles, heads, scale, threshold, seed, out, weights, chunks):
    n_heads, width = heads
    one, factor = x.dtype.type(1), x.dtype.type(1 / np.sqrt(width))
    pairs = len(x) // 2
    for chunk in share(part, chunks):
        rows, difference = np.empty((6 * n_heads, width), x.dtype), np.empty((n_heads, width), x.dtype)
        for p in range(chunk_begin(chunk, chunks, pairs), chunk_begin(chunk + 1, chunks, pairs)):
            _read(x, bias, roles, p, rows, difference)
            for half in range(2):
                i = 2 * p + half
                for h in range(n_heads):
                    s = factor * dot(rows, 3 * n_heads * half + h, difference, h)
                    weights[i, h], weights[i, n_heads + h] = one / (one + exp(-s)), one / (one + exp(s))
                for h in range(n_heads):
                    keep = _keep(seed, threshold, scale, i, n_heads, h)
                    add(out, i * n_heads + h, rows, 2 * n_heads + h, keep[0] * weights[i, h])
                    add(out, i * n_heads + h, rows, 5 * n_heads + h, keep[1] * weights[i, n_heads + h])


@team_kernel(LEAST)
def _attend_vjp(part, x, bias, roles, heads, scale, threshold, seed, weights, g, d_table, sums):
    n_heads, width = heads
    factor, minus = x.dtype.type(1 / np.sqrt(width)), x.dtype.type(-1)
    pairs, chunks = len(x) // 2, len(sums)
    for chunk in share(part, chunks):
        rows, difference = np.empty((6 * n_heads, width), x.dtype), np.empty((n_heads, width), x.dtype)
        for p in range(chunk_begin(chunk, chunks, pairs), chunk_begin(chunk + 1, chunks, pairs)):
            _read(x, bias, roles, p, rows, difference)
            first = 6 * n_heads * p  # row of the pair in d_table
            for half in range(2):
                i = 2 * p + half
                query = 3 * n_heads * half
                for h in range(n_heads):
                    place, u, v = i * n_heads + h, weights[i, h], weights[i, n_heads + h]
                    keep = _keep(seed, threshold, scale, i, n_heads, h)
                    along = keep[0] * dot(g, place, rows, 2 * n_heads + h)
                    along -= keep[1] * dot(g, place, rows, 5 * n_heads + h)
                    along *= u * v * factor
                    add(d_table, first + query + h, difference, h, along)
                    add(d_table, first + n_heads + h, rows, query + h, along)
                    add(d_table, first + 4 * n_heads + h, rows, query + h, minus * along)
                    add(d_table, first + 2 * n_heads + h, g, place, keep[0] * u)
                    add(d_table, first + 5 * n_heads + h, g, place, keep[1] * v)
            for i in range(2 * p, 2 * p + 2):
                d_bias = sums[chunk, roles[i]]
                for h in range(3 * n_heads):
                    row = d_table[3 * n_heads * i + h]
                    for a in range(width):
                        d_bias[h * width + a] += row[a]


@contiguous
def residual_norm(x: Float, y: Float, bias: Float, rate: float, seed: int) -> tuple[Float, Float]:
    """Return x + dropout(y + bias) [N, d], every row normalised, and the reciprocal standard deviation [N] of each.

    Raises ValueError if shapes or dtypes do not fit, or the rate is not in [0, 1).
    """
    n = check_floats(x=(x, "Nd"), y=(y, "Nd"), bias=(bias, "d"))["N"]
    out, rstd = np.empty(x.shape, x.dtype), np.empty(n, x.dtype)
    _normalise(x, y, bias, x.dtype.type(EPSILON), *_dropout(x, rate, seed), out, rstd, n_chunks(n))
    return out, rstd


@contiguous
def residual_norm_vjp(
    d_out: Float, outputs: tuple[Float, Float], x: Float, y: Float, bias: Float, rate: float, seed: int
) -> tuple[Float, Float, Float]:
    """Return the gradients of x [N, d], y [N, d] and bias [d]."""
    check_floats(x=(x, "Nd"), bias=(bias, "d"), d_out=(d_out, "Nd"))
    d_x, sums = np.empty(x.shape, x.dtype), np.zeros((n_chunks(len(x)), x.shape[1]), x.dtype)
    d_y, drop = np.empty(x.shape, x.dtype), _dropout(x, rate, seed)
    _normalise_vjp(d_out, *outputs, *drop, d_x, d_y, sums)
    return d_x, d_y if drop[1] else d_x, sums.sum(axis=0)


@team_kernel(LEAST)
def _normalise(part, x, y, bias, epsilon, scale, threshold, seed, out, rstd, chunks):
    rows, d = x.shape
    one, zero, width = x.dtype.type(1), x.dtype.type(0), x.dtype.type(d)
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            left, right, row = x[i], y[i], out[i]
            if threshold == 0:
                for a in range(d):
                    row[a] = left[a] + (right[a] + bias[a])
            else:
                for a in range(d):
                    keep = scale if kept(seed, i * d + a, threshold) else zero
                    row[a] = left[a] + keep * (right[a] + bias[a])
            centre(row, row_sum(row) / width, row)
            rstd[i] = one / np.sqrt(row_dot(row, row) / width + epsilon)
            for a in range(d):
                row[a] *= rstd[i]


@team_kernel(LEAST)
def _normalise_vjp(part, d_out, normal, rstd, scale, threshold, seed, d_x, d_y, sums):
    rows, d = normal.shape
    chunks = len(sums)
    zero, width = normal.dtype.type(0), normal.dtype.type(d)
    for chunk in share(part, chunks):
        d_bias = sums[chunk]
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            g, row, out = d_out[i], normal[i], d_x[i]
            along, across = row_sum(g) / width, row_dot(g, row) / width
            for a in range(d):
                out[a] = rstd[i] * (g[a] - along - row[a] * across)
            if threshold == 0:
                for a in range(d):
                    d_bias[a] += out[a]
            else:
                dropped = d_y[i]
                for a in range(d):
                    dropped[a] = out[a] * (scale if kept(seed, i * d + a, threshold) else zero)
                    d_bias[a] += dropped[a]
