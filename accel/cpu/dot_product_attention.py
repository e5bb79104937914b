"""Scaled dot-product attention of short and long sequences, causal or not, forward and gradient.

Mirrors `refimpl.attention.dot_product_attention`.
Parallel over (sequence, head). A thread takes up to 32 queries at a time. Its scores have a column for each query and a
row for each key, so that maxima and sums over keys run lane by lane, and only the queries are transposed. Memory of a
thread: the scores of these queries, or three such arrays in the backward pass, which recomputes the scores from lse.
No array has queries x keys numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_offsets, contiguous
from accel.cpu.support.few_queries import FEW, MOST_KEYS, attend_few, attend_few_vjp
from accel.cpu.support.kernels import exp, keep_threshold, kept, kernel, seed_of_dropout
from accel.cpu.support.rows import dot
from accel.cpu.support.team import share, team_kernel
from accel.cpu.support.tiles import add_product

Float = NDArray[Any]
Offsets = NDArray[np.int64]
LANES = 16
"""How many queries a thread takes at a time; twice as many of longer sequences."""


@contiguous
def dot_product_attention(
    q: Float, k: Float, v: Float, query_offsets: Offsets, key_offsets: Offsets,
    *, causal: bool = False, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float]:  # fmt: skip
    """Return the attention output [N, H, D] of every query over the keys of its sequence, and lse [N, H].

    Spec: ED-1, of a batch.

    Parameters
    ----------
    q : [N, H, D], k, v : [S, H, D], all float32 or all float64
    query_offsets, key_offsets : [B+1] int64
        Sequence b has n_b queries and s_b keys. A query without keys has output 0 and lse -inf.
    causal
        Query i of n_b sees the keys j <= s_b - n_b + i; s_b >= n_b.
    rate, seed
        Attention dropout: the weight of query row n and key j of its sequence in head h is multiplied by element
        (2^20 n + j) H + h of the keep mask.

    Raises
    ------
    ValueError
        Shapes, dtypes or offsets that do not fit, fewer keys than queries if `causal`, or 2^20 keys or more.
    """
    dropout = _check(q, k, v, query_offsets, key_offsets, causal, rate, seed)
    out, lse = np.zeros(q.shape, q.dtype), np.full(q.shape[:2], -np.inf, q.dtype)
    scale = q.dtype.type(1 / math.sqrt(q.shape[2]))
    arguments = *(_table(x) for x in (q, k, v)), query_offsets, key_offsets, causal, scale, *dropout, _table(out), lse
    for run in _kernels(query_offsets, _forward, attend_few):
        run(*arguments)
    return out, lse


@contiguous
def dot_product_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, query_offsets: Offsets, key_offsets: Offsets,
    *, causal: bool = False, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k and v; the scores are computed again from lse."""
    dropout = _check(q, k, v, query_offsets, key_offsets, causal, rate, seed)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    d_q, d_k, d_v = (np.zeros(x.shape, x.dtype) for x in (q, k, v))
    scale = q.dtype.type(1 / math.sqrt(q.shape[2]))
    tables = [_table(x) for x in (q, k, v, outputs[0], d_out)]
    gradients = [_table(x) for x in (d_q, d_k, d_v)]
    for run in _kernels(query_offsets, _backward, attend_few_vjp):
        run(*tables, outputs[1], query_offsets, key_offsets, causal, scale, *dropout, *gradients)
    return d_q, d_k, d_v


def _kernels(query_offsets: Offsets, many: Any, few: Any) -> Iterator[Any]:
    """Yield only the kernels that the sequences need: each takes seconds to compile at the first step on a machine."""
    n_queries = np.diff(query_offsets)
    if (n_queries > FEW).any():
        yield many
    if (n_queries <= FEW).any():
        yield few


