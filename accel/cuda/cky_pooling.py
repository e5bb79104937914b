"""The chart of Treeformer on the GPU, level by level, all sentences at once.

Mirrors `refimpl.treeformer.cky_pooling.cky_pool`.

A level is one matrix product, both projections of every node that has a parent, and one kernel, a block a node: scores,
softmax and weighted sum. The backward pass is alike: the kernel finishes the gradients of a level, and each node of the
level below collects its gradient from its parents. In the fast form the kernels of the tokens also compute the
direction of the scores from a query. Sentences are sorted by length, longest first, so that nothing is padded; the host
does not wait between levels. Extra memory: three vectors a node, backward three more and one level; for a pair only its
weight and, backward, the gradient of its score.
A node has up to 8 warps: at 72 registers a thread a multiprocessor holds 3 nodes, and 132 multiprocessors are busy from
400 nodes a level on, 16 sentences of 25 tokens. The top of a full chart, few nodes of many splits, waits for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from accel.cuda import chart_tokens, device, forms
from accel.cuda.device import Array
from accel.cuda.products import matmul, matmul_all
from accel.cuda.support import check, known
from accel.cuda.support.factors import factor

WARPS = 8  # a node, at most
Outputs = tuple[Array, Array, Array, Array]


def cky_pool(tokens: Array, compose: Array, direction: Array, offsets: Array, *, max_height: int | None) -> Outputs:
    """Return (nodes [M, d], weights [P], rows [R, d], products [2R, d]) of the charts of all sentences.

    tokens [N, d]; compose [2d, d]; direction [d]: the score of a pair is its product with the pair's vector; offsets
    [B+1] int64; max_height: tokens of the longest phrase, None for all. Nodes stand sentence by sentence, row by row,
    and the weights of a node's splits from left to right. Rows are the nodes that have a parent, by height; products
    are their products with the upper half of compose, then with the lower half. The gradient reads both.
    Raises ValueError naming the argument that does not fit, an empty sentence, or a row with a NaN or an infinity.
    """
    tokens, compose, direction = _floats(tokens, compose, direction=direction)
    return _pooled(tokens, compose, direction, offsets, max_height, None)


def cky_pool_vjp(
    d_nodes: Array,
    outputs: Outputs,
    tokens: Array,
    compose: Array,
    direction: Array,
    offsets: Array,
    *,
    max_height: int | None,
) -> tuple[Array, Array, Array]:
    """Return the gradients of tokens, compose and direction."""
    tokens, compose, direction = _floats(tokens, compose, direction=direction)
    d_tokens, d_compose = device.xp().empty_like(tokens), device.xp().empty_like(compose)
    charts = _charts(offsets, len(tokens), max_height)
    d_nodes, through, d_direction = _gathered(d_nodes, outputs, compose, direction, charts, d_compose)
    chart_tokens.end(d_nodes, through, charts.sentences, d_tokens, None)
    return d_tokens, d_compose, d_direction


def fuses_queries() -> bool:
    """Return whether `queried_cky_pool` is to compute the direction of scores: in cooperative launches, a fast form."""
    return forms.current().kernels == "fast"


def queried_cky_pool(
    tokens: Array, compose: Array, w: Array, query: Array, key: Array, offsets: Array, *, max_height: int | None
) -> tuple[Outputs, Array]:
    """Return the outputs of `cky_pool` for the direction key (w query) / sqrt(d), and w query and the direction [2, d].

    w [d]; query, key [d, d]; all else as for `cky_pool`. It is no operation of the table: where a backend lacks it,
    `accel.models.treeformer.chart` computes the same.
    """
    tokens, compose, w, query, key = _floats(tokens, compose, w=w, query=query, key=key)
    room = device.xp().empty((2, len(w)), w.dtype)
    query_parts = chart_tokens.Query(w, query, key, room)
    return _pooled(tokens, compose, room[1], offsets, max_height, query_parts), room


def queried_cky_pool_vjp(
    d_nodes: Array, outputs: tuple[Outputs, Array], tokens: Array, compose: Array, w: Array, query: Array, key: Array,
    offsets: Array, *, max_height: int | None, places: Sequence[Array | None] = (None,) * 4,
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of tokens, compose, w, query and key; the last four are written to `places` if given."""
    tokens, *learned = _floats(tokens, compose, w=w, query=query, key=key)
    charts, xp = _charts(offsets, len(tokens), max_height), device.xp()
    gradients = [xp.empty_like(x) if place is None else place for x, place in zip(learned, places, strict=True)]
    d_tokens, room = xp.empty_like(tokens), outputs[1]
    d_nodes, through, d_direction = _gathered(d_nodes, outputs[0], learned[0], room[1], charts, gradients[0])
    query_parts = chart_tokens.Query(*learned[1:], room)
    chart_tokens.end(d_nodes, through, charts.sentences, d_tokens, query_parts, d_direction, tuple(gradients[1:]))
    return d_tokens, *gradients


