"""Attention with relative positions (section 2.2): over given sets of keys, and over everything before."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from refimpl.layers import Float, Int

Rows = Sequence[Sequence[int]] | Sequence[Int]  # a list of row numbers for every query


def sparse_attention(
    q: Float,
    k: Float,
    v: Float,
    r: Float,
    content_bias: Float,
    position_bias: Float,
    keys: Rows,
    relative: Rows,
    keep: Sequence[Float] | None = None,
) -> tuple[Float, Float]:
    r"""Return, for every query and head, the average of the values of its keys, weighted by the attention scores.

    Spec: ATT-1.  $s_{ij} = ((q_i + u)^\top k_j + (q_i + w)^\top r_{ij}) / \sqrt{D}$,
    $o_i = \sum_j \operatorname{softmax}_j(s_{ij})\, v_j$   (Transformer Grammars, section 2.2)

    Parameters
    ----------
    q : [T, H, D] float
        Queries of every head.
    k, v : [S, H, D] float
        Keys and values.
    r : [P, H, D] float
        One row for every relative position that occurs.
    content_bias, position_bias : [H, D] float
        u and w (the paper's v), learned stand-ins for the query.
    keys : list of T lists of int
        Rows of `k` that query i may attend to, each once.
    relative : list of T lists of int
        For each of them the row of `r`.
    keep : None or list of T arrays [number of keys, H]
        Multipliers of the weights after the softmax (attention dropout, see `refimpl.layers.keep_mask`).

    Returns
    -------
    out : [T, H, D] float, dtype of `q`
        Without `keep` a convex combination of the allowed values; 0 where there is no key.
    lse : [T, H] float, dtype of `q`
        $\log \sum_j e^{s_{ij}}$; -inf where there is no key.

    Raises
    ------
    ValueError
        If shapes or dtypes do not fit, or a row number lies outside `k` or `r`.

    Examples
    --------
    One head of size 1, all scores equal: the mean of the allowed values 1 and 3, and log 2.

    >>> zero, bias = np.zeros((1, 1, 1)), np.zeros((1, 1))
    >>> values = np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    >>> out, lse = sparse_attention(zero, 0 * values, values, zero, bias, bias, [[0, 2]], [[0, 0]])
    >>> out.item(), np.exp(lse).round(12).item()
    (2.0, 2.0)
    """
    _check_arrays(q, k, v, r, content_bias, position_bias)
    _check_rows(q, k, r, keys, relative, keep)
    n_queries, n_heads, d_head = q.shape
    out = np.zeros_like(q)
    lse = np.full((n_queries, n_heads), -np.inf, dtype=q.dtype)
    for i in range(n_queries):
        if len(keys[i]) == 0:
            continue
        for h in range(n_heads):
            content = k[keys[i], h] @ (q[i, h] + content_bias[h])  # [number of keys]
            position = r[relative[i], h] @ (q[i, h] + position_bias[h])
            scores = (content + position) / math.sqrt(d_head)
            exponentials = np.exp(scores - scores.max())
            weights = exponentials / exponentials.sum()
            if keep is not None:
                weights = weights * keep[i][:, h]
            out[i, h] = weights @ v[keys[i], h]
            lse[i, h] = scores.max() + np.log(exponentials.sum())
    return out, lse


def causal_attention(
    q: Float,
    k: Float,
    v: Float,
    r: Float,
    content_bias: Float,
    position_bias: Float,
    keep: Float | None = None,
) -> tuple[Float, Float]:
    r"""Return the attention of every query over the memory and all positions up to its own, as in a Transformer-XL.

    Spec: ATT-2.  Query i sees the keys $j \le S - T + i$; $r_{ij}$ is the row of `r` for the distance $S - T + i - j$.

    Parameters
    ----------
    q : [T, H, D] float
        Queries of every head.
    k, v : [S, H, D] float
        Keys and values, S >= T: the first S - T are the memory, the others belong to the queries.
    r : [P, H, D] float
        One row for every distance 0..P-1, P >= S.
    content_bias, position_bias : [H, D] float
        u and w (the paper's v), learned stand-ins for the query.
    keep : None or [T, S, H] float
        Multipliers of the weights after the softmax; those of keys that are not attended to are not read.

    Returns
    -------
    out : [T, H, D] float, dtype of `q`
        `sparse_attention` with the causal sets.
    lse : [T, H] float, dtype of `q`
        $\log \sum_j e^{s_{ij}}$; always finite.

    Raises
    ------
    ValueError
        If S < T, P < S, or shapes or dtypes do not fit.

    Examples
    --------
    Equal scores, no memory: running means of the values.

    >>> zero, bias = np.zeros((3, 1, 1)), np.zeros((1, 1))
    >>> out, lse = causal_attention(zero, zero, np.array([1.0, 3.0, 8.0]).reshape(3, 1, 1), zero, bias, bias)
    >>> out.ravel().round(12).tolist()
    [1.0, 2.0, 4.0]
    """
    _check_arrays(q, k, v, r, content_bias, position_bias)
    n_queries, n_keys = len(q), len(k)
    n_memory = n_keys - n_queries
    if n_memory < 0:
        raise ValueError(f"k: {n_keys} keys are fewer than {n_queries} queries")
    if len(r) < n_keys:
        raise ValueError(f"r: {len(r)} distances are fewer than {n_keys} keys")
    if keep is not None and keep.shape != (n_queries, n_keys, q.shape[1]):
        raise ValueError(f"keep: shape {keep.shape} is not {(n_queries, n_keys, q.shape[1])}")
    keys = [list(range(n_memory + i + 1)) for i in range(n_queries)]
    distances = [[n_memory + i - j for j in keys[i]] for i in range(n_queries)]
    kept = None if keep is None else [keep[i, : len(keys[i])] for i in range(n_queries)]
    return sparse_attention(q, k, v, r, content_bias, position_bias, keys, distances, kept)


def _check_arrays(q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float) -> None:
    """Refuse shapes and dtypes that do not fit those of q."""
    if q.ndim != 3 or q.shape[2] == 0:
        raise ValueError(f"q: shape {q.shape} is not [T, H, D]")
    for name, array in (("k", k), ("v", v), ("r", r)):
        if array.ndim != 3 or array.shape[1:] != q.shape[1:]:
            raise ValueError(f"{name}: shape {array.shape} does not end in {q.shape[1:]} as q does")
    if len(v) != len(k):
        raise ValueError(f"v: {len(v)} values for {len(k)} keys")
    for name, array in (("content_bias", content_bias), ("position_bias", position_bias)):
        if array.shape != q.shape[1:]:
            raise ValueError(f"{name}: shape {array.shape} is not {q.shape[1:]}")
    for name, array in (("k", k), ("v", v), ("r", r), ("content_bias", content_bias), ("position_bias", position_bias)):
        if array.dtype != q.dtype:
            raise ValueError(f"{name}: dtype {array.dtype} is not {q.dtype} as that of q")


def _check_rows(q: Float, k: Float, r: Float, keys: Rows, relative: Rows, keep: Sequence[Float] | None) -> None:
    """Refuse lists of the wrong length and row numbers that do not exist."""
    if len(keys) != len(q) or len(relative) != len(q):
        raise ValueError(f"keys, relative: {len(keys)} and {len(relative)} lists for {len(q)} queries")
    if keep is not None and len(keep) != len(q):
        raise ValueError(f"keep: {len(keep)} arrays for {len(q)} queries")
    for i in range(len(q)):
        if len(relative[i]) != len(keys[i]):
            raise ValueError(f"relative: query {i} has {len(relative[i])} entries for {len(keys[i])} keys")
        if keep is not None and keep[i].shape != (len(keys[i]), q.shape[1]):
            raise ValueError(f"keep: query {i}: shape {keep[i].shape} is not {(len(keys[i]), q.shape[1])}")
        for name, rows, length in (("keys", keys[i], len(k)), ("relative", relative[i], len(r))):
            for row in rows:
                if not 0 <= row < length:
                    raise ValueError(f"{name}: query {i}: row {row} is outside 0..{length - 1}")
