"""The chart of Treeformer on the GPU, level by level, all sentences at once.

Mirrors `refimpl.treeformer.cky_pooling.cky_pool`.

A level is one matrix product, both projections of every node that has a parent, and one kernel, a block a node: scores,
softmax and weighted sum. Backward, a second kernel lets each child gather from its parents. Sentences sorted
by length, longest first, so that nothing is padded; nothing waits for the device between levels. Extra memory: three
vectors a node, backward three more and one level; of a pair only its weight and, backward, the slope along its score.
Up to 8 warps a node: at 66 registers a thread a multiprocessor holds 3 nodes, and 132 of them are busy from 400 nodes a
level on, 16 sentences of 25 tokens. The top of a full chart, few nodes of many splits, waits for memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.products import factor, matmul
from accel.cuda.support import check, known

WARPS = 8  # a node
Outputs = tuple[Array, Array, Array, Array]


def cky_pool(tokens: Array, compose: Array, direction: Array, offsets: Array, *, max_height: int | None) -> Outputs:
    """Return (nodes [M, d], weights [P], rows [R, d], products [R, 2d]) of the charts of all sentences.

    tokens [N, d]; compose [2d, d]; direction [d]: the score of a pair is its product with the pair's vector; offsets
    [B+1] int64; max_height: tokens of the longest phrase, None for all. Nodes stand sentence by sentence, row by row,
    and the weights of a node's splits from left to right. Rows, by height, are the nodes that have a parent, and
    products their products with either half of compose, for the gradient.
    Raises ValueError naming the argument that does not fit, an empty sentence, or a row with a NaN or an infinity.
    """
    tokens, compose, direction = _floats(tokens, compose, direction)
    d, xp, dtype = len(direction), device.xp(), tokens.dtype
    charts = _charts(offsets, len(tokens), max_height)
    nodes, weights = xp.empty((charts.n_nodes, d), dtype), xp.empty(charts.n_pairs, dtype)
    rows, products, scores = (xp.empty((charts.n_rows, width), dtype) for width in (d, 2 * d, 2))
    both, block, chunks = factor(_side_by_side(compose)), *_block(d)
    for level in charts.levels:
        device.launch(
            "cky_pooling", "pool_forward", (level.n_nodes,), block,
            (tokens, products, direction, charts.sentences, charts.starts, nodes, weights, rows, scores,
             level.active, level.height, level.n_read, d),
            dtype, chunks=chunks,
        )  # fmt: skip
        if level.n_read:
            matmul(rows[level.rows], both, out=products[level.rows])
    check.finite(tokens=tokens, nodes=nodes)
    return nodes, weights, rows, products


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
    tokens, compose, direction = _floats(tokens, compose, direction)
    d_nodes, _, weights, rows, products = check.floats(
        d_nodes=d_nodes, **dict(zip(("nodes", "weights", "rows", "products"), outputs, strict=True))
    )
    d, xp, dtype = len(direction), device.xp(), tokens.dtype
    charts = _charts(offsets, len(tokens), max_height)
    slopes, d_scores, d_tokens = d_nodes.copy(), xp.empty_like(weights), xp.empty_like(tokens)
    d_products, sums, through = xp.empty_like(products), xp.empty((len(rows), 2), dtype), xp.empty_like(tokens)
    both, block, chunks = factor(_side_by_side(compose).T), *_block(d)
    for level in reversed(charts.levels):
        if level.n_read:
            longer = len(charts.levels) - level.height
            device.launch(
                "cky_pooling", "gather_backward", (level.n_read,), block,
                (slopes, weights, d_scores, direction, charts.sentences, charts.starts, d_products, sums,
                 level.active, level.height, len(charts.levels), d),
                dtype, chunks=chunks, shared=4 * longer * dtype.itemsize,
            )  # fmt: skip
            matmul(d_products[level.rows], both, out=through[: level.n_read])
        device.launch(
            "cky_pooling", "pool_backward", (level.n_nodes,), block,
            (through, products, weights, charts.sentences, charts.starts, slopes, d_scores, d_tokens,
             level.active, level.height, level.n_read, d),
            dtype,
        )  # fmt: skip
    d_both = matmul(rows.T, d_products)
    d_compose = xp.concatenate((d_both[:, :d], d_both[:, d:]))
    return d_tokens, d_compose, matmul(sums.reshape(1, -1), products.reshape(-1, d))[0]


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
    """The nodes of phrases of `height` tokens: those that have a parent come first, and have rows."""

    height: int
    active: int  # sentences as long as that
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


def _charts(offsets: Array, n_tokens: int, max_height: int | None) -> _Charts:
    host = check.sequence_offsets("offsets", offsets, n_tokens)
    return known.once(charts_between(max_height), [offsets], [host])


@lru_cache
def charts_between(max_height: int | None) -> Callable[[np.ndarray], _Charts]:
    """Return what makes the charts of sentences from their offsets, all on the host: always the same function."""
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
    return _Charts(int(nodes.sum()), int(pairs.sum()), int(reads.sum()), levels, *places)


def _floats(tokens: Array, compose: Array, direction: Array) -> list[Array]:
    floats = check.floats(tokens=tokens, compose=compose, direction=direction)
    check.shape("tokens", tokens, "N", "d")
    d = tokens.shape[1]
    if d == 0:
        raise ValueError(f"tokens: shape {tokens.shape} has empty rows")
    check.shape("compose", compose, 2 * d, d)
    check.shape("direction", direction, d)
    return floats


def _side_by_side(compose: Array) -> Array:
    """Return the halves of compose for the left and for the right child, [d, 2d]."""
    d = compose.shape[1]
    return device.xp().concatenate((compose[:d], compose[d:]), axis=1)


def _block(d: int) -> tuple[tuple[int, int], int]:
    """Return the shape of a block for one node, and how many of its d numbers each thread holds."""
    warps = min(WARPS, -(-d // 32))
    return (32, warps), -(-d // (32 * warps))