def _pooled(
    tokens: Array, compose: Array, direction: Array, offsets: Array, max_height: int | None,
    query: chart_tokens.Query | None,
) -> Outputs:  # fmt: skip
    """Return the outputs of `cky_pool`; with a query, the launch for the tokens writes the direction first."""
    d, xp, dtype = len(direction), device.xp(), tokens.dtype
    charts = _charts(offsets, len(tokens), max_height)
    n_rows = charts.n_rows
    nodes, weights = xp.empty((charts.n_nodes, d), dtype), xp.empty(charts.n_pairs, dtype)
    rows, products, scores = (xp.empty(shape, dtype) for shape in ((n_rows, d), (2, n_rows, d), (2, n_rows)))
    both, block, chunks = factor(compose), *_block(d)
    with check.finite_rows("tokens", "nodes") as first:
        n_read = charts.levels[0].n_read if charts.levels else 0
        chart_tokens.begin(tokens, charts.sentences, nodes, rows, first, n_read, query)
        for level in charts.levels:
            if level.height > 1:
                device.launch(
                    "cky_pooling", "pool_forward", (level.n_nodes,), block,
                    (products, direction, charts.sentences, charts.starts, nodes, weights, rows, scores, first,
                     level.active, level.height, level.n_read, n_rows, d),
                    dtype, chunks=chunks,
                )  # fmt: skip
            if level.n_read:
                matmul_all([rows[level.rows]] * 2, [both[:d], both[d:]], [part[level.rows] for part in products])
    return nodes, weights, rows, products.reshape(-1, d)


def _gathered(
    d_nodes: Array, outputs: Outputs, compose: Array, direction: Array, charts: _Charts, d_compose: Array
) -> tuple[Array, list[Array], Array]:
    """Return d_nodes, made C-contiguous; the gradients that reach tokens through parents; and that of the direction.

    Writes the gradient of compose to d_compose.
    """
    d_nodes, nodes, weights, rows, products = check.floats(
        d_nodes=d_nodes, **dict(zip(("nodes", "weights", "rows", "products"), outputs, strict=True))
    )
    d, xp, dtype = len(direction), device.xp(), nodes.dtype
    gradients, d_scores = xp.empty_like(nodes), xp.empty_like(weights)
    d_products, sums = xp.empty((2, *rows.shape), dtype), xp.empty((2, len(rows)), dtype)
    both, block, chunks = factor(compose), *_block(d)
    through, most = [xp.empty((0, d), dtype)] * 2, len(charts.levels)
    for below, level in reversed(list(pairwise(charts.levels))):
        device.launch(
            "cky_pooling", "pool_backward", (level.n_nodes + below.n_read,), block,
            (d_nodes, nodes, *through, products, weights, direction, charts.sentences, charts.starts, gradients,
             d_scores, d_products, sums, level.active, below.height, level.n_nodes, len(through[0]), len(rows), most,
             d),
            dtype, chunks=chunks, shared=4 * (most - below.height) * dtype.itemsize,
        )  # fmt: skip
        through = matmul_all([part[below.rows] for part in d_products], [both[:d].T, both[d:].T])
    matmul_all([rows.T] * 2, list(d_products), [d_compose[:d], d_compose[d:]])
    return d_nodes, through, matmul(sums.reshape(1, -1), products)[0]


def top_rows(offsets: Array, max_height: int | None) -> tuple[Array, Array]:
    """Return which nodes of charts are the longest phrases [T], and where those of each chart begin [B+1].

    It is no operation of the table: where a backend lacks it, `accel.models.treeformer.chart` computes the same.
    """
    charts = known.once(charts_between(max_height), [offsets], [known.host(offsets)])
    return charts.tops, charts.top_bounds


