"""GPST's composition model over the charts of a whole batch, all cells of a step at once: IO-*.

Mirrors `refimpl.gpst.composition` and `inside_outside` with the parameters `composition.*`. Nodes are numbered as in
`pruned_chart`: the words of all sentences, then the cells step by step. The vectors of nodes are arrays of
[nodes, width] whose rows are filled step by step; so are their gradients. Structure stays on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of, on_device
from accel.autodiff.layers import DropoutSites, embedding, mlp
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.cpu.pruned_chart import pruned_chart
from accel.models.gpst import fused_charts
from accel.models.gpst.config import Config
from accel.models.gpst.pair_layers import PairLayers, Parameters, Rows, norm, places


class Charts(NamedTuple):
    """The result of `pruned_chart`, on the host."""

    spans: np.ndarray  # [C, 2] first and last word of every cell, within its sentence
    owner: np.ndarray  # [C] the sentence of every cell
    split_offsets: np.ndarray  # [C+1] where the splits of every cell begin
    left: np.ndarray  # [P] the node of the left part of every split
    right: np.ndarray  # [P] the node of the right part
    step_offsets: np.ndarray  # [T+1] where the cells of every step begin
    roots: np.ndarray  # [B]
    sent: Any = None  # the arrays that both passes of `fused_charts` read, on the device

    def ends(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return every node's first and last word, numbered in the batch; sentence b begins at word `offsets[b]`."""
        words = np.arange(offsets[-1])
        cells = offsets[self.owner][:, None] + self.spans
        return np.concatenate([words, cells[:, 0]]), np.concatenate([words, cells[:, 1]])


def charts_of(ops: ModuleType, scores: Array, offsets: Array, window: int) -> Charts:
    """Return the pruned charts of all sentences for a parser's scores [N - B].

    For a backend on a GPU the charts are made on the host, which reads them next: it waits for the scores alone.
    """
    if ops.xp is np:
        charts = Charts(*ops.pruned_chart(scores, offsets, window=window))
    else:
        charts = Charts(*pruned_chart(host(scores), host(offsets), window=window))
    return sent(ops, charts, int(host(offsets)[-1]))


def sent(ops: ModuleType, charts: Charts, n_words: int) -> Charts:
    """Return charts over `n_words` words; if the backend has whole passes, `sent` holds the arrays that these read."""
    if not hasattr(ops, "charts"):
        return charts
    return charts._replace(sent=fused_charts.sent(ops, charts, parents_of(charts, n_words)))


@dataclass(frozen=True)
class Inside:
    """The inside vectors and heights of all nodes, and the scores and weights of all splits."""

    vectors: Variable  # [nodes, d]
    scores: list[Variable]  # of the splits of every step
    weights: Array  # [P]
    heights: Variable  # [nodes, 1] expected


def inside(tape: Tape, config: Config, p: Parameters, leaves: Variable, charts: Any, sites: DropoutSites) -> Inside:
    """Return the inside vectors of all nodes, from those of the words [N, d], and the scores and weights of splits.

    `charts` are `Charts`, or what `planned.charts_of` returns.
    """
    if fused_charts.can(tape, config):
        plan = getattr(charts, "sent", charts)
        vectors, score, weight, height = fused_charts.inside(tape, config, p, leaves, plan, sites)
        return Inside(vectors, [score], weight, height)
    xp, n_words, dtype, sites = tape.xp, len(leaves.value), leaves.value.dtype, sites.part()
    n_nodes, layers = n_words + len(charts.spans), PairLayers(tape, config, p, "compose", sites)
    widths = config.d_compose, layers.width, config.d_score, config.d_score, 1
    tables = [Rows(tape, n_nodes, width, dtype) for width in widths]
    vectors, firsts, lefts, rights, heights = tables

    def write(inner: Variable, height: Variable, at: int) -> None:
        sides = (mlp(tape, p, f"composition.inside.{side}", inner, config.dropout, sites) for side in ("left", "right"))
        for table, rows in zip(tables, (inner, layers.first(inner), *sides, height), strict=True):
            table.write(rows, at)

    write(leaves, Variable(xp.zeros((n_words, 1), dtype)), 0)
    bounds = charts.split_offsets[charts.step_offsets]
    left, right = (places(tape.ops, nodes, bounds) for nodes in (charts.left, charts.right))
    parts = places(tape.ops, np.stack([charts.left, charts.right], axis=1).ravel(), 2 * bounds)
    offsets = xp.asarray(charts.split_offsets)
    roles = xp.asarray(np.tile(np.arange(2, dtype=np.int32), len(charts.left)))
    scores, weights = [], [xp.zeros(0, dtype)]
    for t, (begin, end) in enumerate(zip(charts.step_offsets[:-1], charts.step_offsets[1:], strict=True)):
        groups = offsets[begin : end + 1] - bounds[t]
        score = _products(tape, lefts.read(left[t]), rights.read(right[t]))
        composed = layers(vectors.read(parts[t]), firsts.read(parts[t]), roles[2 * bounds[t] : 2 * bounds[t + 1]])
        sums, outputs = tape.op_and_outputs("weighted_sum", score, composed, groups)
        height = _height_above(tape, heights.read(left[t]), heights.read(right[t]))
        write(norm(tape, sums), tape.op("weighted_sum", score, height, groups), n_words + int(begin))
        scores.append(score)
        weights.append(outputs[1])
    return Inside(vectors.read(slice(None)), scores, xp.concatenate(weights), heights.read(slice(None)))


