"""Attention over given lists of keys, forward and gradient.

Mirrors `refimpl.attention.sparse_attention`.
Parallel over chunks of queries, and for the gradients of keys and values over chunks of keys, each of which adds its
edges in order. The keys of a query are read without a copy, and its product with a relative position is computed once
for all its edges. Memory of the gradient is one copy of the queries, 2 H floats an edge, and 16 partial gradients of r.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_indices, check_offsets, contiguous
from accel.cpu.support.edges import (
    add_bias,
    add_scores,
    distinct_positions,
    drop_rows,
    edge_softmax,
    edge_softmax_vjp,
    longest,
    set_dots,
    sum_edges,
)
from accel.cpu.support.kernels import chunk_begin, keep_threshold, kernel, n_chunks, seed_of_dropout
from accel.cpu.support.rows import add, combine
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]

MOST_SUMS = 16
"""Largest number of partial gradients of r."""


@contiguous
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
        Query i has the edges `row_offsets[i]` to `row_offsets[i+1]`. Edge e goes to row `keys[e]` of k and v, with row
        `relative[e]` of r.
    rate, seed
        Attention dropout: the weight of edge e in head h is multiplied by element e H + h of the keep mask.

    Returns
    -------
    out [N, H, D], lse [N, H]
        A query without keys has output 0 and lse -inf.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, offsets that decrease, an edge to a row that does not exist.
    """
    dropout = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate, seed)
    out, lse = np.empty(q.shape, q.dtype), np.empty(q.shape[:2], q.dtype)
    tables = (_table(q), _table(k), _table(v), _table(r), _biases(content_bias, position_bias))
    _attend(*tables, row_offsets, keys, relative, np.arange(keys.size), *dropout, _table(out), lse, n_chunks(len(q)))
    return out, lse


