"""Attention over given lists of keys, forward and gradient.

Mirrors `refimpl.attention.sparse_attention`.
Parallel over chunks of queries, then (gradients of keys and values) over chunks of keys, each of which adds its edges
in order. Memory is two copies of the queries, 2 H floats an edge, and 16 partial gradients of r.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from accel.cpu.arguments import check_floats, check_indices, check_offsets
from accel.cpu.kernels import chunk_begin, exp, keep_threshold, kept, kernel, n_chunks, parallel_kernel
from accel.cpu.rows import add, dot, dot_dot

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
    dropout = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate, seed)
    tables = _tables(q, k, v, r, content_bias, position_bias)
    out, lse = np.zeros(q.shape, q.dtype), np.empty(q.shape[:2], q.dtype)
    _forward(*tables, row_offsets, keys, relative, *dropout, _table(out), lse, n_chunks(len(q)))
    return out, lse


def sparse_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias; the scores are computed again from lse."""
    dropout = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate, seed)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    tables = _tables(q, k, v, r, content_bias, position_bias)
    g, scale, chunks = _table(d_out), q.dtype.type(1 / math.sqrt(q.shape[2])), n_chunks(len(q), most=16)
    d_scores, weights = np.empty((2, keys.size, q.shape[1]), q.dtype)
    d_q, d_k, d_v = (np.empty(x.shape, q.dtype) for x in (q, k, v))
    d_r, d_biases = np.zeros((chunks, *r.shape), q.dtype), np.zeros((chunks, 2, *q.shape[1:]), q.dtype)
    _backward_queries(
        *tables, g, _table(outputs[0]), outputs[1], row_offsets, keys, relative, *dropout, scale,
        d_scores, weights, _table(d_q), d_r.reshape(chunks, -1, q.shape[2]), d_biases,
    )  # fmt: skip
    by_key = _edges_by_key(row_offsets, keys, len(k))
    _backward_keys(d_scores, tables[0], *by_key, _table(d_k), n_chunks(len(k)))
    _backward_keys(weights, g, *by_key, _table(d_v), n_chunks(len(k)))
    return d_q, d_k, d_v, d_r.sum(axis=0), *(d_biases.sum(axis=0) * scale)


def _check(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, rate: float, seed: int,
) -> tuple[Any, np.uint64, np.uint64]:  # fmt: skip
    """Check the arguments and return dropout's scale, threshold and seed."""
    biases = {"content_bias": (content_bias, "HD"), "position_bias": (position_bias, "HD")}
    sizes = check_floats(q=(q, "NHD"), k=(k, "SHD"), v=(v, "SHD"), r=(r, "PHD"), **biases)
    check_indices("keys", keys, keys.size, sizes["S"])
    check_indices("relative", relative, keys.size, sizes["P"])
    check_offsets("row_offsets", row_offsets, sizes["N"], keys.size)
    threshold = keep_threshold(rate)
    return q.dtype.type(1 / (1 - rate)), threshold, np.uint64(seed)


def _tables(q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float) -> tuple[Float, ...]:
    """Return (q + u) / sqrt(D), (q + w) / sqrt(D), k, v, r, each with one row a head."""
    queries = np.empty((2, q.shape[0] * q.shape[1], q.shape[2]), q.dtype)
    biases = np.stack((content_bias, position_bias))
    _add_biases(_table(q), biases, q.dtype.type(1 / math.sqrt(q.shape[2])), *queries, n_chunks(len(q)))
    return *queries, _table(k), _table(v), _table(r)


@parallel_kernel()
def _add_biases(q, biases, scale, q_content, q_position, chunks):
    n_heads = biases.shape[1]
    for chunk in prange(chunks):
        for i in range(chunk_begin(chunk, chunks, len(q)), chunk_begin(chunk + 1, chunks, len(q))):
            for a in range(q.shape[1]):
                q_content[i, a] = (q[i, a] + biases[0, i % n_heads, a]) * scale
                q_position[i, a] = (q[i, a] + biases[1, i % n_heads, a]) * scale


