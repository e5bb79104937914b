"""Attention over given lists of keys, forward and gradient.

Mirrors `refimpl.attention.sparse_attention`.
Parallel over chunks of queries, or (gradients of keys and values) of keys, each of which adds its edges in order; each
pass gathers rows of one table only, so that they stay in the cache. Memory is two copies of the queries, 2 H floats an
edge, and 16 partial gradients of r.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_indices, check_offsets
from accel.cpu.support.kernels import chunk_begin, exp, keep_threshold, kept, kernel, n_chunks
from accel.cpu.support.rows import add, add_four, dot, dot_dot, dot_four
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]

MOST_SUMS = 16
"""Partial gradients of r."""


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
    tables = _tables(q, k, r, content_bias, position_bias)
    chunks = n_chunks(len(q))
    out, lse, weights = (np.empty(shape, q.dtype) for shape in (q.shape, q.shape[:2], (keys.size, q.shape[1])))
    _scores(*tables, row_offsets, keys, relative, weights, chunks)
    _softmax(row_offsets, *dropout, weights, lse, chunks)
    _add_rows(weights, _table(v), row_offsets, np.arange(keys.size), keys, _table(out), chunks)
    return out, lse


def sparse_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias; the scores are computed again from lse."""
    dropout = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate, seed)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    tables = _tables(q, k, r, content_bias, position_bias)
    g, scale, chunks = _table(d_out), q.dtype.type(1 / math.sqrt(q.shape[2])), n_chunks(len(q))
    d_scores, weights = np.empty((2, keys.size, q.shape[1]), q.dtype)
    _scores(*tables, row_offsets, keys, relative, weights, chunks)
    _score_gradients(
        _table(v), g, _table(outputs[0]), outputs[1], row_offsets, keys, *dropout, weights, d_scores, chunks
    )
    d_q, d_k, d_v = (np.empty(x.shape, q.dtype) for x in (q, k, v))
    _add_rows(d_scores, tables[2], row_offsets, np.arange(keys.size), keys, _table(d_q), chunks)
    chunks = n_chunks(len(q), most=MOST_SUMS)
    d_r, d_biases = np.zeros((chunks, *r.shape), q.dtype), np.zeros((chunks, 2, *q.shape[1:]), q.dtype)
    _add_position(
        d_scores, tables[1], tables[3], row_offsets, relative, scale,
        _table(d_q), d_r.reshape(chunks, -1, q.shape[2]), d_biases,
    )  # fmt: skip
    by_key, chunks = _edges_by_key(row_offsets, keys, len(k)), n_chunks(len(k))
    _add_rows(d_scores, tables[0], *by_key, _table(d_k), chunks)
    _add_rows(weights, g, *by_key, _table(d_v), chunks)
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


def _tables(q: Float, k: Float, r: Float, content_bias: Float, position_bias: Float) -> tuple[Float, ...]:
    """Return (q + u) / sqrt(D), (q + w) / sqrt(D), k and r, each with one row a head."""
    queries = np.empty((2, q.shape[0] * q.shape[1], q.shape[2]), q.dtype)
    biases = np.stack((content_bias, position_bias))
    _add_biases(_table(q), biases, q.dtype.type(1 / math.sqrt(q.shape[2])), *queries, n_chunks(len(q)))
    return *queries, _table(k), _table(r)


@team_kernel()
def _add_biases(part, q, biases, scale, q_content, q_position, chunks):
    n_heads = biases.shape[1]
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, len(q)), chunk_begin(chunk + 1, chunks, len(q))):
            for a in range(q.shape[1]):
                q_content[i, a] = (q[i, a] + biases[0, i % n_heads, a]) * scale
                q_position[i, a] = (q[i, a] + biases[1, i % n_heads, a]) * scale


