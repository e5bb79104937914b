"""The chart of Treeformer, level by level over all sentences at once, forward and gradient.

Mirrors `refimpl.treeformer.cky_pooling.cky_pool`.
The sentences are sorted by length, longest first: the sentences that have a level come first, and the nodes that have a
parent are the first rows of their level. Both projections of these rows, as left and as right child, are one product,
and nothing is padded. Within a level, parallel over nodes: one pass over the children of a node computes its scores,
softmax and weighted sum, and in the gradient each child gathers from its parents. Memory: four rows of d a node, three
more in the gradient; one number a pair, two in the gradient. No array has pairs x d numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.cpu.recurrence import steps_of
from accel.cpu.support.arguments import check_finite, check_floats, check_offsets, contiguous
from accel.cpu.support.cell import copy
from accel.cpu.support.kernels import exp, kernel, row_max
from accel.cpu.support.rows import add, add_four, dot, dot_four, row_dot, row_sum
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Offsets = NDArray[np.int64]
Outputs = tuple[Float, Float, Float, Float]


class Sentences(NamedTuple):
    """The places of tokens, nodes and pairs of the sentences, which are sorted by length, longest first."""

    lengths: Offsets  # [B]
    rank: Offsets  # [N] the place of every token's sentence in this order
    starts: Offsets  # [B] the first token of every sentence in this order
    tokens: Offsets  # [B] its first token in the arguments
    nodes: Offsets  # [B] its first node in the results
    pairs: Offsets  # [B] its first pair


class Levels(NamedTuple):
    """The extent of each level h, from 1; entry 0 is unused."""

    tokens: list[int]  # number of tokens in the sentences that have the level
    read: list[int]  # number of nodes of the level that have a parent
    begin: list[int]  # the number of the first of these among all nodes with a parent


@contiguous
def cky_pool(tokens: Float, compose: Float, direction: Float, offsets: Offsets, *, max_height: int | None) -> Outputs:
    """Return the vectors of all nodes [M, d], the weights of all pairs [P], and the arrays that the gradient needs.

    Spec: CKY-3, of a batch.

    Parameters
    ----------
    tokens : [N, d]
        The leaves of all sentences.
    compose : [2d, d]
        The left child is multiplied by the upper half, the right one by the lower.
    direction : [d]
        The score of a pair is the product of `direction` and the pair's vector.
    offsets : [B+1] int64
        Sentence b has n_b tokens, at least one.
    max_height
        The most tokens of a phrase; None for no limit.

    Returns
    -------
    nodes [M, d], weights [P], inputs [R, d], projected [2R, d]
        Nodes and weights stand sentence by sentence and row by row. A node has one weight for every split, from left to
        right, and they sum to 1. `inputs` has the nodes that have a parent, level by level, and `projected` the two
        projections of each, one below the other.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, an empty sentence, a NaN or an infinity, or max_height below 1.
    """
    s, levels = _check(tokens, compose, direction, offsets, max_height)
    d, n_read = len(direction), sum(levels.read)
    both = np.concatenate([compose[:d], compose[d:]], axis=1)  # [d, 2d]
    scoring = (compose @ direction).reshape(2, d)  # times a vector: its scores as left and as right child
    n_nodes, n_pairs = sizes(np.diff(offsets), len(levels.tokens) - 1)
    nodes, weights = np.empty((n_nodes.sum(), d), tokens.dtype), np.empty(n_pairs.sum(), tokens.dtype)
    inputs, projected, scores = (np.empty((n_read, size), tokens.dtype) for size in (d, 2 * d, 2))
    children, begins = projected.reshape(-1, d), np.array(levels.begin)
    for h in range(1, len(levels.tokens)):
        rows = slice(levels.begin[h], levels.begin[h] + levels.read[h])
        _pool(tokens, scoring, s, h, levels.tokens[h], levels.read[h], begins, children, nodes, weights, inputs, scores)
        np.matmul(inputs[rows], both, out=projected[rows])
    return nodes, weights, inputs, children


@contiguous
def cky_pool_vjp(
    d_out: Float, outputs: Outputs, tokens: Float, compose: Float, direction: Float, offsets: Offsets,
    *, max_height: int | None,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Return the gradients of tokens, compose and direction from d_out [M, d], the gradient of the nodes."""
    s, levels = _check(tokens, compose, direction, offsets, max_height)
    nodes, weights, inputs, children = outputs
    check_floats(tokens=(tokens, "Nd"), d_out=(d_out, "Md"), nodes=(nodes, "Md"))
    d, height, along = len(direction), len(levels.tokens) - 1, direction[None]
    d_nodes, d_scores = d_out.copy(order="C"), np.empty_like(weights)
    d_projected, sums = (np.empty((len(inputs), size), tokens.dtype) for size in (2 * d, 2))
    back = np.concatenate([compose[:d].T, compose[d:].T])  # [2d, d]
    below, begins = np.empty((max(levels.read), d), tokens.dtype), np.array(levels.begin)
    for h in range(height, 0, -1):
        n_read, rows = levels.read[h], slice(levels.begin[h], levels.begin[h] + levels.read[h])
        if n_read:
            _gather(
                s, h, height, levels.tokens[h + 1], d_nodes, weights, d_scores, along,
                d_projected[rows].reshape(-1, d), sums[rows],
            )  # fmt: skip
            np.matmul(d_projected[rows], back, out=below[:n_read])
        _pool_vjp(s, h, levels.tokens[h], n_read, begins, children, weights, below, d_nodes, d_scores)
    d_tokens = np.empty_like(tokens)
    for n, first, node in zip(s.lengths, s.tokens, s.nodes, strict=True):
        d_tokens[first : first + n] = d_nodes[node : node + n]
    d_both = np.matmul(inputs.T, d_projected)
    return d_tokens, np.concatenate([d_both[:, :d], d_both[:, d:]]), np.matmul(sums.ravel(), children)


