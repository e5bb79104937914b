"""Attention over given keys or all keys up to a query, with relative positions; without them also over all keys."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from refimpl.checks import Float, Int, Parameters, check_heads, check_shape, check_shapes
from refimpl.layers import linear

Attended = tuple[Float, Float]  # out and lse
Rows = Sequence[Sequence[int]] | Sequence[Int]  # a list of row numbers for every query


def sparse_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float, keys: Rows, relative: Rows,
    keep: Sequence[Float] | None = None,
) -> Attended:  # fmt: skip
    r"""Return, for every query and head, the average of the values of its keys, weighted by the attention scores.

    Spec: ATT-1.  $s_{ij} = ((q_i + u)^\top k_j + (q_i + w)^\top r_{\rho_{ij}}) / \sqrt{D}$,
    $o_i = \sum_j \operatorname{softmax}_j(s_{ij})\, v_j$   (Transformer Grammars, section 2.2)

    q : [T, H, D] float; k, v : [S, H, D] float
    r : [P, H, D] float, a row for every relative position; content_bias, position_bias : [H, D] float, u and w
    keys, relative : T lists of int: the rows of `k` that query i may attend to, each once; the row of `r` for each
    keep : None or T arrays [number of keys, H], multipliers of the weights after the softmax
    -> out : [T, H, D] float, 0 where there is no key; lse : [T, H] float, nats, -inf where there is no key
    Raises ValueError if shapes or dtypes do not fit, or a row number lies outside `k` or `r`.

    One head of size 1, all scores equal: the mean of the allowed values 1 and 3, and log 2.
    >>> zero, bias = np.zeros((1, 1, 1)), np.zeros((1, 1))
    >>> values = np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    >>> out, lse = sparse_attention(zero, 0 * values, values, zero, bias, bias, [[0, 2]], [[0, 0]])
    >>> out.item(), np.exp(lse).round(12).item()
    (2.0, 2.0)
    """
    check_shapes(q=(q, "nhd"), k=(k, "mhd"), v=(v, "mhd"), r=(r, "rhd"), like=q)
    check_shapes(q=(q, "nhd"), content_bias=(content_bias, "hd"), position_bias=(position_bias, "hd"), like=q)
    n_queries, n_heads, d_head = q.shape
    _check_rows("keys", keys, n_queries, len(k))
    _check_rows("relative", relative, n_queries, len(r))
    out, lse = np.zeros_like(q), np.full((n_queries, n_heads), -np.inf, dtype=q.dtype)
    for i, multipliers in zip(range(n_queries), [None] * n_queries if keep is None else keep, strict=True):
        if len(relative[i]) != len(keys[i]):
            raise ValueError(f"relative: query {i} has {len(relative[i])} rows for {len(keys[i])} keys")
        if multipliers is not None:
            check_shape(f"keep: query {i}", multipliers, len(keys[i]), n_heads)
        if len(keys[i]) == 0:
            continue
        for h in range(n_heads):
            content = k[keys[i], h] @ (q[i, h] + content_bias[h])  # [number of keys]
            position = r[relative[i], h] @ (q[i, h] + position_bias[h])
            scores = (content + position) / math.sqrt(d_head)
            exponentials = np.exp(scores - scores.max())
            weights = exponentials / exponentials.sum()
            if multipliers is not None:
                weights = weights * multipliers[:, h]
            out[i, h] = weights @ v[keys[i], h]
            lse[i, h] = scores.max() + np.log(exponentials.sum())
    return out, lse


def causal_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float, keep: Float | None = None
) -> Attended:
    r"""Return the attention of every query over the memory and all positions up to itself, as in a Transformer-XL.

    Spec: ATT-2.  $\mathcal A_i = \{0, \dots, S - T + i\}$, $\rho_{ij} = S - T + i - j$   (Dai et al. 2019, section 3.3)

    q, k, v, content_bias, position_bias : as `sparse_attention`; the first S - T keys are the memory, S >= T
    r : [P, H, D] float, a row for every distance 0..P-1, P >= S
    keep : None or [T, S, H] float, multipliers of the weights after the softmax
    -> out, lse : as `sparse_attention`; lse is finite
    Raises ValueError if S < T, P < S, or shapes or dtypes do not fit.

    Equal scores, no memory: running means of the values.
    >>> zero, bias = np.zeros((3, 1, 1)), np.zeros((1, 1))
    >>> out, lse = causal_attention(zero, zero, np.array([1.0, 3.0, 8.0]).reshape(3, 1, 1), zero, bias, bias)
    >>> out.ravel().round(12).tolist()
    [1.0, 2.0, 4.0]
    """
    if len(r) < len(k):
        raise ValueError(f"r: {len(r)} distances are fewer than {len(k)} keys")
    keys = _causal_keys(len(q), len(k))
    distances = [[row[-1] - j for j in row] for row in keys]
    return sparse_attention(q, k, v, r, content_bias, position_bias, keys, distances, _of_keys(keep, q, k, keys))


def dot_product_attention(q: Float, k: Float, v: Float, causal: bool = False, keep: Float | None = None) -> Attended:
    r"""Return, for every query and head, the average of the values weighted by the scaled products with the keys.

    Spec: ED-1.  $o_i = \sum_j \operatorname{softmax}_j(q_i^\top k_j / \sqrt D)\, v_j$   (FastTrees, section 3.3)

    q, k, v, keep : as `causal_attention`, but S may be less than T
    causal : bool, query i sees the keys j <= S - T + i only, which needs S >= T
    -> out, lse : as `sparse_attention`
    Raises ValueError if `causal` and S < T, or shapes or dtypes do not fit.

    Equal scores: the mean of all values, and the running mean.
    >>> zero, values = np.zeros((2, 1, 1)), np.array([1.0, 3.0]).reshape(2, 1, 1)
    >>> [dot_product_attention(zero, zero, values, causal)[0].ravel().tolist() for causal in (False, True)]
    [[2.0, 2.0], [1.0, 2.0]]
    """
    keys = _causal_keys(len(q), len(k)) if causal else [list(range(len(k)))] * len(q)
    zero = np.zeros((1, *q.shape[1:]), q.dtype)  # no relative positions, no biases
    first = [[0] * len(row) for row in keys]
    return sparse_attention(q, k, v, zero, zero[0], zero[0], keys, first, _of_keys(keep, q, k, keys))


def multi_head_attention(
    queries: Float, keys: Float, values: Float, parameters: Parameters, n_heads: int, causal: bool = False,
    turn: Callable[[Float], Float] = lambda rows: rows,
) -> Float:  # fmt: skip
    r"""Return the attention of rows to other rows, with several heads.

    Spec: ED-1.  $[o_1; \dots; o_H]\, W_o$ of the heads of $x W_q$, $y W_k$ and $z W_v$, biases where there are some

    queries : [T, d] float; keys, values : [S, d] float
    parameters : `query`, `key`, `value`, `output` [d, d]; for each an optional bias, `query_bias` [d], ...
    n_heads : int, divides d; causal : as `dot_product_attention`
    turn : function that turns the queries, and the keys, [T, H, D], by their positions
    -> [T, d] float
    Raises ValueError if the heads do not divide d, or shapes or dtypes do not fit.

    Equal scores: every row gets the mean of the values.
    >>> p = {name: np.eye(1) * (name in ("value", "output")) for name in ("query", "key", "value", "output")}
    >>> multi_head_attention(np.ones((2, 1)), np.ones((2, 1)), np.array([[1.0], [3.0]]), p, 1).tolist()
    [[2.0], [2.0]]
    """
    d = queries.shape[1]
    check_heads(n_heads, d)

    def heads(name: str, rows: Float) -> Float:
        return linear(rows, parameters[name], parameters.get(f"{name}_bias")).reshape(len(rows), n_heads, d // n_heads)

    q, k, v = turn(heads("query", queries)), turn(heads("key", keys)), heads("value", values)
    out, _ = dot_product_attention(q, k, v, causal)
    return linear(out.reshape(queries.shape), parameters["output"], parameters.get("output_bias"))


def _causal_keys(n_queries: int, n_keys: int) -> list[list[int]]:
    """Return, for every query, the keys that it sees: the last query sees all, each earlier query one fewer."""
    if n_keys < n_queries:
        raise ValueError(f"k: {n_keys} keys are fewer than {n_queries} queries")
    return [list(range(n_keys - n_queries + i + 1)) for i in range(n_queries)]


def _of_keys(keep: Float | None, q: Float, k: Float, keys: list[list[int]]) -> Sequence[Float] | None:
    """Return the multipliers of the keys of every query."""
    if keep is None:
        return None
    check_shape("keep", keep, len(q), len(k), q.shape[1])
    return [keep[i, row] for i, row in enumerate(keys)]


def _check_rows(name: str, rows: Rows, n_queries: int, n_rows: int) -> None:
    """Raise ValueError unless there is one list per query, and all rows in the lists exist."""
    if len(rows) != n_queries:
        raise ValueError(f"{name}: {len(rows)} lists for {n_queries} queries")
    for i, of_query in enumerate(rows):
        if any(not 0 <= row < n_rows for row in of_query):
            raise ValueError(f"{name}: query {i}: a row is outside 0..{n_rows - 1}")
