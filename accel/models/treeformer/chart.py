"""Treeformer's chart over the rows of an encoder, for ragged batches: CKY-*, TF-*.

Mirrors `refimpl.treeformer.cky_pooling` with the parameters `chart.*`. The paper's chart is one operation of the
backend, `cky_pool`, or `queried_cky_pool`, which also computes the direction of the scores. In the released variant
each row of the chart is a few operations on the tape, which keep arrays of [pairs, d]. Nodes lie sentence by sentence;
in a sentence the phrases of one token come first, then those of two tokens, and so on, each from left to right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.autodiff.layers import DropoutSites, layer_norm, linear
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant

Parameters = Mapping[str, Variable]


def node_offsets(xp: ModuleType, offsets: Array, max_height: int | None) -> Array:
    """Return where the nodes of every sentence begin [B+1]; a node is a phrase of at most `max_height` tokens."""
    n = offsets[1:] - offsets[:-1]
    height = n if max_height is None else xp.minimum(n, max_height)
    counts = n * height - height * (height - 1) // 2
    return xp.concatenate([xp.zeros(1, counts.dtype), xp.cumsum(counts)])


def build(
    tape: Tape, p: Parameters, variant: str, n_heads: int, x: Variable, offsets: Array, max_height: int | None,
    rate: float = 0.0, sites: DropoutSites | None = None,
) -> tuple[Variable, Array]:  # fmt: skip
    """Return the vectors of all nodes [M, d] and the weights of their splits [P], from the encoded tokens x [N, d].

    The released variant weighs splits by each of `n_heads` heads, and returns the mean. In training it drops weights at
    `rate`; the weights that it returns are those before dropout.
    """
    if variant == "released":
        return _released(tape, p, n_heads, x, offsets, max_height, rate, sites or DropoutSites(None))
    fuses_queries = getattr(tape.ops, "fuses_queries", None)
    if fuses_queries is not None and fuses_queries():
        return _queried(tape, [p[f"chart.{name}"] for name in ("compose", "w", "query", "key")], x, offsets, max_height)
    d = x.value.shape[1]
    w = tape.linear(tape.reshape(p["chart.w"], 1, d), p["chart.query"])
    direction = tape.scale(tape.reshape(tape.project(w, p["chart.key"]), d), d**-0.5)
    nodes, outputs = tape.op_and_outputs("cky_pool", x, p["chart.compose"], direction, offsets, max_height=max_height)
    return nodes, outputs[1]


def _queried(
    tape: Tape, learned: list[Variable], x: Variable, offsets: Array, max_height: int | None
) -> tuple[Variable, Array]:
    """Return nodes and weights by the backend's `queried_cky_pool`, which also computes the direction of the scores."""
    values = x.value, *(parameter.value for parameter in learned), offsets
    outputs, room = tape.ops.queried_cky_pool(*values, max_height=max_height)

    def backward(d_out: Array) -> None:
        places = [parameter.place() for parameter in learned]
        d_x, *gradients = tape.ops.queried_cky_pool_vjp(
            d_out, (outputs, room), *values, max_height=max_height, places=places
        )
        for parameter, gradient in zip(learned, gradients, strict=True):
            parameter.accumulate(gradient)
        x.accumulate(d_x)

    return tape.record(outputs[0], [x, *learned], backward), outputs[1]


def top_row_means(tape: Tape, nodes: Variable, offsets: Array, max_height: int | None, width: int = 1) -> Variable:
    """Return the mean vector of the longest phrases of every `width` charts [B / width, d], of a sentence or a pair."""
    xp = tape.xp
    rows, bounds = _top_rows(tape, offsets, max_height)
    equal = constant(xp.zeros(len(rows), nodes.value.dtype))
    return tape.op("weighted_sum", equal, tape.take(nodes, rows), xp.ascontiguousarray(bounds[::width]))


def _top_rows(tape: Tape, offsets: Array, max_height: int | None) -> tuple[Array, Array]:
    """Return which nodes are the longest phrases, sentence by sentence, and where those of a sentence begin [B+1]."""
    xp = tape.xp
    if hasattr(tape.ops, "top_rows"):
        rows, bounds = tape.ops.top_rows(offsets, max_height)
        return rows, bounds
    counts = _top_counts(xp, offsets, max_height)
    bounds = xp.concatenate([xp.zeros(1, counts.dtype), xp.cumsum(counts)])
    of_all = node_offsets(xp, offsets, max_height)
    row = xp.arange(int(_top_counts(np, host(offsets), max_height).sum()))
    return row + (of_all[1:] - bounds[1:])[xp.searchsorted(bounds, row, side="right") - 1], bounds


def _top_counts(xp: ModuleType, offsets: Array, max_height: int | None) -> Array:
    """Return how many longest phrases every sentence has [B]."""
    n = offsets[1:] - offsets[:-1]
    return n - (n if max_height is None else xp.minimum(n, max_height)) + 1


@dataclass(frozen=True)
class _Row:
    """The nodes of one height in level order: those of all sentences, from left to right."""

    left: np.ndarray  # [nodes (height - 1)] the lower node that is the first part, for each split of each node
    right: np.ndarray  # the same for the second part
    place: np.ndarray  # [nodes] the place of each node in the result
    pairs: np.ndarray  # [nodes (height - 1)] the place of each split in the result