def _check(
    tokens: Float, compose: Float, direction: Float, offsets: Offsets, max_height: int | None
) -> tuple[Sentences, Levels]:
    """Check the arguments and return the sentences and levels."""
    sizes = check_floats(tokens=(tokens, "Nd"), direction=(direction, "d"), compose=(compose, "Wd"))
    if sizes["W"] != 2 * sizes["d"]:
        raise ValueError(f"compose: shape {compose.shape}, expected {(2 * sizes['d'], sizes['d'])}")
    check_offsets("offsets", offsets, None, sizes["N"])
    check_finite("tokens", tokens)
    return order(offsets, max_height)


def order(offsets: Offsets, max_height: int | None) -> tuple[Sentences, Levels]:
    """Return the sentences, longest first, and the levels of their charts."""
    unsorted_lengths = np.diff(offsets)
    height = min(most_tokens(unsorted_lengths, max_height), int(unsorted_lengths.max(initial=0)))
    ranks, begins, active = steps_of(offsets)
    lengths = unsorted_lengths[ranks]
    n_nodes, n_pairs = sizes(unsorted_lengths, height)
    starts = np.cumsum(lengths) - lengths
    nodes, pairs = ((np.cumsum(x) - x)[ranks] for x in (n_nodes, n_pairs))
    s = Sentences(lengths, np.repeat(np.arange(len(ranks)), lengths), starts, begins, nodes, pairs)
    n_tokens = [0, *(int(lengths[:count].sum()) for count in active[:height])]
    n_read = [0] * (height + 1)
    for h in range(1, height):
        n_read[h] = n_tokens[h + 1] - active[h] * (h - 1)
    return s, Levels(n_tokens, n_read, [0, *np.cumsum(n_read).tolist()[:-1]])


def most_tokens(lengths: Offsets, max_height: int | None) -> int:
    """Return how many tokens a phrase may have at most; raise ValueError if max_height is below 1."""
    if max_height is not None and max_height < 1:
        raise ValueError(f"max_height: must be positive, is {max_height}")
    return int(lengths.max(initial=0)) if max_height is None else max_height


def sizes(lengths: Offsets, height: int) -> tuple[Offsets, Offsets]:
    """Return the numbers of nodes [B] and of pairs [B] of charts that end at a height."""
    h = np.minimum(lengths, height)
    return h * lengths - h * (h - 1) // 2, (3 * lengths - 2 * h + 1) * (h * (h - 1)) // 6


@kernel()
def _node(n, h):
    """Return how many nodes the rows below row h have in the chart of n tokens."""
    return (h - 1) * n - (h - 1) * (h - 2) // 2


@kernel()
def pairs_below(n, h):
    """Return how many pairs the rows below row h have in the chart of n tokens."""
    return (3 * n - 2 * h + 3) * ((h - 1) * (h - 2)) // 6


@kernel()
def _parts(begins, t, b, h, m):
    """Return the rows in `children` of both parts (m and h - m tokens) of the phrase of h tokens from token t."""
    return 2 * (begins[m] + t - b * (m - 1)), 2 * (begins[h - m] + t + m - b * (h - m - 1)) + 1