def outside(tape: Tape, config: Config, p: Parameters, vectors: Variable, charts: Any, sites: DropoutSites) -> Variable:
    """Return the outside vectors of all words [N, d], from the inside vectors of all nodes; charts as for `inside`."""
    if fused_charts.can(tape, config):
        return fused_charts.outside(tape, config, p, vectors, getattr(charts, "sent", charts), sites)
    xp, (n_nodes, d), dtype, sites = tape.xp, vectors.value.shape, vectors.value.dtype, sites.part()
    n_words, layers = n_nodes - len(charts.spans), PairLayers(tape, config, p, "decompose", sites)
    contexts, firsts = (
        Rows(tape, 2 * n_nodes, d, dtype),
        Rows(tape, 2 * n_nodes, layers.width, dtype),
    )  # the outside vectors of all nodes, then the inside vectors
    contexts.write(vectors, n_nodes)
    firsts.write(layers.first(vectors), n_nodes)
    siblings = Rows(tape, 2 * n_nodes, config.d_score, dtype)  # every node as a left sibling, then as a right one
    for number, side in enumerate(("left", "right")):
        sibling_rows = mlp(tape, p, f"composition.outside.{side}", vectors, config.dropout, sites)
        siblings.write(sibling_rows, number * n_nodes)
    parents = Rows(tape, n_nodes, config.d_score, dtype)
    root_rows = tape.concatenate([constant(xp.zeros((1, d), dtype)), tape.reshape(p["composition.outside_root"], 1, d)])
    is_root = np.bincount(charts.roots, minlength=n_nodes).astype(np.int32)
    parent, sibling, on_right, bounds = parents_of(charts, n_words)
    steps = downwards(charts, n_words)
    step_order = np.concatenate(
        [np.arange(bounds[begin], bounds[end]) for begin, end in steps]
    )  # in the order of the steps
    starts = offsets_of(bounds[end] - bounds[begin] for begin, end in steps)
    parent_places, sibling_places = (
        places(tape.ops, rows[step_order], starts) for rows in (parent, on_right * n_nodes + sibling)
    )
    pairs = places(tape.ops, np.stack([parent, n_nodes + sibling], axis=1)[step_order].ravel(), 2 * starts)
    roles = np.stack([0 * on_right, 1 + on_right], axis=1)[step_order].ravel().astype(np.int32)
    arrays = on_device(tape.ops, {"roles": roles, "offsets": bounds, "is_root": is_root})
    roles = arrays["roles"]
    for t, (begin, end) in enumerate(steps):
        score = _products(tape, parents.read(parent_places[t]), siblings.read(sibling_places[t]))
        composed = layers(contexts.read(pairs[t]), firsts.read(pairs[t]), roles[2 * starts[t] : 2 * starts[t + 1]])
        sums = tape.op("weighted_sum", score, composed, arrays["offsets"][begin : end + 1] - int(bounds[begin]))
        sums = tape.add(sums, embedding(tape, root_rows, arrays["is_root"][begin:end]))
        contexts.write(sums, begin)
        if begin:
            firsts.write(layers.first(sums), begin)
            parents.write(mlp(tape, p, "composition.outside.parent", sums, config.dropout, sites), begin)
    return contexts.read(slice(0, n_words))