def _check(
    q: Float, k: Float, v: Float, query_offsets: Offsets, key_offsets: Offsets, causal: bool, rate: float, seed: int
) -> tuple[Any, np.uint64, np.uint64]:
    """Check the arguments and return dropout's scale, threshold and seed."""
    sizes = check_floats(q=(q, "NHD"), k=(k, "SHD"), v=(v, "SHD"))
    check_offsets("query_offsets", query_offsets, None, sizes["N"])
    check_offsets("key_offsets", key_offsets, len(query_offsets) - 1, sizes["S"])
    n_queries, n_keys = np.diff(query_offsets), np.diff(key_offsets)
    if causal and (n_keys < n_queries).any():
        b = int(np.flatnonzero(n_keys < n_queries)[0])
        raise ValueError(f"key_offsets: sequence {b} has {n_keys[b]} keys for {n_queries[b]} queries")
    if n_keys.max(initial=0) >= MOST_KEYS:
        raise ValueError(f"key_offsets: a sequence of {n_keys.max()} keys, but fewer than {MOST_KEYS} are possible")
    threshold = keep_threshold(rate)
    return q.dtype.type(1 / (1 - rate)), threshold, seed_of_dropout(seed)


def _table(x: Float) -> Float:
    """Return [rows H, D] of [rows, H, D], without a copy."""
    return x.reshape(-1, x.shape[2])


@team_kernel()
def _forward(part, q, k, v, query_offsets, key_offsets, causal, scale, keep_scale, threshold, seed, out, lse):
    n_heads, d = lse.shape[1], q.shape[1]
    step, zero, one = n_heads * d, np.int64(0), np.int64(1)  # Numba compiles a callee again for every literal
    for task in share(part, (query_offsets.size - 1) * n_heads):
        b, h = task // n_heads, task % n_heads
        begin, end, first = query_offsets[b], query_offsets[b + 1], key_offsets[b]
        n_keys, key, width = key_offsets[b + 1] - first, first * step + h * d, _width(end - begin)
        if end - begin <= FEW:
            continue
        columns, scores = np.empty((d, width), q.dtype), np.empty((n_keys, width), q.dtype)
        most, total = np.empty(width, q.dtype), np.empty(width, q.dtype)
        for start in range(begin, end, width):
            last = min(start + width, end)
            n, query, n_seen = last - start, start * step + h * d, n_keys - (end - last if causal else 0)
            if not n_seen:
                continue
            s = scores[:n_seen]
            _fill(s, q.dtype.type(0))
            _turn(q, start * n_heads + h, n_heads, n, scale, columns)
            add_product(k, key, step, one, columns, zero, width, s, zero, width, n_seen, d, width)
            if causal:
                _hide(s, n)
            _softmax(s, most, total)
            if threshold > 0:
                _drop(s, start, n, h, n_heads, keep_scale, threshold, seed)
            add_product(s, zero, one, width, v, key, step, out, query, step, n, n_seen, d)
            for x in range(n):
                row = out[(start + x) * n_heads + h]
                for a in range(d):
                    row[a] /= total[x]
                lse[start + x, h] = most[x] + np.log(total[x])