def _table(x: Float) -> Float:
    """Return [N H, D] of [N, H, D], without a copy where possible."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[2])


@team_kernel()
def _scores(part, q_content, q_position, k, r, row_offsets, keys, relative, scores, chunks):
    """Set scores [E, H]."""
    n, n_heads = row_offsets.size - 1, scores.shape[1]
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)):
            for e in range(row_offsets[i], row_offsets[i + 1]):
                for h in range(n_heads):
                    key, position = keys[e] * n_heads + h, relative[e] * n_heads + h
                    scores[e, h] = dot_dot(q_content, q_position, i * n_heads + h, k, key, r, position)


@team_kernel()
def _softmax(part, row_offsets, keep_scale, threshold, seed, weights, lse, chunks):
    """Turn scores [E, H] into their softmax over the edges of each query, with dropout, and set lse [N, H]."""
    n, n_heads = lse.shape
    for chunk in share(part, chunks):
        m, total = np.empty(n_heads, lse.dtype), np.empty(n_heads, lse.dtype)
        for i in range(chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)):
            w = weights[row_offsets[i] : row_offsets[i + 1]]
            m[:], total[:] = -np.inf, 0
            for e in range(len(w)):
                for h in range(n_heads):
                    m[h] = max(m[h], w[e, h])
            for e in range(len(w)):
                for h in range(n_heads):
                    w[e, h] -= m[h]
            _exp(w)
            for e in range(len(w)):
                for h in range(n_heads):
                    total[h] += w[e, h]
            for h in range(n_heads):
                lse[i, h] = m[h] + np.log(total[h]) if len(w) else -np.inf
            for e in range(len(w)):
                for h in range(n_heads):
                    w[e, h] /= total[h]
            if threshold > 0:
                _drop(w, row_offsets[i], keep_scale, threshold, seed)


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


@team_kernel()
def _score_gradients(
    part, v, g, out, lse, row_offsets, keys, keep_scale, threshold, seed, weights, d_scores, chunks
):  # fmt: skip
    """Set d_scores [E, H], with dropout p (keep d_w - delta), and turn scores [E, H] into weights."""
    n, n_heads = lse.shape
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)):
            begin, end = row_offsets[i], row_offsets[i + 1]
            w, d_s = weights[begin:end], d_scores[begin:end]
            fours = end - (end - begin) % 4
            for e in range(begin, fours, 4):
                for h in range(n_heads):
                    x, key0, key1 = e - begin, keys[e] * n_heads + h, keys[e + 1] * n_heads + h
                    key2, key3 = keys[e + 2] * n_heads + h, keys[e + 3] * n_heads + h
                    d_s[x, h], d_s[x + 1, h], d_s[x + 2, h], d_s[x + 3, h] = dot_four(
                        g, i * n_heads + h, v, key0, key1, key2, key3
                    )
            for e in range(fours, end):
                for h in range(n_heads):
                    d_s[e - begin, h] = dot(g, i * n_heads + h, v, keys[e] * n_heads + h)
            for x in range(len(w)):
                for h in range(n_heads):
                    w[x, h] -= lse[i, h]
            _exp(w)
            if threshold > 0:
                _drop(d_s, begin, keep_scale, threshold, seed)
            for h in range(n_heads):
                delta = dot(g, i * n_heads + h, out, i * n_heads + h)
                for e in range(end - begin):
                    d_s[e, h] = w[e, h] * (d_s[e, h] - delta)
            if threshold > 0:
                _drop(w, begin, keep_scale, threshold, seed)


@team_kernel()
def _add_position(part, d_scores, q_position, r, row_offsets, relative, scale, d_q, d_r, d_biases):
    """Set d_r, the gradients of the biases, and d_q, given the part of d_q that comes from the keys."""
    n, n_heads, chunks, d_head = row_offsets.size - 1, d_scores.shape[1], len(d_r), r.shape[1]
    for chunk in share(part, chunks):
        position, own_d_r = np.empty((n_heads, d_head), r.dtype), d_r[chunk]
        for i in range(chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)):
            begin, end = row_offsets[i], row_offsets[i + 1]
            _add_row(d_scores, r, np.arange(begin, end), relative[begin:end], position, np.int64(0))
            for e in range(begin, end):
                for h in range(n_heads):
                    add(own_d_r, relative[e] * n_heads + h, q_position, i * n_heads + h, d_scores[e, h])
            for h in range(n_heads):
                content = d_q[i * n_heads + h]
                for a in range(d_head):
                    d_biases[chunk, 0, h, a] += content[a]
                    d_biases[chunk, 1, h, a] += position[h, a]
                    content[a] = (content[a] + position[h, a]) * scale


@kernel()
def _edges_by_key(row_offsets, keys, n_keys):
    """Return the transposed lists: for every key the edges to it in order, and their queries."""
    offsets = np.zeros(n_keys + 1, np.int64)
    for e in range(keys.size):
        offsets[keys[e] + 1] += 1
    for j in range(n_keys):
        offsets[j + 1] += offsets[j]
    place = offsets[:-1].copy()
    edges, queries = np.empty(keys.size, np.int64), np.empty(keys.size, np.int32)
    for i in range(row_offsets.size - 1):
        for e in range(row_offsets[i], row_offsets[i + 1]):
            edges[place[keys[e]]], queries[place[keys[e]]] = e, i
            place[keys[e]] += 1
    return offsets, edges, queries


@team_kernel()
def _add_rows(part, factors, table, offsets, edges, rows, out, chunks):
    """Set every row of out to the sum over its edges of factors [E, H] times rows of the table.

    A chunk is a share of the edges, not of the rows: all positions of a long tree attend to its start symbol.
    """
    for chunk in share(part, chunks):
        for i in range(_row_of_share(offsets, chunk, chunks), _row_of_share(offsets, chunk + 1, chunks)):
            _add_row(factors, table, edges[offsets[i] : offsets[i + 1]], rows[offsets[i] : offsets[i + 1]], out, i)


@kernel()
def _row_of_share(offsets, chunk, chunks):
    """Return the first row of a chunk, the chunks having about equal numbers of edges."""
    if chunk == 0 or chunk == chunks:
        return (offsets.size - 1) * (chunk // chunks)
    return np.searchsorted(offsets[:-1], chunk_begin(chunk, chunks, offsets[-1]))


@kernel()
def _add_row(factors, table, edges, rows, out, i):
    """Set row i of out, all its heads, to the sum over these edges of factors times these rows of the table."""
    n_heads, fours = factors.shape[1], edges.size - edges.size % 4
    out[i * n_heads : (i + 1) * n_heads] = 0
    for x in range(0, fours, 4):
        e0, e1, e2, e3 = edges[x], edges[x + 1], edges[x + 2], edges[x + 3]
        j0, j1, j2, j3 = rows[x] * n_heads, rows[x + 1] * n_heads, rows[x + 2] * n_heads, rows[x + 3] * n_heads
        for h in range(n_heads):
            f0, f1, f2, f3 = factors[e0, h], factors[e1, h], factors[e2, h], factors[e3, h]
            add_four(out, i * n_heads + h, table, j0 + h, j1 + h, j2 + h, j3 + h, f0, f1, f2, f3)
    for x in range(fours, edges.size):
        for h in range(n_heads):
            add(out, i * n_heads + h, table, rows[x] * n_heads + h, factors[edges[x], h])
