"""Attention over given lists of keys, forward and gradient.

Mirrors `refimpl.attention.sparse_attention`.
Parallel over chunks of queries, then (gradients of keys and values) over chunks of keys, each of which adds its edges
in order; memory is one copy of the inputs, 2 H floats an edge, and 16 partial gradients of r.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from accel.cpu.arguments import check_floats, check_indices, check_offsets
from accel.cpu.kernels import chunk_begin, keep_threshold, kept, kernel, n_chunks, parallel_kernel
from accel.cpu.lanes import (
    LANES,
    add,
    add_both,
    add_rows,
    dot,
    dot_sum,
    exp_difference,
    from_lanes,
    largest,
    scale_rows,
    score_gradients,
    to_lanes,
)

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]


def sparse_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float]:  # fmt: skip
    """Return the attention output [N, H, D] of every query over its own list of keys, and lse [N, H].

    Spec: ATT-1, of a batch.

    Parameters
    ----------
    q : [N, H, D], k, v : [S, H, D], r : [P, H, D], content_bias, position_bias : [H, D], all float32 or all float64
        Queries, keys, values, relative positions; the biases u and w.
    row_offsets : [N+1] int64, keys : [E] int32, relative : [E] int32
        Query i has the edges `row_offsets[i]` to `row_offsets[i+1]`, each to a row of k with a row of r.
    rate, seed
        Attention dropout: the weight of edge e in head h is multiplied by element e H + h of the keep mask.

    Returns
    -------
    out [N, H, D], lse [N, H]
        0 and -inf for a query without keys.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, offsets that decrease, an edge to a row that does not exist.
    """
    threshold = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate)
    n_heads, scale = q.shape[1], 1 / math.sqrt(q.shape[2])
    inputs = (to_lanes(q, content_bias, scale), to_lanes(k), to_lanes(v), to_lanes(r))
    start = _position_scores(r, content_bias, position_bias, inputs[3])
    out, lse = np.zeros_like(inputs[0]), np.empty((len(q), inputs[0].shape[1], LANES), q.dtype)
    dropout = (n_heads, q.dtype.type(1 / (1 - rate)), threshold, np.uint64(seed))
    _forward(*inputs, start, row_offsets, keys, relative, *dropout, out, lse, n_chunks(len(q)))
    return from_lanes(out, n_heads), np.ascontiguousarray(lse.reshape(len(q), -1)[:, :n_heads])


def sparse_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias.

    With q' = q + u the scores are q'(k + r) + (w - u) r, so that d_u = sum of d_q - d_w.
    """
    threshold = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    n, n_heads, d_head = q.shape
    scale = 1 / math.sqrt(d_head)
    inputs = (to_lanes(q, content_bias, scale), to_lanes(k), to_lanes(v), to_lanes(r))
    start = _position_scores(r, content_bias, position_bias, inputs[3])
    g, out, lse = to_lanes(d_out), to_lanes(outputs[0]), to_lanes(outputs[1][:, :, None])[:, :, 0]
    chunks = n_chunks(n, most=16)
    d_scores, weights = np.empty((2, lse.shape[1], len(keys), LANES), q.dtype)
    d_q, d_r = np.zeros_like(inputs[0]), np.zeros((chunks, *inputs[3].shape), q.dtype)
    sums = np.zeros((chunks, *start.shape[:2], 1, LANES), q.dtype)
    dropout = (n_heads, q.dtype.type(1 / (1 - rate)), threshold, np.uint64(seed))
    _backward_queries(
        *inputs, start, g, out, lse, row_offsets, keys, relative, *dropout, d_scores, weights, d_q, d_r, sums
    )
    d_k, d_v = np.zeros_like(inputs[1]), np.zeros_like(inputs[1])
    by_key = _edges_by_key(row_offsets, keys, len(k))
    _backward_keys(inputs[0], g, *by_key, d_scores, weights, d_k, d_v, n_chunks(len(k)))
    d_q = from_lanes(d_q, n_heads, scale)
    position_sums = sums.sum(axis=0).reshape(len(r), -1)[:, :n_heads, None]  # [P, H, 1]: score gradients by row of r
    d_r = from_lanes(d_r.sum(axis=0), n_heads) + position_sums * ((position_bias - content_bias) * q.dtype.type(scale))
    d_position_bias = (position_sums * r).sum(axis=0) * q.dtype.type(scale)
    d_content_bias = d_q.sum(axis=0) - d_position_bias
    return d_q, from_lanes(d_k, n_heads), from_lanes(d_v, n_heads), d_r, d_content_bias, d_position_bias


def _check(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, rate: float,
) -> np.uint64:  # fmt: skip
    biases = {"content_bias": (content_bias, "HD"), "position_bias": (position_bias, "HD")}
    sizes = check_floats(q=(q, "NHD"), k=(k, "SHD"), v=(v, "SHD"), r=(r, "PHD"), **biases)
    check_indices("keys", keys, keys.size, sizes["S"])
    check_indices("relative", relative, keys.size, sizes["P"])
    check_offsets("row_offsets", row_offsets, sizes["N"], keys.size)
    return keep_threshold(rate)


