"""Attention of a few queries, such as one for every node or hypothesis: along the D elements of a head, without tiles.

These are the kernels of `accel.cpu.dot_product_attention` for sequences of up to FEW queries, on the same tables. With
the D elements as the inner loop a key takes no longer among ten than among a thousand, and nothing is copied.
"""

from __future__ import annotations

import numpy as np

from accel.cpu.support.kernels import exp, kept, kernel, row_max
from accel.cpu.support.rows import add, add_four, dot, dot_four, row_sum
from accel.cpu.support.team import share, team_kernel

FEW = 4
"""Sequences of up to this number of queries are computed without tiles."""
MOST_KEYS = 2**20
"""A sequence has fewer keys: the number of a dropout element has 20 bits for a key."""


@team_kernel()
def attend_few(part, q, k, v, query_offsets, key_offsets, causal, scale, keep_scale, threshold, seed, out, lse):
    """Set out and lse of the sequences of up to FEW queries."""
    n_heads = lse.shape[1]
    for task in share(part, (query_offsets.size - 1) * n_heads):
        b, h = task // n_heads, task % n_heads
        begin, end, first = query_offsets[b], query_offsets[b + 1], key_offsets[b]
        if end - begin <= FEW:
            n_keys, options = key_offsets[b + 1] - first, (causal, scale, keep_scale, threshold, seed)
            _attend(q, k, v, begin, end, first, n_keys, h, *options, out, lse)


@kernel()
def _attend(q, k, v, begin, end, first, n_keys, h, causal, scale, keep_scale, threshold, seed, out, lse):
    """Set out and lse of head h of the queries from `begin` over the keys from `first`."""
    n_heads = lse.shape[1]
    scores = np.empty(n_keys, q.dtype)
    for i in range(begin, end):
        s = scores[: n_keys - (end - 1 - i if causal else 0)]
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


@team_kernel()
def attend_few_vjp(
    part, q, k, v, out, g, lse, query_offsets, key_offsets, causal, scale, keep_scale, threshold, seed, d_q, d_k, d_v
):
    """Set the gradients of the sequences of up to FEW queries; the arrays hold 0 before."""
    n_heads = lse.shape[1]
    for task in share(part, (query_offsets.size - 1) * n_heads):
        b, h = task // n_heads, task % n_heads
        begin, end, first = query_offsets[b], query_offsets[b + 1], key_offsets[b]
        if end - begin <= FEW:
            n_keys, options = key_offsets[b + 1] - first, (causal, scale, keep_scale, threshold, seed)
            _attend_vjp(q, k, v, out, g, lse, begin, end, first, n_keys, h, *options, d_q, d_k, d_v)


@kernel()
def _attend_vjp(
    q, k, v, out, g, lse, begin, end, first, n_keys, h, causal, scale, keep_scale, threshold, seed, d_q, d_k, d_v
):
    """Add the parts of the queries from `begin` to the gradients of head h."""
    n_heads = lse.shape[1]
    weights, d_scores = np.empty(n_keys, q.dtype), np.empty(n_keys, q.dtype)
    for i in range(begin, end):
        row, n_seen = i * n_heads + h, n_keys - (end - 1 - i if causal else 0)
        w, d_s = weights[:n_seen], d_scores[:n_seen]
        _products(q, row, k, first, h, n_heads, scale, w)
        _products(g, row, v, first, h, n_heads, q.dtype.type(1), d_s)
        for j in range(n_seen):
            w[j] = exp(w[j] - lse[i, h])
        if threshold > 0:
            _drop(d_s, i, h, n_heads, keep_scale, threshold, seed)
        delta = dot(g, row, out, row)
        for j in range(n_seen):
            d_s[j] = w[j] * (d_s[j] - delta) * scale
        if threshold > 0:
            _drop(w, i, h, n_heads, keep_scale, threshold, seed)
        _add_rows(d_q, row, k, first, h, n_heads, d_s)
        for j in range(n_seen):
            add(d_k, (first + j) * n_heads + h, q, row, d_s[j])
            add(d_v, (first + j) * n_heads + h, g, row, w[j])


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
    """Add to one row of out the sum of the factors times head h of the rows from `first`."""
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