def _table(x: Float) -> Float:
    """Return [N H, D] of [N, H, D], without a copy where possible."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[2])


@parallel_kernel()
def _forward(
    q_content, q_position, k, v, r, row_offsets, keys, relative, keep_scale, threshold, seed, out, lse, chunks
):  # fmt: skip
    n, n_heads = lse.shape
    for chunk in prange(chunks):
        first, last = chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)
        longest = 0
        for i in range(first, last):
            longest = max(longest, row_offsets[i + 1] - row_offsets[i])
        rows, m, total = np.empty((longest, n_heads), k.dtype), np.empty(n_heads, k.dtype), np.empty(n_heads, k.dtype)
        for i in range(first, last):
            begin, end = row_offsets[i], row_offsets[i + 1]
            w = rows[: end - begin]
            for e in range(begin, end):
                for h in range(n_heads):
                    qh, kh, rh = i * n_heads + h, keys[e] * n_heads + h, relative[e] * n_heads + h
                    w[e - begin, h] = dot_dot(q_content, qh, k, kh, q_position, qh, r, rh)
            _softmax(w, m, total)
            for h in range(n_heads):
                lse[i, h] = m[h] + np.log(total[h]) if end > begin else -np.inf
            if threshold > 0:
                _drop(w, begin, keep_scale, threshold, seed)
            for e in range(begin, end):
                for h in range(n_heads):
                    add(out, i * n_heads + h, v, keys[e] * n_heads + h, w[e - begin, h])


@kernel()
def _softmax(w, m, total):
    """Turn scores w [n, H] into their softmax; set m and total [H] to the maxima and to the sums of e^(w - m)."""
    m[:], total[:] = -np.inf, 0
    for e in range(len(w)):
        for h in range(m.size):
            m[h] = max(m[h], w[e, h])
    for e in range(len(w)):
        for h in range(m.size):
            w[e, h] -= m[h]
    _exp(w)
    for e in range(len(w)):
        for h in range(m.size):
            total[h] += w[e, h]
    for e in range(len(w)):
        for h in range(m.size):
            w[e, h] /= total[h]


@kernel()
def _exp(w):
    flat = w.reshape(w.size)
    for x in range(flat.size):
        flat[x] = exp(flat[x])


@kernel()
def _drop(w, begin, keep_scale, threshold, seed):
    """Multiply the rows w [n, H] of the edges from `begin` by their elements of the keep mask."""
    flat, first = w.reshape(w.size), begin * w.shape[1]
    for x in range(flat.size):
        flat[x] *= keep_scale if kept(seed, first + x, threshold) else w.dtype.type(0)


@parallel_kernel()
def _backward_queries(
    q_content, q_position, k, v, r, g, out, lse, row_offsets, keys, relative, keep_scale, threshold, seed, scale,
    d_scores, weights, d_q, d_r, d_biases,
):  # fmt: skip
    """Compute the gradients of scores (with dropout p (keep d_w - delta)), of queries, of r and of the biases."""
    n, n_heads = lse.shape
    chunks, d_head = len(d_r), k.shape[1]
    for chunk in prange(chunks):
        delta = np.empty(n_heads, k.dtype)
        content, position = np.empty((n_heads, d_head), k.dtype), np.empty((n_heads, d_head), k.dtype)
        for i in range(chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)):
            begin, end = row_offsets[i], row_offsets[i + 1]
            w, d_s = weights[begin:end], d_scores[begin:end]
            for e in range(begin, end):
                for h in range(n_heads):
                    qh, kh, rh = i * n_heads + h, keys[e] * n_heads + h, relative[e] * n_heads + h
                    w[e - begin, h] = dot_dot(q_content, qh, k, kh, q_position, qh, r, rh) - lse[i, h]
                    d_s[e - begin, h] = dot(g, qh, v, kh)
            _exp(w)
            if threshold > 0:
                _drop(d_s, begin, keep_scale, threshold, seed)
            for h in range(n_heads):
                delta[h] = dot(g, i * n_heads + h, out, i * n_heads + h)
            for e in range(end - begin):
                for h in range(n_heads):
                    d_s[e, h] = w[e, h] * (d_s[e, h] - delta[h])
            if threshold > 0:
                _drop(w, begin, keep_scale, threshold, seed)
            content[:], position[:] = 0, 0
            for e in range(begin, end):
                for h in range(n_heads):
                    rh, d = relative[e] * n_heads + h, d_s[e - begin, h]
                    add(content, h, k, keys[e] * n_heads + h, d)
                    add(position, h, r, rh, d)
                    add(d_r[chunk], rh, q_position, i * n_heads + h, d)
            for h in range(n_heads):
                for a in range(d_head):
                    d_q[i * n_heads + h, a] = (content[h, a] + position[h, a]) * scale
                    d_biases[chunk, 0, h, a] += content[h, a]
                    d_biases[chunk, 1, h, a] += position[h, a]


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
def _backward_keys(factors, table, offsets, edges, queries, out, chunks):
    """Set the rows of every key to the sums over its edges of factors [E, H] times the rows of their queries."""
    n, n_heads = offsets.size - 1, factors.shape[1]
    for chunk in prange(chunks):
        for j in range(chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)):
            out[j * n_heads : (j + 1) * n_heads] = 0
            for x in range(offsets[j], offsets[j + 1]):
                for h in range(n_heads):
                    add(out, j * n_heads + h, table, queries[x] * n_heads + h, factors[edges[x], h])
