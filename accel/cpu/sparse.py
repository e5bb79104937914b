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
    exp_rows,
    largest,
    load,
    multiply,
    put_rows,
    scale_rows,
    store,
    subtract_rows,
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
    inputs = _score_inputs(q, k, r, content_bias, position_bias)
    weights = np.empty((inputs[0].shape[1], keys.size, LANES), q.dtype)
    by_key = _edges_by_key(row_offsets, keys, len(k))
    _scores(*inputs, *by_key, relative, weights, n_chunks(len(k)))
    out, lse = np.empty(q.shape, q.dtype), np.empty(q.shape[:2], q.dtype)
    dropout = (q.dtype.type(1 / (1 - rate)), threshold, np.uint64(seed))
    _forward(weights, to_lanes(v), row_offsets, keys, *dropout, out, lse, n_chunks(len(q)))
    return out, lse


def sparse_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias; the scores are computed again from lse."""
    threshold = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    n, n_heads, d_head = q.shape
    scale = q.dtype.type(1 / math.sqrt(d_head))
    inputs = _score_inputs(q, k, r, content_bias, position_bias)
    q_lanes, r_lanes, groups, chunks = inputs[0], inputs[2], inputs[0].shape[1], n_chunks(len(k))
    lse, delta = (_by_group(x) for x in (outputs[1], (d_out * outputs[0]).sum(axis=2)))
    d_scores = np.empty((groups, keys.size, LANES), q.dtype)
    d_k, d_v, d_u = (np.zeros(shape, q.dtype) for shape in (k.shape, k.shape, (chunks, groups, d_head, LANES)))
    dropout = (q.dtype.type(1 / (1 - rate)), threshold, np.uint64(seed))
    _backward_keys(
        *inputs, np.ascontiguousarray(v), to_lanes(d_out), lse, delta,
        *_edges_by_key(row_offsets, keys, len(k)), relative, *dropout, d_scores, d_k, d_v, d_u,
    )  # fmt: skip
    chunks = n_chunks(n, most=16)
    d_q, d_r = np.empty(q.shape, q.dtype), np.zeros((chunks, *r_lanes.shape), q.dtype)
    sums = np.zeros((chunks, len(r), groups, 1, LANES), q.dtype)  # of the score gradients, by row of r
    _backward_queries(q_lanes, to_lanes(k), r_lanes, d_scores, row_offsets, keys, relative, scale, d_q, d_r, sums)
    d_r, sums, d_u = (_from_lanes(x.sum(axis=0), n_heads) for x in (d_r, sums, d_u[:, None]))
    return d_q, d_k, d_v, d_r + sums * (position_bias * scale), d_u[0] * scale, (sums * r).sum(axis=0) * scale


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


def _by_group(x: Float) -> Float:
    """Return [G, N, 8] of [N, H]."""
    return np.ascontiguousarray(to_lanes(x[:, :, None])[:, :, 0].transpose(1, 0, 2))


def _from_lanes(lanes: Float, n_heads: int) -> Float:
    """Return [N, H, D] of [N, G, D, 8]."""
    rows, _, d_head, _ = lanes.shape
    return lanes.transpose(0, 1, 3, 2).reshape(rows, -1, d_head)[:, :n_heads]


def _score_inputs(q: Float, k: Float, r: Float, content_bias: Float, position_bias: Float) -> tuple[Float, ...]:
    """Return what the scores q (k + r) + u k + w r, all over sqrt(D), are made of: q, k, r, u and w r (lanes but k)."""
    scale = 1 / math.sqrt(q.shape[2])
    start = to_lanes((r * position_bias).sum(axis=2, keepdims=True), scale)[:, :, 0]
    return to_lanes(q, scale), np.ascontiguousarray(k), to_lanes(r), to_lanes(content_bias[None], scale)[0], start


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
def _scores(q, k, r, u, start, offsets, edges, queries, relative, scores, chunks):
    rows, groups = len(k), q.shape[1]
    for chunk in prange(chunks):
        key, content = np.zeros((q.shape[2], LANES), q.dtype), np.empty(LANES, q.dtype)
        for j in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            if offsets[j] < offsets[j + 1]:
                for g in range(groups):
                    load(key, k[j], g)
                    dot(content, u[g], key)
                    for x in range(offsets[j], offsets[j + 1]):
                        e, p = edges[x], relative[edges[x]]
                        dot_sum(scores[g, e], content, start[p, g], q[queries[x], g], key, r[p, g])


@parallel_kernel()
def _forward(weights, v, row_offsets, keys, keep_scale, threshold, seed, out, lse, chunks):
    rows, n_heads, d_head = out.shape
    one = v.dtype.type(1)
    for chunk in prange(chunks):
        first, last = chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)
        keep = _keep_buffer(row_offsets[first : last + 1], threshold, weights)
        m, total, sums = np.empty(LANES, v.dtype), np.empty(LANES, v.dtype), np.zeros((d_head, LANES), v.dtype)
        for i in range(first, last):
            begin, end = row_offsets[i], row_offsets[i + 1]
            for g in range(v.shape[1]):
                w = weights[g, begin:end]
                largest(m, w)
                exp_difference(w, m)
                add_rows(total, w)
                for x in range(min(LANES, n_heads - g * LANES)):
                    lse[i, g * LANES + x] = m[x] + np.log(total[x]) if end > begin else -np.inf
                for x in range(LANES):
                    total[x] = one / total[x]
                scale_rows(w, total)
                if threshold > 0:
                    _fill_keep(keep, np.arange(begin, end), g, n_heads, keep_scale, threshold, seed)
                    multiply(w, keep[: end - begin])
                for e in range(begin, end):
                    add(sums, w[e - begin], v[keys[e], g])
                store(out[i], sums, g, one)


@kernel()
def _keep_buffer(offsets, threshold, like):
    """Return room for the multipliers of the longest list, none without dropout."""
    longest = 0
    for i in range(offsets.size - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return np.empty((longest if threshold > 0 else 0, LANES), like.dtype)


@kernel()
def _fill_keep(keep, edges, g, n_heads, keep_scale, threshold, seed):
    """Set the rows of keep to the multipliers of these edges in group g (any, in a lane without a head)."""
    for x in range(edges.size):
        for lane in range(LANES):
            kept_here = kept(seed, edges[x] * n_heads + g * LANES + lane, threshold)
            keep[x, lane] = keep_scale if kept_here else keep.dtype.type(0)


@parallel_kernel()
def _backward_keys(
    q, k, r, u, start, v, g_out, lse, delta, offsets, edges, queries, relative, keep_scale, threshold, seed,
    d_scores, d_k, d_v, d_u,
):  # fmt: skip
    """Compute the gradients of scores, keys and values; with dropout these are d_s = p (keep d_w - delta)."""
    rows, n_heads, d_head = k.shape
    chunks = len(d_u)
    one = q.dtype.type(1)
    for chunk in prange(chunks):
        first, last = chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)
        longest = 0
        for j in range(first, last):
            longest = max(longest, offsets[j + 1] - offsets[j])
        scores, gradients = np.empty((longest, LANES), q.dtype), np.empty((longest, LANES), q.dtype)
        keep, content = _keep_buffer(offsets[first : last + 1], threshold, q), np.empty(LANES, q.dtype)
        key, value = np.zeros((d_head, LANES), q.dtype), np.zeros((d_head, LANES), q.dtype)
        d_key, d_value = np.zeros((d_head, LANES), q.dtype), np.zeros((d_head, LANES), q.dtype)
        for j in range(first, last):
            begin, end = offsets[j], offsets[j + 1]
            if begin == end:
                continue
            w, d_s = scores[: end - begin], gradients[: end - begin]
            for g in range(q.shape[1]):
                load(key, k[j], g)
                load(value, v[j], g)
                dot(content, u[g], key)
                for x in range(end - begin):
                    e, i = edges[begin + x], queries[begin + x]
                    dot_sum(w[x], content, start[relative[e], g], q[i, g], key, r[relative[e], g])
                    dot(d_s[x], g_out[i, g], value)
                subtract_rows(w, lse[g], queries[begin:end])
                exp_rows(w)
                if threshold > 0:
                    _fill_keep(keep, edges[begin:end], g, n_heads, keep_scale, threshold, seed)
                    multiply(d_s, keep[: end - begin])
                subtract_rows(d_s, delta[g], queries[begin:end])
                multiply(d_s, w)
                put_rows(d_scores[g], d_s, edges[begin:end])
                if threshold > 0:
                    multiply(w, keep[: end - begin])
                for x in range(end - begin):
                    i = queries[begin + x]
                    add(d_key, d_s[x], q[i, g])
                    add(d_value, w[x], g_out[i, g])
                add_rows(content, d_s)
                add(d_key, content, u[g])
                add(d_u[chunk, g], content, key)
                store(d_k[j], d_key, g, one)
                store(d_v[j], d_value, g, one)


@parallel_kernel()
def _backward_queries(q, k, r, d_scores, row_offsets, keys, relative, scale, d_q, d_r, sums):
    rows, chunks = len(q), len(d_r)
    for chunk in prange(chunks):
        total, ones = np.zeros((q.shape[2], LANES), q.dtype), np.ones((1, LANES), q.dtype)
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            for g in range(q.shape[1]):
                for e in range(row_offsets[i], row_offsets[i + 1]):
                    p, d_s = relative[e], d_scores[g, e]
                    add_both(total, d_s, k[keys[e], g], r[p, g])
                    add(d_r[chunk, p, g], d_s, q[i, g])
                    add(sums[chunk, p, g], d_s, ones)
                store(d_q[i], total, g, scale)