@team_kernel()
def _backward(
    part, q, k, v, out, g, lse, query_offsets, key_offsets, causal, scale, keep_scale, threshold, seed, d_q, d_k, d_v
):
    n_heads, d = lse.shape[1], q.shape[1]
    step, zero, one = n_heads * d, np.int64(0), np.int64(1)  # Numba compiles a callee again for every literal
    for task in share(part, (query_offsets.size - 1) * n_heads):
        b, h = task // n_heads, task % n_heads
        begin, end, first = query_offsets[b], query_offsets[b + 1], key_offsets[b]
        n_keys, key, width = key_offsets[b + 1] - first, first * step + h * d, _width(end - begin)
        if end - begin <= FEW:
            continue
        columns, factors = np.empty((d, width), q.dtype), np.empty((n_keys, width), q.dtype)
        weights, d_scores = np.empty((n_keys, width), q.dtype), np.empty((n_keys, width), q.dtype)
        lses, deltas = np.zeros(width, q.dtype), np.zeros(width, q.dtype)
        _fill(factors, q.dtype.type(1))
        for start in range(begin, end, width):
            last = min(start + width, end)
            n, query, n_seen = last - start, start * step + h * d, n_keys - (end - last if causal else 0)
            for x in range(n):
                row = (start + x) * n_heads + h
                lses[x], deltas[x] = lse[start + x, h], dot(g, row, out, row)
            w, d_s = weights[:n_seen], d_scores[:n_seen]
            _fill(w, q.dtype.type(0))
            _fill(d_s, q.dtype.type(0))
            _turn(q, start * n_heads + h, n_heads, n, scale, columns)
            add_product(k, key, step, one, columns, zero, width, w, zero, width, n_seen, d, width)
            _turn(g, start * n_heads + h, n_heads, n, q.dtype.type(1), columns)
            add_product(v, key, step, one, columns, zero, width, d_s, zero, width, n_seen, d, width)
            if causal:
                _hide(w, n)
            if threshold > 0:
                _fill(factors, q.dtype.type(1))
                _drop(factors[:n_seen], start, n, h, n_heads, keep_scale, threshold, seed)
            _softmax_vjp(w, d_s, factors, lses, deltas, scale)
            add_product(d_s, zero, one, width, k, key, step, d_q, query, step, n, n_seen, d)
            add_product(d_s, zero, width, one, q, query, step, d_k, key, step, n_seen, n, d)
            add_product(w, zero, width, one, g, query, step, d_v, key, step, n_seen, n, d)


@kernel()
def _width(n):
    """Return how many queries are taken at a time."""
    return LANES if n <= LANES else 2 * LANES


@kernel()
def _fill(x, value):
    """Set every element: x[:] = value takes longer to compile."""
    for i in range(len(x)):
        for a in range(x.shape[1]):
            x[i, a] = value


@kernel()
def _turn(x, first, step, n, factor, columns):
    """Set the first n of the columns [D, width] to a factor times n rows of x, and the other columns to 0."""
    _fill(columns, columns.dtype.type(0))
    for c in range(n):
        row = x[first + c * step]
        for a in range(row.size):
            columns[a, c] = row[a] * factor


@kernel()
def _hide(s, n):
    """Set the scores of the keys after each query's position to -inf; the last query sees all keys."""
    for x in range(n - 1):
        for j in range(len(s) - (n - 1 - x), len(s)):
            s[j, x] = -np.inf


@kernel()
def _softmax(s, most, total):
    """Turn scores, one column a query, into exp(score - most); set `most` to their maxima and `total` to their sums."""
    for x in range(most.size):
        most[x], total[x] = s[0, x], 0
    for j in range(1, len(s)):
        for x in range(most.size):
            value, highest = s[j, x], most[x]
            most[x] = value if value > highest else highest
    for j in range(len(s)):
        for x in range(most.size):
            s[j, x] = exp(s[j, x] - most[x])
        for x in range(most.size):
            total[x] += s[j, x]


@kernel()
def _softmax_vjp(w, d_s, factors, lses, deltas, scale):
    """Turn scores w into weights times dropout's factors, and the gradients d_s of these into those of q k."""
    for j in range(len(w)):
        for x in range(lses.size):
            weight = exp(w[j, x] - lses[x])
            d_s[j, x] = weight * (d_s[j, x] * factors[j, x] - deltas[x]) * scale
            w[j, x] = weight * factors[j, x]


@kernel()
def _drop(w, first, n, h, n_heads, keep_scale, threshold, seed):
    """Multiply the weights of n queries by their elements of the keep mask."""
    for j in range(len(w)):
        for x in range(n):
            element = ((first + x) * MOST_KEYS + j) * n_heads + h
            w[j, x] *= keep_scale if kept(seed, element, threshold) else w.dtype.type(0)
