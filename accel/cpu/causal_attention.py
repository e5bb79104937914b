"""Exact attention over the memory and all positions up to the query's, as in a Transformer-XL, forward and gradient.

Mirrors `refimpl.attention.causal_attention`.
Parallel over (block of queries, head) forward and (group of sequences, head) backward. Memory: a transposed copy of the
inputs, so that the inner loops run over keys, and one block of scores a thread. No array has queries x keys numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_offsets, contiguous
from accel.cpu.support.kernels import exp, keep_threshold, kept, kernel, row_max, seed_of_dropout
from accel.cpu.support.rows import row_dot, row_sum
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Offsets = NDArray[np.int64]
QUERIES, KEYS = 32, 256
"""Queries and keys of a block of scores."""
GROUPS = 8
"""Largest number of groups of sequences; each group has its own gradient of r."""
MOST_KEYS = 2**20
"""A sequence has fewer keys: the number of a dropout element has 20 bits for a key."""


@contiguous
def causal_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    query_offsets: Offsets, key_offsets: Offsets, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float]:  # fmt: skip
    """Return the attention output [N, H, D] of every query over the keys up to its own, and lse [N, H].

    Spec: ATT-2, of a batch.

    Parameters
    ----------
    q : [N, H, D], k, v : [S, H, D], r : [P, H, D], content_bias, position_bias : [H, D], all float32 or all float64
        Queries, keys and values; r has one row for every distance 0..P-1; the biases u and w.
    query_offsets, key_offsets : [B+1] int64
        Sequence b has n_b queries and s_b >= n_b keys, the first s_b - n_b of them from the memory; s_b <= P.
    rate, seed
        Attention dropout: the weight of query row n and key j of its sequence in head h is multiplied by element
        (2^20 n + j) H + h of the keep mask.

    Raises
    ------
    ValueError
        Shapes, dtypes or offsets that do not fit; fewer keys than queries, more keys than distances, 2^20 keys or more.
    """
    threshold = _check(q, k, v, r, content_bias, position_bias, query_offsets, key_offsets, rate)
    scale = q.dtype.type(1 / math.sqrt(q.shape[2]))
    inputs = ((q + content_bias) * scale, (q + position_bias) * scale, *(_transposed(x) for x in (k, v, r[::-1])))
    n_blocks = -(-np.diff(query_offsets) // QUERIES)
    sequences = np.repeat(np.arange(len(n_blocks)), n_blocks)
    blocks = np.arange(len(sequences)) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    out, lse = np.zeros(q.shape, q.dtype), np.empty(q.shape[:2], q.dtype)
    dropout = (q.dtype.type(1 / (1 - rate)), threshold, seed_of_dropout(seed))
    _forward(*inputs, query_offsets, key_offsets, sequences, blocks, *dropout, out, lse)
    return out, lse


@contiguous
def causal_attention_vjp(
    d_out: Float, outputs: tuple[Float, Float],
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    query_offsets: Offsets, key_offsets: Offsets, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Float, Float, Float, Float, Float, Float]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias; the scores are computed again from lse."""
    threshold = _check(q, k, v, r, content_bias, position_bias, query_offsets, key_offsets, rate)
    check_floats(q=(q, "NHD"), d_out=(d_out, "NHD"))
    scale = q.dtype.type(1 / math.sqrt(q.shape[2]))
    inputs = ((q + content_bias) * scale, (q + position_bias) * scale, *(_transposed(x) for x in (k, v, r[::-1])))
    d_content, d_position = np.zeros(q.shape, q.dtype), np.zeros(q.shape, q.dtype)
    d_k, d_v = np.zeros_like(inputs[2]), np.zeros_like(inputs[3])
    d_r = np.zeros((max(1, min(len(query_offsets) - 1, GROUPS)), *inputs[4].shape), q.dtype)
    dropout = (q.dtype.type(1 / (1 - rate)), threshold, seed_of_dropout(seed))
    delta = (d_out * outputs[0]).sum(axis=2)
    _backward(
        *inputs, query_offsets, key_offsets, *dropout, d_out, outputs[1], delta, d_content, d_position, d_k, d_v, d_r
    )
    d_content, d_position = d_content * scale, d_position * scale
    d_k, d_v, d_r = (np.ascontiguousarray(x.transpose(2, 0, 1)) for x in (d_k, d_v, d_r.sum(axis=0)[:, :, ::-1]))
    return d_content + d_position, d_k, d_v, d_r, d_content.sum(axis=0), d_position.sum(axis=0)