@contiguous
def sparse_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    row_offsets: Offsets, keys: Index, relative: Index, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias; the scores are computed again from lse."""
    dropout = _check(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, rate, seed)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    g, biases = _table(d_out), _biases(content_bias, position_bias)
    chunks = n_chunks(len(q), most=MOST_SUMS)
    weights, d_scores = np.empty((2, keys.size, q.shape[1]), q.dtype)
    d_q, d_k, d_v, queries = (np.empty(x.shape, q.dtype) for x in (q, k, v, q))
    d_r, d_biases = np.zeros((chunks, *r.shape), q.dtype), np.zeros((chunks, *biases.shape), q.dtype)
    _by_query(
        _table(q), _table(k), _table(v), _table(r), biases, row_offsets, keys, relative, np.arange(keys.size), *dropout,
        _table(outputs[0]), outputs[1], g, weights, d_scores, _table(queries), _table(d_q),
        d_r.reshape(chunks, -1, q.shape[2]), d_biases,
    )  # fmt: skip
    _by_key(
        d_scores, _table(queries), weights, g, *_edges_by_key(row_offsets, keys, len(k)), _table(d_k), _table(d_v),
        n_chunks(len(k)),
    )  # fmt: skip
    return d_q, d_k, d_v, d_r.sum(axis=0), *np.split(d_biases.sum(axis=0), 2)


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
    return q.dtype.type(1 / (1 - rate)), threshold, seed_of_dropout(seed)


def _biases(content: Float, position: Float) -> Float:
    """Return the biases one after the other [2 H, D], C-contiguous even if both are in Fortran order."""
    return np.ascontiguousarray(np.concatenate((content, position)))


def _table(x: Float) -> Float:
    """Return [N H, D] of [N, H, D], without a copy."""
    return x.reshape(-1, x.shape[2])


@team_kernel()
def _attend(
    part, q, k, v, r, biases, row_offsets, keys, relative, numbers, keep_scale, threshold, seed, out, lse, chunks
):
    """Set out and lse: for every query the scores of its keys, their softmax, and the weighted sum of the values."""
    (n, n_heads), zero = lse.shape, np.int64(0)
    for chunk in share(part, chunks):
        first, last = chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)
        size = longest(row_offsets, first, last)
        biased, places = np.empty((2 * n_heads, q.shape[1]), q.dtype), np.zeros(len(r), np.int32)
        w, position = np.empty((size, n_heads), q.dtype), np.empty((size, n_heads), q.dtype)
        distinct, slots = np.empty(size, np.int32), np.empty(size, np.int32)
        most, total = np.empty((1, n_heads), q.dtype), np.empty((1, n_heads), q.dtype)
        for i in range(first, last):
            begin, end = row_offsets[i], row_offsets[i + 1]
            add_bias(q, i, biases, 0, biased, zero)
            add_bias(q, i, biases, 1, biased, n_heads)
            set_dots(biased, zero, k, keys, begin, end, w, zero)
            count = distinct_positions(relative, begin, end, places, distinct, slots)
            set_dots(biased, n_heads, r, distinct, zero, count, position, zero)
            add_scores(w, zero, slots, position, end - begin)
            edge_softmax(w, end - begin, lse, i, most, total)
            if threshold > 0:
                drop_rows(w, zero, begin, end - begin, keep_scale, threshold, seed)
            sum_edges(w, begin, v, numbers, keys, begin, end, out, i)


@team_kernel()
def _by_query(
    part, q, k, v, r, biases, row_offsets, keys, relative, numbers, keep_scale, threshold, seed,
    out, lse, g, weights, d_scores, queries, d_q, d_r, d_biases,
):  # fmt: skip
    """Set the weights and gradients of scores [E, H], the scaled queries with the content bias, and d_q.

    d_scores is p (keep d_w - delta), with p the softmax, keep dropout's factors and d_w the gradients of the weights.
    Every chunk has sums d_r and d_biases of its own.
    """
    n, n_heads, chunks, d_head = len(lse), lse.shape[1], len(d_r), q.shape[1]
    scale, zero = q.dtype.type(1 / math.sqrt(d_head)), np.int64(0)
    for chunk in share(part, chunks):
        first, last = chunk_begin(chunk, chunks, n), chunk_begin(chunk + 1, chunks, n)
        size, own_d_r, own_d_biases = longest(row_offsets, first, last), d_r[chunk], d_biases[chunk]
        biased, places = np.empty((n_heads, d_head), q.dtype), np.zeros(len(r), np.int32)
        position, d_position = np.empty((size, n_heads), q.dtype), np.empty((size, n_heads), q.dtype)
        distinct, slots = np.empty(size, np.int32), np.empty(size, np.int32)
        d_own, delta = np.empty((n_heads, d_head), q.dtype), np.empty((1, n_heads), q.dtype)
        for i in range(first, last):
            begin, end = row_offsets[i], row_offsets[i + 1]
            add_bias(q, i, biases, 0, queries, i * n_heads)
            add_bias(q, i, biases, 1, biased, zero)
            set_dots(queries, i * n_heads, k, keys, begin, end, weights, begin)
            count = distinct_positions(relative, begin, end, places, distinct, slots)
            set_dots(biased, zero, r, distinct, zero, count, position, zero)
            add_scores(weights, begin, slots, position, end - begin)
            set_dots(g, i * n_heads, v, keys, begin, end, d_scores, begin)
            edge_softmax_vjp(weights, lse, i, d_scores, g, out, delta, begin, end, keep_scale, threshold, seed)
            sum_edges(d_scores, zero, k, numbers, keys, begin, end, d_q, i)
            _sum_positions(d_scores, begin, end, slots, count, d_position)
            sum_edges(d_position, zero, r, numbers, distinct, zero, count, d_own, zero)
            for x in range(count):
                for h in range(n_heads):
                    add(own_d_r, distinct[x] * n_heads + h, biased, h, d_position[x, h])
            for h in range(n_heads):
                row = i * n_heads + h
                add(own_d_biases, h, d_q, row, scale)
                add(own_d_biases, n_heads + h, d_own, h, scale)
                combine(d_q, row, d_q, row, scale, d_own, h, scale)


@kernel()
def _sum_positions(d_scores, begin, end, slots, count, d_position):
    """Set the first `count` rows of d_position to the gradients of the scores of a query's distinct positions."""
    one = d_scores.dtype.type(1)
    for x in range(count):
        for h in range(d_position.shape[1]):
            d_position[x, h] = 0
    for e in range(begin, end):
        add(d_position, slots[e - begin], d_scores, e, one)


@kernel()
def _edges_by_key(row_offsets, keys, n_keys):
    """Return the transposed lists: their offsets, for every key the edges to it in order, and the queries of these."""
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
def _by_key(part, d_scores, queries, weights, g, offsets, edges, rows, d_k, d_v, chunks):
    """Set d_k and d_v: for every key the sums over its edges.

    Chunks have equal shares of the edges, not of the keys: all positions of a long tree attend to its start symbol.
    """
    zero = np.int64(0)
    for chunk in share(part, chunks):
        first, last = _row_of_share(offsets, chunk, chunks), _row_of_share(offsets, chunk + 1, chunks)
        for i in range(first, last):
            sum_edges(d_scores, zero, queries, edges, rows, offsets[i], offsets[i + 1], d_k, i)
        for i in range(first, last):
            sum_edges(weights, zero, g, edges, rows, offsets[i], offsets[i + 1], d_v, i)


@kernel()
def _row_of_share(offsets, chunk, chunks):
    """Return the first row of a chunk, the chunks having about equal numbers of edges."""
    if chunk == 0 or chunk == chunks:
        return (offsets.size - 1) * (chunk // chunks)
    return np.searchsorted(offsets[:-1], chunk_begin(chunk, chunks, offsets[-1]))