def _position_scores(r: Float, content_bias: Float, position_bias: Float, r_lanes: Float) -> Float:
    """Return (w - u) r / sqrt(D) in lanes, [P, G, 8]."""
    start = np.zeros((len(r), r_lanes.shape[1] * LANES), r.dtype)
    start[:, : r.shape[1]] = (r * (position_bias - content_bias)).sum(axis=2) / math.sqrt(r.shape[2])
    return start.reshape(len(r), -1, LANES)


@parallel_kernel()
def _forward(
    q, k, v, r, start, row_offsets, keys, relative, n_heads, keep_scale, threshold, seed, out, lse, chunks
):  # fmt: skip
    rows, groups, one = q.shape[0], q.shape[1], q.dtype.type(1)
    for chunk in prange(chunks):
        first, last = chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)
        longest = 0
        for i in range(first, last):
            longest = max(longest, row_offsets[i + 1] - row_offsets[i])
        w, m, total = np.empty((longest, LANES), q.dtype), np.empty(LANES, q.dtype), np.empty(LANES, q.dtype)
        for i in range(first, last):
            begin, end = row_offsets[i], row_offsets[i + 1]
            for g in range(groups):
                weights = w[: end - begin]
                for e in range(begin, end):
                    dot_sum(w[e - begin], start[relative[e], g], q[i, g], k[keys[e], g], r[relative[e], g])
                largest(m, weights)
                exp_difference(weights, m)
                add_rows(total, weights)
                for x in range(LANES):
                    lse[i, g, x] = m[x] + np.log(total[x]) if end > begin else -np.inf
                    total[x] = one / total[x]
                scale_rows(weights, total)
                if threshold > 0:
                    _drop(weights, begin, g, n_heads, keep_scale, threshold, seed)
                for e in range(begin, end):
                    add(out[i, g], w[e - begin], v[keys[e], g])


@kernel()
def _drop(w, begin, g, n_heads, keep_scale, threshold, seed):
    """Multiply the rows w [n, 8] of the edges from `begin` by their elements of the keep mask."""
    flat = w.reshape(w.size)
    for x in range(flat.size):
        keep = kept(seed, (begin + x // LANES) * n_heads + g * LANES + x % LANES, threshold)
        flat[x] *= keep_scale if keep else w.dtype.type(0)


@parallel_kernel()
def _backward_queries(
    q, k, v, r, start, g_out, out, lse, row_offsets, keys, relative, n_heads, keep_scale, threshold, seed,
    d_scores, weights, d_q, d_r, sums,
):  # fmt: skip
    rows, groups = q.shape[0], q.shape[1]
    chunks = len(d_r)
    for chunk in prange(chunks):
        delta, ones = np.empty(LANES, q.dtype), np.ones((1, LANES), q.dtype)
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            begin, end = row_offsets[i], row_offsets[i + 1]
            for g in range(groups):
                w, d_s = weights[g, begin:end], d_scores[g, begin:end]
                for e in range(begin, end):
                    dot_sum(w[e - begin], start[relative[e], g], q[i, g], k[keys[e], g], r[relative[e], g])
                    dot(d_s[e - begin], g_out[i, g], v[keys[e], g])
                exp_difference(w, lse[i, g])
                dot(delta, g_out[i, g], out[i, g])
                if threshold > 0:
                    _drop(d_s, begin, g, n_heads, keep_scale, threshold, seed)
                score_gradients(d_s, w, delta)
                if threshold > 0:
                    _drop(w, begin, g, n_heads, keep_scale, threshold, seed)
                for e in range(begin, end):
                    p = relative[e]
                    add_both(d_q[i, g], d_s[e - begin], k[keys[e], g], r[p, g])
                    add(d_r[chunk, p, g], d_s[e - begin], q[i, g])
                    add(sums[chunk, p, g], d_s[e - begin], ones)


@kernel()
def _edges_by_key(row_offsets, keys, n_keys):
    """Return the transposed lists: for every key the edges to it in order, and their queries."""
    offsets = np.zeros(n_keys + 1, np.int64)
    for e in range(keys.size):
        offsets[keys[e] + 1] += 1
    for j in range(n_keys):
        offsets[j + 1] += offsets[j]
    place = offsets[:-1].copy()
    edges, queries = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    for i in range(row_offsets.size - 1):
        for e in range(row_offsets[i], row_offsets[i + 1]):
            edges[place[keys[e]]], queries[place[keys[e]]] = e, i
            place[keys[e]] += 1
    return offsets, edges, queries


@parallel_kernel()
def _backward_keys(q, g_out, offsets, edges, queries, d_scores, weights, d_k, d_v, chunks):
    rows, groups = d_k.shape[0], d_k.shape[1]
    for chunk in prange(chunks):
        for j in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            for x in range(offsets[j], offsets[j + 1]):
                for g in range(groups):
                    add(d_k[j, g], d_scores[g, edges[x]], q[queries[x], g])
                    add(d_v[j, g], weights[g, edges[x]], g_out[queries[x], g])
