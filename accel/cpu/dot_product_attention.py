"""Scaled dot-product attention of short and long sequences, causal or not, forward and gradient.

Mirrors `refimpl.encoder_decoder.dot_product_attention`.
Parallel over (sequence, head): each thread works in tables of one row a position and head, along the D elements of a
head, so that ten keys are as fast an inner loop as a thousand, and nothing is copied or padded. Memory is the scores of
one query a thread, four backward, where they are computed again from lse: no array is ever queries x keys.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from accel.cpu.arguments import check_floats, check_offsets
from accel.cpu.kernels import exp, keep_threshold, kept, kernel, parallel_kernel, row_max
from accel.cpu.rows import add, add_four, dot, dot_four, row_sum

Float = NDArray[Any]
Offsets = NDArray[np.int64]
MOST_KEYS = 2**20
"""Keys of one sequence: the number of a dropout element has room for no more."""


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
        Sequence b has n_b queries and s_b keys. A query without keys gets 0 and -inf.
    causal
        Query i of n_b sees the keys j <= s_b - n_b + i; s_b >= n_b.
    rate, seed
        Attention dropout: the weight of query row n and key j of its sequence in head h is multiplied by element
        (2^20 n + j) H + h of the keep mask.

    Raises
    ------
    ValueError
        Shapes, dtypes or offsets that do not fit, fewer keys than queries where it is causal, or 2^20 keys.
    """
    dropout = _check(q, k, v, query_offsets, key_offsets, causal, rate, seed)
    out, lse = np.zeros(q.shape, q.dtype), np.full(q.shape[:2], -np.inf, q.dtype)
    scale = q.dtype.type(1 / math.sqrt(q.shape[2]))
    _forward(_table(q), _table(k), _table(v), query_offsets, key_offsets, causal, scale, *dropout, _table(out), lse)
    return out, lse


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
    tables = (_table(x) for x in (q, k, v, outputs[0], d_out))
    gradients = (_table(x) for x in (d_q, d_k, d_v))
    _backward(*tables, outputs[1], query_offsets, key_offsets, causal, scale, *dropout, *gradients)
    return d_q, d_k, d_v


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
    return q.dtype.type(1 / (1 - rate)), threshold, np.uint64(seed)


def _table(x: Float) -> Float:
    """Return [rows H, D] of [rows, H, D], without a copy where possible."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[2])


@parallel_kernel()
def _forward(q, k, v, query_offsets, key_offsets, causal, scale, keep_scale, threshold, seed, out, lse):
    n_heads = lse.shape[1]
    for task in prange((query_offsets.size - 1) * n_heads):
        b, h = task // n_heads, task % n_heads
        first, n_keys = key_offsets[b], key_offsets[b + 1] - key_offsets[b]
        scores = np.empty(n_keys, q.dtype)
        for i in range(query_offsets[b], query_offsets[b + 1]):
            s = scores[: n_keys - (query_offsets[b + 1] - 1 - i if causal else 0)]
            if not s.size:
                continue
            _products(q, i * n_heads + h, k, first, h, n_heads, scale, s)
            most = row_max(s)
            for j in range(s.size):
                s[j] = exp(s[j] - most)
            total = row_sum(s)
            lse[i, h] = most + np.log(total)
            for j in range(s.size):
                s[j] /= total
            if threshold > 0:
                _drop(s, i, h, n_heads, keep_scale, threshold, seed)
            _add_rows(out, i * n_heads + h, v, first, h, n_heads, s)


@parallel_kernel()
def _backward(
    q, k, v, out, g, lse, query_offsets, key_offsets, causal, scale, keep_scale, threshold, seed, d_q, d_k, d_v
):
    n_heads = lse.shape[1]
    for task in prange((query_offsets.size - 1) * n_heads):
        b, h = task // n_heads, task % n_heads
        first, end, n_keys = key_offsets[b], query_offsets[b + 1], key_offsets[b + 1] - key_offsets[b]
        weights, d_scores = np.empty((4, n_keys), q.dtype), np.empty((4, n_keys), q.dtype)
        for start in range(query_offsets[b], end, 4):
            last = min(start + 4, end)
            width = n_keys - (end - last if causal else 0)  # what the last of the four sees
            for i in range(start, last):
                row, seen = i * n_heads + h, n_keys - (end - 1 - i if causal else 0)
                w, d_s = weights[i - start, :width], d_scores[i - start, :width]
                _products(q, row, k, first, h, n_heads, scale, w[:seen])
                _products(g, row, v, first, h, n_heads, q.dtype.type(1), d_s[:seen])
                for j in range(seen):
                    w[j] = exp(w[j] - lse[i, h])
                if threshold > 0:
                    _drop(d_s[:seen], i, h, n_heads, keep_scale, threshold, seed)
                delta = dot(g, row, out, row)
                for j in range(seen):
                    d_s[j] = w[j] * (d_s[j] - delta) * scale
                if threshold > 0:
                    _drop(w[:seen], i, h, n_heads, keep_scale, threshold, seed)
                for j in range(seen, width):
                    w[j] = d_s[j] = 0
                _add_rows(d_q, row, k, first, h, n_heads, d_s[:seen])
            for j in range(width):
                key, query = (first + j) * n_heads + h, start * n_heads + h
                if last == start + 4:
                    rows = query, query + n_heads, query + 2 * n_heads, query + 3 * n_heads
                    d_s = d_scores[0, j], d_scores[1, j], d_scores[2, j], d_scores[3, j]
                    w = weights[0, j], weights[1, j], weights[2, j], weights[3, j]
                    add_four(d_k, key, q, *rows, *d_s)
                    add_four(d_v, key, g, *rows, *w)
                else:
                    for x in range(last - start):
                        add(d_k, key, q, query + x * n_heads, d_scores[x, j])
                        add(d_v, key, g, query + x * n_heads, weights[x, j])


@kernel()
def _products(queries, row, keys, first, h, n_heads, scale, s):
    """Set s to the scaled products of one row with head h of the keys from `first`."""
    fours = s.size - s.size % 4
    for j in range(0, fours, 4):
        key = (first + j) * n_heads + h
        s[j], s[j + 1], s[j + 2], s[j + 3] = dot_four(
            queries, row, keys, key, key + n_heads, key + 2 * n_heads, key + 3 * n_heads
        )
    for j in range(fours, s.size):
        s[j] = dot(queries, row, keys, (first + j) * n_heads + h)
    for j in range(s.size):
        s[j] *= scale


@kernel()
def _add_rows(out, row, table, first, h, n_heads, factors):
    """Add to one row of out the factors times head h of the rows from `first`."""
    fours = factors.size - factors.size % 4
    for j in range(0, fours, 4):
        key, f0, f1, f2, f3 = (first + j) * n_heads + h, factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        add_four(out, row, table, key, key + n_heads, key + 2 * n_heads, key + 3 * n_heads, f0, f1, f2, f3)
    for j in range(fours, factors.size):
        add(out, row, table, (first + j) * n_heads + h, factors[j])


@kernel()
def _drop(w, query, h, n_heads, keep_scale, threshold, seed):
    """Multiply the weights of a query by their elements of the keep mask."""
    for j in range(w.size):
        w[j] *= keep_scale if kept(seed, (query * MOST_KEYS + j) * n_heads + h, threshold) else w.dtype.type(0)