def _check(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float,
    query_offsets: Offsets, key_offsets: Offsets, rate: float,
) -> np.uint64:  # fmt: skip
    biases = {"content_bias": (content_bias, "HD"), "position_bias": (position_bias, "HD")}
    sizes = check_floats(q=(q, "NHD"), k=(k, "SHD"), v=(v, "SHD"), r=(r, "PHD"), **biases)
    check_offsets("query_offsets", query_offsets, None, sizes["N"])
    check_offsets("key_offsets", key_offsets, len(query_offsets) - 1, sizes["S"])
    n_queries, n_keys = np.diff(query_offsets), np.diff(key_offsets)
    if (n_keys < n_queries).any():
        b = int(np.flatnonzero(n_keys < n_queries)[0])
        raise ValueError(f"key_offsets: sequence {b} has {n_keys[b]} keys for {n_queries[b]} queries")
    most = int(n_keys.max(initial=0))
    if most >= MOST_KEYS:
        raise ValueError(f"key_offsets: a sequence of {most} keys, but fewer than {MOST_KEYS} are possible")
    if most > sizes["P"]:
        raise ValueError(f"r: {sizes['P']} distances for a sequence of {most} keys")
    return keep_threshold(rate)


def _transposed(x: Float) -> Float:
    """Return [H, D, rows] of [rows, H, D]."""
    return np.ascontiguousarray(x.transpose(1, 2, 0))