def _rows(lengths: np.ndarray, max_height: int | None) -> list[_Row]:
    """Return the rows of the charts, the lowest first."""
    heights = lengths if max_height is None else np.minimum(lengths, max_height)
    base = np.zeros((heights.max(initial=0) + 1, len(lengths)), np.int64)  # where each row of a sentence begins
    node = offsets_of(lengths * heights - heights * (heights - 1) // 2)[:-1]
    wide = [lengths - h + 1 for h in range(len(base))]
    of_pairs = sum((np.where(heights >= h, wide[h] * (h - 1), 0) for h in range(2, len(base))), np.zeros_like(lengths))
    pair, total, rows = offsets_of(of_pairs)[:-1], 0, []
    for h in range(1, len(base)):
        count = np.where(heights >= h, wide[h], 0)
        base[h] = total + np.cumsum(count) - count
        total += count.sum()
        b = np.repeat(np.arange(len(lengths)), count)
        i = np.arange(len(b)) - (np.cumsum(count) - count)[b]
        k = np.arange(1, h)  # length of the first part
        left, right = base[k][:, b].T + i[:, None], base[h - k][:, b].T + i[:, None] + k
        pairs = (pair[b] + i * (h - 1))[:, None] + np.arange(h - 1)
        rows.append(_Row(left.ravel(), right.ravel(), node[b] + i, pairs.ravel()))
        node, pair = node + count, pair + count * (h - 1)
    return rows


def _released(
    tape: Tape, p: Parameters, n_heads: int, x: Variable, offsets: Array, max_height: int | None, rate: float,
    sites: DropoutSites,
) -> tuple[Variable, Array]:  # fmt: skip
    xp, d = tape.xp, x.value.shape[1]
    rows = _rows(np.diff(host(offsets)), max_height)
    halves = tape.part(p["chart.compose"], 0, d), tape.part(p["chart.compose"], d, 2 * d)
    w = tape.reshape(p["chart.w"], 1, d)
    levels, below = [x], [_parts(tape, p, halves, x)]
    weights = xp.zeros(sum(len(row.pairs) for row in rows), x.value.dtype)
    for h, row in enumerate(rows[1:], 2):
        lefts, rights = (tape.concatenate([part[side] for part in below]) for side in (0, 1))
        sides = ((lefts, row.left), (rights, row.right))
        firsts, seconds = (tape.op("embedding", part, xp.asarray(numbers.astype(np.int32))) for part, numbers in sides)
        pairs = layer_norm(tape, p, "chart.norm_2", tape.add(firsts, seconds))
        nodes, weights[xp.asarray(row.pairs)] = _pool(tape, p, n_heads, w, pairs, len(row.place), sites.draw(rate))
        levels.append(nodes)
        if h < len(rows):
            below.append(_parts(tape, p, halves, nodes))
    place = np.concatenate([row.place for row in rows])
    return tape.take(tape.concatenate(levels), xp.asarray(np.argsort(place))), weights


def _parts(tape: Tape, p: Parameters, halves: tuple[Variable, Variable], nodes: Variable) -> tuple[Variable, Variable]:
    """Return the term that each node adds to a phrase as its first part, with the bias, and as its second part."""
    normal = layer_norm(tape, p, "chart.norm_1", nodes)
    return (
        tape.add(normal, tape.linear(normal, halves[0], p["chart.compose_bias"])),
        tape.add(normal, tape.linear(normal, halves[1])),
    )


def _pool(
    tape: Tape, p: Parameters, n_heads: int, w: Variable, pairs: Variable, n_nodes: int, draw: dict[str, Any]
) -> tuple[Variable, Array]:
    """Return the nodes of a row and the weights of their splits: every node has equally many of the pairs."""
    xp, d = tape.xp, pairs.value.shape[1]
    bounds, first_row = xp.arange(n_nodes + 1), xp.zeros(n_nodes, xp.int32)

    def attention(name: str, rows: Variable) -> Variable:
        return linear(tape, p, f"chart.attention.{name}", rows, f"chart.attention.{name}_bias")

    q = tape.op("embedding", attention("query", w), first_row)  # every node has the same
    projections = (q, attention("key", pairs), attention("value", pairs))
    q, k, v = (tape.reshape(rows, -1, n_heads, d // n_heads) for rows in projections)
    n_splits = len(pairs.value) // max(n_nodes, 1)
    out, outputs = tape.op_and_outputs("dot_product_attention", q, k, v, bounds, bounds * n_splits, **draw)
    scores = (k.value.reshape(n_nodes, n_splits, n_heads, -1) * q.value[:, None]).sum(axis=3) * (d // n_heads) ** -0.5
    weights = xp.exp(scores - outputs[1][:, None]).mean(axis=2)
    pooled = tape.add(tape.op("embedding", w, first_row), attention("output", tape.reshape(out, -1, d)))
    x = layer_norm(tape, p, "chart.norm_3", pooled)
    hidden = tape.relu(linear(tape, p, "chart.feed_forward.in", x, "chart.feed_forward.in_bias"))
    output = linear(tape, p, "chart.feed_forward.out", hidden, "chart.feed_forward.out_bias")
    return tape.add(x, output), weights.ravel()