@team_kernel()
def _pool(part, tokens, scoring, s, h, n_tokens, n_read, begins, children, nodes, weights, inputs, scores):
    for t in share(part, n_tokens):
        b = s.rank[t]
        i, n = t - s.starts[b], s.lengths[b]
        if i + h > n:
            continue
        row = s.nodes[b] + _node(n, h) + i
        if h == 1:
            copy(tokens[s.tokens[b] + i], nodes[row])
        else:
            first = s.pairs[b] + pairs_below(n, h) + i * (h - 1)
            w = weights[first : first + h - 1]
            for m in range(1, h):
                left, right = _parts(begins, t, b, h, m)
                w[m - 1] = scores[left // 2, 0] + scores[right // 2, 1]
            most = row_max(w)
            for m in range(w.size):
                w[m] = exp(w[m] - most)
            total = row_sum(w)
            for m in range(w.size):
                w[m] /= total
            for a in range(nodes.shape[1]):
                nodes[row, a] = 0
            for m in range(1, h - 1, 2):
                parts = (*_parts(begins, t, b, h, m), *_parts(begins, t, b, h, m + 1))
                add_four(nodes, row, children, *parts, w[m - 1], w[m - 1], w[m], w[m])
            if h % 2 == 0:
                left, right = _parts(begins, t, b, h, h - 1)
                add(nodes, row, children, left, w[h - 2])
                add(nodes, row, children, right, w[h - 2])
        child = t - b * (h - 1)
        if child < n_read:
            child += begins[h]
            copy(nodes[row], inputs[child])
            scores[child, 0] = dot(scoring, 0, nodes, row)
            scores[child, 1] = dot(scoring, 1, nodes, row)


@team_kernel()
def _gather(part, s, m, height, n_tokens, d_nodes, weights, d_scores, direction, d_children, sums):
    """Set the gradients of both projections of the nodes of row m, from the gradients of their parents.

    `sums` gets, for every node, the sums of the gradients of the scores of its pairs: as left and as right child.
    """
    for t in share(part, n_tokens):
        b = s.rank[t]
        i, n = t - s.starts[b], s.lengths[b]
        if i + m > n:
            continue
        child = t - b * (m - 1)
        left, right = d_nodes.dtype.type(0), d_nodes.dtype.type(0)
        for a in range(d_children.shape[1]):
            d_children[2 * child, a] = d_children[2 * child + 1, a] = 0
        for h in range(m + 1, min(height, n - i) + 1):
            pair = s.pairs[b] + pairs_below(n, h) + i * (h - 1) + m - 1
            add(d_children, 2 * child, d_nodes, s.nodes[b] + _node(n, h) + i, weights[pair])
            left += d_scores[pair]
        for h in range(m + 1, min(height, i + m) + 1):
            pair = s.pairs[b] + pairs_below(n, h) + (i + m - h) * (h - 1) + h - m - 1
            add(d_children, 2 * child + 1, d_nodes, s.nodes[b] + _node(n, h) + i + m - h, weights[pair])
            right += d_scores[pair]
        add(d_children, 2 * child, direction, 0, left)
        add(d_children, 2 * child + 1, direction, 0, right)
        sums[child, 0], sums[child, 1] = left, right


@team_kernel()
def _pool_vjp(part, s, h, n_tokens, n_read, begins, children, weights, below, d_nodes, d_scores):
    """Add the gradients through the parents to those of the nodes of row h; set those of their pairs' scores."""
    for t in share(part, n_tokens):
        b = s.rank[t]
        i, n = t - s.starts[b], s.lengths[b]
        if i + h > n:
            continue
        row, child = s.nodes[b] + _node(n, h) + i, t - b * (h - 1)
        if child < n_read:
            add(d_nodes, row, below, child, d_nodes.dtype.type(1))
        first = s.pairs[b] + pairs_below(n, h) + i * (h - 1)
        w, d_s = weights[first : first + h - 1], d_scores[first : first + h - 1]
        for m in range(1, h - 1, 2):
            parts = (*_parts(begins, t, b, h, m), *_parts(begins, t, b, h, m + 1))
            left, right, next_left, next_right = dot_four(d_nodes, row, children, *parts)
            d_s[m - 1], d_s[m] = left + right, next_left + next_right
        if h % 2 == 0:
            left, right = _parts(begins, t, b, h, h - 1)
            d_s[h - 2] = dot(d_nodes, row, children, left) + dot(d_nodes, row, children, right)
        mean = row_dot(w, d_s)
        for m in range(w.size):
            d_s[m] = w[m] * (d_s[m] - mean)