def downwards(charts: Charts, n_words: int) -> list[tuple[int, int]]:
    """Return (first node, last node + 1) of every step, the last step first, and then that of the words."""
    bounds = [0, *(n_words + charts.step_offsets).tolist()]
    return list(zip(bounds[:-1], bounds[1:], strict=True))[::-1]


def parents_of(charts: Charts, n_words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return every node's pairs of parent and sibling, node after node, and where each node's begin [nodes + 1].

    The pairs are three arrays [2 P]: the parent, the sibling, and 1 if the sibling is on the right, else 0.
    """
    n_splits = np.diff(charts.split_offsets)
    parent = np.repeat(n_words + np.arange(len(n_splits)), n_splits)
    child, sibling = (np.concatenate(sides) for sides in ((charts.left, charts.right), (charts.right, charts.left)))
    order = np.argsort(child, kind="stable")
    counts = np.bincount(child, minlength=n_words + len(n_splits))
    on_right = (order < len(parent)).astype(np.int64)
    return np.tile(parent, 2)[order], sibling[order], on_right, offsets_of(counts)


@dataclass(frozen=True)
class Trees:
    """The binary trees of all sentences."""

    nodes: np.ndarray  # [2 N - B] in post-order, sentence after sentence
    splits: np.ndarray  # [C] the split that a tree with this cell takes


def induced(charts: Charts, scores: np.ndarray, offsets: np.ndarray, cuts_atom: np.ndarray | None = None) -> Trees:
    """Return the trees that split every cell where its score is highest, the first of equal scores. Mirrors IO-5.

    `scores` [P] are those of all splits. `cuts_atom` [P] is true for splits at a point inside of an atom, which only
    cells without other splits take. Raises ValueError if a score is NaN.
    """
    if np.isnan(scores).any():
        raise ValueError(f"scores: NaN at split {int(np.argmax(np.isnan(scores)))}")
    first = charts.split_offsets[:-1]
    n_splits, n_words = np.diff(charts.split_offsets), int(offsets[-1])
    cell = np.repeat(np.arange(len(first)), n_splits)
    if cuts_atom is not None and len(first):
        has_others = np.logical_or.reduceat(~cuts_atom, first)
        scores = np.where(cuts_atom & has_others[cell], -np.inf, scores)
    highest = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[cell]) if len(first) else first
    splits = highest[np.unique(cell[highest], return_index=True)[1]]
    is_used = np.zeros(n_words + len(first), bool)
    is_used[charts.roots] = True
    for begin, end in downwards(charts, n_words)[:-1]:
        tree_splits = splits[begin - n_words : end - n_words][is_used[begin:end]]
        is_used[charts.left[tree_splits]] = is_used[charts.right[tree_splits]] = True
    nodes = np.flatnonzero(is_used)
    begins, ends = charts.ends(offsets)
    return Trees(nodes[np.lexsort((-begins[nodes], ends[nodes]))], splits)


def spans_of(charts: Charts, trees: Trees, offsets: np.ndarray) -> np.ndarray:
    """Return the first and the last word of every node of the trees [2 N - B, 2], within their sentences."""
    ends = np.stack(charts.ends(offsets), axis=1)[trees.nodes]
    return ends - offsets[np.searchsorted(offsets, ends[:, :1], side="right") - 1]


def splits_of(charts: Charts, trees: Trees, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first point, the last point + 1 and the chosen point of every cell of the trees.

    The points between words are numbered through all sentences.
    """
    begins, ends = charts.ends(offsets)
    cells = trees.nodes[trees.nodes >= offsets[-1]]
    inner = cells - offsets[-1]
    sentence, points = charts.owner[inner], ends[charts.left[trees.splits[inner]]]
    return begins[cells] - sentence, ends[cells] - sentence, points - sentence


def _products(tape: Tape, x: Variable, y: Variable) -> Variable:
    """Return the inner product of every row of x and the same row of y, divided by the root of their width [P]."""
    factor = x.value.shape[1] ** -0.5

    def backward(d_out: Array) -> None:
        gradients = (d_out * factor)[:, None]
        x.accumulate(gradients * y.value)
        y.accumulate(gradients * x.value)

    return tape.record((x.value * y.value).sum(axis=1) * factor, [x, y], backward)


def _height_above(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return the height of the higher part, plus 1."""
    higher = tape.select(left.value >= right.value, left, right)
    return tape.add(higher, constant(tape.xp.ones_like(higher.value)))
