"""Sums and softmax over the edges of a query, for all heads: the kernels inside `accel.cpu.sparse_attention`.

Scores are tables [edges, H], of which a function takes the rows from `first`; vectors are tables with a row for every
head. The edges of a query are `begin` to `end - 1`. Functions take whole arrays, not views of parts of them: at ten
edges a view costs as much as a row.
"""

from __future__ import annotations

import math

import numpy as np

from accel.cpu.support.kernels import exp, kept, kernel
from accel.cpu.support.rows import add, add_four, combine, dot, dot_four, multiply, raise_to


@kernel()
def longest(row_offsets, first, last):
    """Return the largest number of edges of a query from `first` to `last - 1`."""
    most = 0
    for i in range(first, last):
        most = max(most, row_offsets[i + 1] - row_offsets[i])
    return most


@kernel()
def add_bias(q, i, biases, bias, out, first):
    """Set H rows of out, from `first`, to the heads of (query i + bias number `bias`) / sqrt(D)."""
    n_heads, scale = len(biases) // 2, q.dtype.type(1 / math.sqrt(q.shape[1]))
    for h in range(n_heads):
        combine(out, first + h, q, i * n_heads + h, scale, biases, bias * n_heads + h, scale)


@kernel()
def distinct_positions(relative, begin, end, places, distinct, slots):
    """Return the number of different relative positions; list them in `distinct`; set each edge's place in `slots`."""
    count = 0
    for e in range(begin, end):
        position = relative[e]
        place = places[position]
        if place >= count or distinct[place] != position:  # the place is one of an earlier query
            place, places[position], distinct[count] = count, count, position
            count += 1
        slots[e - begin] = place
    return count


@kernel()
def set_dots(a, row, table, rows, begin, end, out, first):
    """Set out, from row `first`, for every edge e and head h to the product of row + h of a and head h of rows[e]."""
    n_heads, fours = out.shape[1], end - (end - begin) % 4
    for e in range(begin, fours, 4):
        x, j0, j1, j2, j3 = (
            first + e - begin, rows[e] * n_heads, rows[e + 1] * n_heads, rows[e + 2] * n_heads, rows[e + 3] * n_heads,
        )  # fmt: skip
        for h in range(n_heads):
            out[x, h], out[x + 1, h], out[x + 2, h], out[x + 3, h] = dot_four(
                a, row + h, table, j0 + h, j1 + h, j2 + h, j3 + h
            )
    for e in range(fours, end):
        for h in range(n_heads):
            out[first + e - begin, h] = dot(a, row + h, table, rows[e] * n_heads + h)


@kernel()
def add_scores(scores, first, slots, position, count):
    """Add to `count` rows of scores the scores of their relative positions."""
    one = scores.dtype.type(1)
    for x in range(count):
        add(scores, first + x, position, slots[x], one)


@kernel()
def edge_softmax(w, count, lse, i, most, total):
    """Turn `count` rows of scores w into their softmax over rows; set row i of lse. most, total [1, H] are scratch."""
    n_heads, zero, one = lse.shape[1], np.int64(0), w.dtype.type(1)
    for h in range(n_heads):
        most[0, h], total[0, h] = -np.inf, 0
    for x in range(count):
        raise_to(most, zero, w, x)
    for x in range(count):
        add(w, x, most, zero, -one)
    exp_rows(w, zero, count)
    for x in range(count):
        add(total, zero, w, x, one)
    for h in range(n_heads):
        lse[i, h] = most[0, h] + np.log(total[0, h]) if count else -np.inf
        total[0, h] = one / total[0, h]
    for x in range(count):
        multiply(w, x, total, zero)


@kernel()
def exp_rows(w, first, count):
    """Replace the elements of `count` rows by their exponentials."""
    rows = w.reshape(w.size)[first * w.shape[1] : (first + count) * w.shape[1]]  # LLVM vectorises loops from 0
    for x in range(rows.size):
        rows[x] = exp(rows[x])


@kernel()
def drop_rows(w, first, begin, count, keep_scale, threshold, seed):
    """Multiply `count` rows from `first`, those of the edges from `begin`, by their elements of the keep mask."""
    n_heads, zero = w.shape[1], w.dtype.type(0)
    rows = w.reshape(w.size)[first * n_heads : (first + count) * n_heads]
    for x in range(rows.size):
        rows[x] *= keep_scale if kept(seed, begin * n_heads + x, threshold) else zero


@kernel()
def edge_softmax_vjp(w, lse, i, d_s, g, out, delta, begin, end, keep_scale, threshold, seed):
    """Turn the scores w of query i into weights, gradients d_s of weights into those of scores; delta is scratch."""
    n_heads, count, zero, one = lse.shape[1], end - begin, np.int64(0), w.dtype.type(1)
    for e in range(begin, end):
        add(w, e, lse, i, -one)
    exp_rows(w, begin, count)
    if threshold > 0:
        drop_rows(d_s, begin, begin, count, keep_scale, threshold, seed)
    for h in range(n_heads):
        delta[0, h] = dot(g, i * n_heads + h, out, i * n_heads + h)
    for e in range(begin, end):
        add(d_s, e, delta, zero, -one)
        multiply(d_s, e, w, e)
    if threshold > 0:
        drop_rows(w, begin, begin, count, keep_scale, threshold, seed)


@kernel()
def sum_edges(factors, shift, table, edges, rows, begin, end, out, i):
    """Set row i of out, for all heads, to the sum over x from `begin` to `end - 1` of factors times rows of the table.

    Term x has row edges[x] - shift of the factors and row rows[x] of the table.
    """
    n_heads, fours = factors.shape[1], end - (end - begin) % 4
    for h in range(n_heads):
        for a in range(out.shape[1]):
            out[i * n_heads + h, a] = 0
    for x in range(begin, fours, 4):
        e0, e1, e2, e3 = edges[x] - shift, edges[x + 1] - shift, edges[x + 2] - shift, edges[x + 3] - shift
        j0, j1, j2, j3 = rows[x] * n_heads, rows[x + 1] * n_heads, rows[x + 2] * n_heads, rows[x + 3] * n_heads
        for h in range(n_heads):
            f0, f1, f2, f3 = factors[e0, h], factors[e1, h], factors[e2, h], factors[e3, h]
            add_four(out, i * n_heads + h, table, j0 + h, j1 + h, j2 + h, j3 + h, f0, f1, f2, f3)
    for x in range(fours, end):
        for h in range(n_heads):
            add(out, i * n_heads + h, table, rows[x] * n_heads + h, factors[edges[x] - shift, h])