@team_kernel()
def _forward(
    part, q_content, q_position, k, v, r, query_offsets, key_offsets, sequences, blocks,
    keep_scale, threshold, seed, out, lse,
):  # fmt: skip
    n_heads = out.shape[1]
    for task in share(part, len(sequences) * n_heads):
        b, h = sequences[task // n_heads], task % n_heads
        n, key = query_offsets[b + 1] - query_offsets[b], key_offsets[b]
        n_memory = key_offsets[b + 1] - key - n
        first = blocks[task // n_heads] * QUERIES
        last = min(n, first + QUERIES)
        scores, m = np.empty(KEYS, out.dtype), np.full(QUERIES, -np.inf, out.dtype)
        total = np.zeros(QUERIES, out.dtype)
        for j in range(0, n_memory + last, KEYS):
            for i in range(max(first, j - n_memory), last):
                row, x = query_offsets[b] + i, i - first
                s = scores[: min(KEYS, n_memory + i + 1 - j)]
                _scores(s, q_content[row, h], q_position[row, h], k[h], r[h], key + j, n_memory + i - j)
                before = m[x]
                m[x] = max(before, row_max(s))
                shrink = exp(before - m[x])
                for c in range(s.size):
                    s[c] = exp(s[c] - m[x])
                total[x] = total[x] * shrink + row_sum(s)
                if threshold > 0:
                    _drop(s, row, j, h, n_heads, keep_scale, threshold, seed)
                for d in range(out.shape[2]):
                    out[row, h, d] *= shrink
                _add_dots(out[row, h], v[h], key + j, s)
        for i in range(first, last):
            row = query_offsets[b] + i
            lse[row, h] = m[i - first] + np.log(total[i - first])
            for d in range(out.shape[2]):
                out[row, h, d] /= total[i - first]


@team_kernel()
def _backward(
    part, q_content, q_position, k, v, r, query_offsets, key_offsets, keep_scale, threshold, seed, g, lse, delta,
    d_content, d_position, d_k, d_v, d_r,
):  # fmt: skip
    n_heads, groups, n_sequences = g.shape[1], len(d_r), len(query_offsets) - 1
    for task in share(part, groups * n_heads):
        group, h = task // n_heads, task % n_heads
        scores, d_scores, weights = np.empty(KEYS, g.dtype), np.empty(KEYS, g.dtype), np.empty(KEYS, g.dtype)
        for b in range(group * n_sequences // groups, (group + 1) * n_sequences // groups):
            n, key = query_offsets[b + 1] - query_offsets[b], key_offsets[b]
            n_memory = key_offsets[b + 1] - key - n
            for j in range(0, n_memory + n, KEYS):
                for i in range(max(0, j - n_memory), n):
                    row, n_seen = query_offsets[b] + i, min(KEYS, n_memory + i + 1 - j)
                    s, d_s, w = scores[:n_seen], d_scores[:n_seen], weights[:n_seen]
                    distance = n_memory + i - j
                    reverse = r.shape[2] - 1 - distance
                    _scores(s, q_content[row, h], q_position[row, h], k[h], r[h], key + j, distance)
                    for c in range(n_seen):
                        s[c] = exp(s[c] - lse[row, h])
                        w[c] = s[c]
                        d_s[c] = 0
                    if threshold > 0:
                        _drop(w, row, j, h, n_heads, keep_scale, threshold, seed)
                    _add_products(d_s, g[row, h], v[h], key + j)
                    for c in range(n_seen):
                        d_s[c] = w[c] * d_s[c] - s[c] * delta[row, h]
                    _add_dots(d_content[row, h], k[h], key + j, d_s)
                    _add_dots(d_position[row, h], r[h], reverse, d_s)
                    _add_outer(d_k[h], key + j, q_content[row, h], d_s)
                    _add_outer(d_r[group, h], reverse, q_position[row, h], d_s)
                    _add_outer(d_v[h], key + j, g[row, h], w)


@kernel()
def _scores(s, q_content, q_position, k, r, key, distance):
    """Set s to the scores of the keys from column `key`, the first at `distance`; the columns of r are reversed."""
    for c in range(s.size):
        s[c] = 0
    _add_products(s, q_content, k, key)
    _add_products(s, q_position, r, r.shape[1] - 1 - distance)


@kernel()
def _add_products(s, factors, rows, first):
    """Add to s the sum over d of factors_d rows_d, from column `first`."""
    d_head = factors.size
    for d in range(0, d_head - 3, 4):
        a, b, x, y = rows[d, first:], rows[d + 1, first:], rows[d + 2, first:], rows[d + 3, first:]
        f_a, f_b, f_x, f_y = factors[d], factors[d + 1], factors[d + 2], factors[d + 3]
        for c in range(s.size):
            s[c] += f_a * a[c] + f_b * b[c] + f_x * x[c] + f_y * y[c]
    for d in range(d_head - d_head % 4, d_head):
        a, f_a = rows[d, first:], factors[d]
        for c in range(s.size):
            s[c] += f_a * a[c]


@kernel()
def _add_dots(out, rows, first, s):
    """Add to every out_d the inner product of s and rows_d, from column `first`."""
    for d in range(out.size):
        out[d] += row_dot(s, rows[d, first:])


@kernel()
def _add_outer(rows, first, factors, s):
    """Add factors_d s to every rows_d, from column `first`."""
    for d in range(factors.size):
        row, f = rows[d, first:], factors[d]
        for c in range(s.size):
            row[c] += f * s[c]


@kernel()
def _drop(w, query, first, head, n_heads, keep_scale, threshold, seed):
    """Multiply the weights of the keys from `first` by their elements of the keep mask."""
    for c in range(w.size):
        keep = kept(seed, (query * MOST_KEYS + first + c) * n_heads + head, threshold)
        w[c] *= keep_scale if keep else w.dtype.type(0)