def chart_sizes(offsets: Any, max_height: int | None) -> tuple[Any, Any]:
    """Return how many nodes and how many pairs the chart of each sentence has; offsets on the host.

    Raises ValueError naming max_height below 1, or an empty sentence.
    """
    if max_height is not None and max_height < 1:
        raise ValueError(f"max_height: {max_height} is less than 1")
    n = np.diff(offsets)
    if (n == 0).any():
        raise ValueError(f"sequence {int(np.argmin(n))}: empty")
    top = n if max_height is None else np.minimum(n, max_height)
    below = top * (top - 1) // 2
    return n * top - below, n * below - below * (2 * top - 1) // 3


@dataclass(frozen=True)
class _Level:
    """The nodes of phrases of `height` tokens: the n_read nodes that have a parent come first, and have rows."""

    height: int
    active: int  # sentences of so many tokens or more
    n_nodes: int
    n_read: int
    rows: slice


@dataclass(frozen=True)
class _Charts:
    """The places of nodes and pairs; sentences [B, 5] and starts [heights] int64 as the kernels read them."""

    n_nodes: int
    n_pairs: int
    n_rows: int
    levels: list[_Level]
    sentences: Array
    starts: Array
    tops: Array  # [T] int64 the longest phrases, sentence by sentence
    top_bounds: Array  # [B+1] int64 where those of each begin


def _charts(offsets: Array, n_tokens: int, max_height: int | None) -> _Charts:
    host = check.sequence_offsets(offsets, n_tokens)
    return known.once(charts_between(max_height), [offsets], [host])


@lru_cache
def charts_between(max_height: int | None) -> Callable[[np.ndarray], _Charts]:
    """Return the function that makes the charts of sentences from their offsets, all on the host.

    For one max_height it is always the same function, for `known.once` looks facts up by it.
    """
    return partial(_charts_between, max_height)


def _charts_between(max_height: int | None, host: np.ndarray) -> _Charts:
    nodes, pairs = chart_sizes(host, max_height)
    order = np.argsort(-np.diff(host), kind="stable")
    n = np.diff(host)[order]
    top = n.max(initial=0) if max_height is None else min(n.max(initial=0), max_height)
    heights = np.arange(1, top + 1)
    counts = np.maximum(n - heights[:, None] + 1, 0)  # [heights, B] nodes
    reads = np.where(counts > 1, counts, 0).sum(axis=1) * (heights < top)
    starts = np.cumsum(reads) - reads
    levels = [
        _Level(height, active, n_nodes, n_read, slice(start, start + n_read))
        for height, active, n_nodes, n_read, start in np.stack(
            [heights, (counts > 0).sum(axis=1), counts.sum(axis=1), reads, starts], axis=1
        ).tolist()
    ]
    sentences = [np.cumsum(n) - n, n, host[order], *((np.cumsum(size) - size)[order] for size in (nodes, pairs))]
    places = np.stack(sentences, axis=1, dtype=np.int64), starts.astype(np.int64)
    lengths = np.diff(host)
    n_tops = lengths - np.minimum(lengths, top) + 1
    bounds = np.concatenate([[0], np.cumsum(n_tops)])
    tops = np.arange(bounds[-1]) + np.repeat(np.cumsum(nodes) - bounds[1:], n_tops)
    return _Charts(int(nodes.sum()), int(pairs.sum()), int(reads.sum()), levels, *places, tops, bounds)


def _floats(tokens: Array, compose: Array, **of_scores: Array) -> list[Array]:
    """Return the arguments, checked: of_scores are vectors [d], but `query` and `key` are matrices [d, d]."""
    floats = check.floats(tokens=tokens, compose=compose, **of_scores)
    check.shape("tokens", tokens, "N", "d")
    d = tokens.shape[1]
    if d == 0:
        raise ValueError(f"tokens: shape {tokens.shape} has empty rows")
    check.shape("compose", compose, 2 * d, d)
    for name, array in of_scores.items():
        check.shape(name, array, *((d, d) if name in ("query", "key") else (d,)))
    return floats


def _block(d: int) -> tuple[tuple[int, int], int]:
    """Return the shape of a block for one node, and how many of its d numbers each thread holds."""
    warps = min(WARPS, -(-d // 32))
    return (32, warps), -(-d // (32 * warps))
