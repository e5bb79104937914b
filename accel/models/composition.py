"""GPST's composition model over the charts of a whole batch, all cells of a step at once: IO-*.

Mirrors `refimpl.inside_outside` with the parameters `composition.*`. Nodes are numbered as `pruned_charts` does: the
words of all sentences, then the cells step by step. What is known of nodes are arrays of [nodes, width] whose rows are
filled step by step; so are their gradients. Structure stays on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.layers import DropoutSites, dropout, embedding, mlp, self_attention
from accel.models.gpst_config import Config
from accel.tape import Array, Tape, Variable, constant

Parameters = Mapping[str, Variable]


class Charts(NamedTuple):
    """What `pruned_charts` returns, on the host."""

    spans: np.ndarray  # [C, 2] first and last word of every cell, within its sentence
    owner: np.ndarray  # [C] its sentence
    split_offsets: np.ndarray  # [C+1]
    left: np.ndarray  # [P] the nodes of both parts of every split
    right: np.ndarray
    step_offsets: np.ndarray  # [T+1] the cells of every step
    roots: np.ndarray  # [B]

    def ends(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last word, of the batch, of every node; sentence b begins at `offsets[b]`."""
        words = np.arange(offsets[-1])
        cells = offsets[self.owner][:, None] + self.spans
        return np.concatenate([words, cells[:, 0]]), np.concatenate([words, cells[:, 1]])


def charts_of(ops: ModuleType, scores: Array, offsets: Array, window: int) -> Charts:
    """Return the pruned charts of all sentences for a parser's scores [N - B]."""
    return Charts(*(host(x) for x in ops.pruned_charts(scores, offsets, window=window)))


@dataclass(frozen=True)
class Inside:
    """All nodes, seen from inside."""

    vectors: Variable  # [nodes, d]
    scores: list[Variable]  # of the splits of every step
    weights: Array  # [P]
    heights: Variable  # [nodes, 1] expected


def inside(
    tape: Tape, config: Config, p: Parameters, leaves: Variable, charts: Charts, sites: DropoutSites
) -> Inside:
    """Return the inside vectors of all nodes, from those of the words [N, d], and the scores and weights of splits."""
    xp, n_nodes, dtype = tape.xp, len(leaves.value) + len(charts.spans), leaves.value.dtype
    vectors, heights = _Rows(tape, n_nodes, config.d_compose, dtype), _Rows(tape, n_nodes, 1, dtype)
    sides = {side: _Rows(tape, n_nodes, config.d_score, dtype) for side in ("left", "right")}

    def write(made: Variable, height: Variable, first: int) -> None:
        vectors.write(made, first)
        heights.write(height, first)
        for side, rows in sides.items():
            rows.write(mlp(tape, p, f"composition.inside.{side}", made, config.dropout, sites), first)

    write(leaves, Variable(xp.zeros((len(leaves.value), 1), dtype)), 0)
    scores, weights = [], [xp.zeros(0, dtype)]
    for begin, end in zip(charts.step_offsets[:-1], charts.step_offsets[1:], strict=True):
        bounds = charts.split_offsets[begin : end + 1]
        own = slice(int(bounds[0]), int(bounds[-1]))
        left, right = (_places(xp, nodes[own]) for nodes in (charts.left, charts.right))
        groups = xp.asarray(bounds - bounds[0])
        score = _products(tape, sides["left"].read(left), sides["right"].read(right))
        roles = np.arange(2 * len(left.all)) % 2
        pairs = vectors.read(left), vectors.read(right)
        composed = _over_pairs(tape, config, p, "compose", *pairs, roles, sites)
        mixed, outputs = tape.op_and_outputs("weighted_sum", score, composed, groups)
        height = tape.op("weighted_sum", score, _above(tape, heights.read(left), heights.read(right)), groups)
        write(_norm(tape, mixed), height, len(leaves.value) + int(begin))
        scores.append(score)
        weights.append(outputs[1])
    return Inside(vectors.read(slice(None)), scores, xp.concatenate(weights), heights.read(slice(None)))


def outside(
    tape: Tape, config: Config, p: Parameters, vectors: Variable, charts: Charts, sites: DropoutSites
) -> Variable:
    """Return the outside vectors of all words [N, d], from the inside vectors of all nodes."""
    xp, (n_nodes, d), dtype = tape.xp, vectors.value.shape, vectors.value.dtype
    n_words = n_nodes - len(charts.spans)
    seen = _Rows(tape, n_nodes, d, dtype)
    seen.write(vectors, 0)
    siblings = _Rows(tape, 2 * n_nodes, config.d_score, dtype)  # as left ones, then as right ones
    for number, side in enumerate(("left", "right")):
        made = mlp(tape, p, f"composition.outside.{side}", vectors, config.dropout, sites)
        siblings.write(made, number * n_nodes)
    found, parents = _Rows(tape, n_nodes, d, dtype), _Rows(tape, n_nodes, config.d_score, dtype)
    both = tape.concatenate([constant(xp.zeros((1, d), dtype)), tape.reshape(p["composition.outside_root"], 1, d)])
    is_root = np.bincount(charts.roots, minlength=n_nodes).astype(np.int32)
    parent, sibling, on_right, bounds = parents_of(charts, n_words)
    for begin, end in downwards(charts, n_words):
        own = slice(int(bounds[begin]), int(bounds[end]))
        above, beside, side = _places(xp, parent[own]), sibling[own], on_right[own]
        score = _products(tape, parents.read(above), siblings.read(_places(xp, side * n_nodes + beside)))
        roles = np.stack([np.zeros_like(side), 1 + side], axis=1).ravel()
        pairs = found.read(above), seen.read(_places(xp, beside))
        made = _over_pairs(tape, config, p, "decompose", *pairs, roles, sites)
        mixed = tape.op("weighted_sum", score, made, xp.asarray(bounds[begin : end + 1] - bounds[begin]))
        mixed = tape.add(mixed, embedding(tape, both, xp.asarray(is_root[begin:end])))
        found.write(mixed, begin)
        if begin:
            parents.write(mlp(tape, p, "composition.outside.parent", mixed, config.dropout, sites), begin)
    return found.read(slice(0, n_words))


def downwards(charts: Charts, n_words: int) -> list[tuple[int, int]]:
    """Return first and last + 1 of the nodes of every step, the last step first, and at the end those of the words."""
    bounds = [0, *(n_words + charts.step_offsets).tolist()]
    return list(zip(bounds[:-1], bounds[1:], strict=True))[::-1]


def parents_of(charts: Charts, n_words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the parents of all nodes, with the sibling and whether it stands on the right, and where each begins."""
    n_splits = np.diff(charts.split_offsets)
    parent = np.repeat(n_words + np.arange(len(n_splits)), n_splits)
    child, sibling = (np.concatenate(sides) for sides in ((charts.left, charts.right), (charts.right, charts.left)))
    order = np.argsort(child, kind="stable")
    counts = np.bincount(child, minlength=n_words + len(n_splits))
    on_right = (order < len(parent)).astype(np.int64)
    return np.tile(parent, 2)[order], sibling[order], on_right, np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True)
class Trees:
    """The binary trees of all sentences."""

    nodes: np.ndarray  # [2 N - B] in post-order, sentence after sentence
    splits: np.ndarray  # [C] the split of every cell that the tree would take


def induced(charts: Charts, scores: np.ndarray, offsets: np.ndarray) -> Trees:
    """Return the trees that split every cell where its score is highest, the first of equals. Mirrors IO-5.

    Raises ValueError if a score is NaN.
    """
    if np.isnan(scores).any():
        raise ValueError(f"scores: NaN at split {int(np.argmax(np.isnan(scores)))}")
    first = charts.split_offsets[:-1]
    n_splits, n_words = np.diff(charts.split_offsets), int(offsets[-1])
    cell = np.repeat(np.arange(len(first)), n_splits)
    highest = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[cell]) if len(first) else first
    splits = highest[np.unique(cell[highest], return_index=True)[1]]
    used = np.zeros(n_words + len(first), bool)
    used[charts.roots] = True
    for begin, end in downwards(charts, n_words)[:-1]:
        chosen = splits[begin - n_words : end - n_words][used[begin:end]]
        used[charts.left[chosen]] = used[charts.right[chosen]] = True
    nodes = np.flatnonzero(used)
    begins, ends = charts.ends(offsets)
    return Trees(nodes[np.lexsort((-begins[nodes], ends[nodes]))], splits)


class _Places(NamedTuple):
    """Rows to be read: all of them, each one once, and where in that each stands; None if none comes twice."""

    all: Array
    once: Array
    where: Array | None


def _places(xp: ModuleType, rows: np.ndarray) -> _Places:
    once, where = np.unique(rows, return_inverse=True)
    if len(once) == len(rows):
        return _Places(*2 * [xp.asarray(rows)], None)
    return _Places(*(xp.asarray(x) for x in (rows, once, where.astype(np.int32))))


class _Rows:
    """An array whose rows are written part by part and read meanwhile; its gradient is one array too.

    Every part is an entry of the tape, with a view of that array as its gradient, to which reading it adds in place.
    The backward pass ends with the part that was written first, which needs a gradient.
    """

    def __init__(self, tape: Tape, n_rows: int, width: int, dtype: Any) -> None:
        self.tape, self.value = tape, tape.xp.empty((n_rows, width), dtype)
        self._parts: list[tuple[slice, Variable]] = []
        self._slopes: Array | None = None

    def write(self, x: Variable, first: int) -> None:
        """Set the rows from `first` on to x [n, width]."""
        rows, is_first = slice(first, first + len(x.value)), not self._parts
        self.value[rows] = x.value

        def backward(d_out: Array) -> None:
            x.accumulate(d_out)
            if is_first:
                self._slopes = None

        self._parts.append((rows, self.tape.record(self.value[rows], [x], backward)))

    def read(self, rows: slice | _Places) -> Variable:
        """Return rows that are written."""
        ops, xp = self.tape.ops, self.tape.xp
        if isinstance(rows, slice):
            value, once, where = self.value[rows], rows, None
        else:
            value, once, where = xp.take(self.value, rows.all, axis=0), rows.once, rows.where

        def backward(d_out: Array) -> None:
            if where is not None:
                d_out = ops.embedding_vjp(d_out, (), self.value[: len(once)], where)[0]
            self._gradient()[once] += d_out

        return self.tape.record(value, [part for _, part in self._parts[:1]], backward)

    def _gradient(self) -> Array:
        if self._slopes is None:
            self._slopes = self.tape.xp.zeros_like(self.value)
            for rows, part in self._parts:
                part.gradient = self._slopes[rows]
        return self._slopes


def _over_pairs(
    tape: Tape, config: Config, p: Parameters, name: str, first: Variable, second: Variable, roles: np.ndarray,
    sites: DropoutSites,
) -> Variable:  # fmt: skip
    """Return what the layers of that name make of pairs of vectors [P, d]; `roles` [2 P] says what each of them is."""
    xp, (n_pairs, d) = tape.xp, first.value.shape
    x = tape.reshape(tape.concatenate([first, second], axis=1), 2 * n_pairs, d)
    offsets, numbers = xp.arange(n_pairs + 1) * 2, xp.asarray(roles.astype(np.int32))
    n_layers = config.compose_layers if name == "compose" else config.decompose_layers
    for own in (f"composition.{name}.{k}" for k in range(n_layers)):
        asked, draw = tape.add(x, embedding(tape, p[f"{own}.role"], numbers)), sites.draw(config.dropout)
        attended = self_attention(tape, p, f"{own}.attention", asked, x, config.compose_heads, offsets, draw)
        x = _norm(tape, tape.add(x, dropout(tape, attended, config.dropout, sites)))
        fed = mlp(tape, p, f"{own}.feed_forward", x, config.dropout, sites)
        x = _norm(tape, tape.add(x, dropout(tape, fed, config.dropout, sites)))
    total = x.value.reshape(n_pairs, 2, d).sum(axis=1)
    return _norm(tape, tape.record(total, [x], lambda d_out: x.accumulate(xp.repeat(d_out, 2, axis=0))))


def _norm(tape: Tape, x: Variable) -> Variable:
    """Return every row normalised, without scale and shift."""
    xp, d = tape.xp, x.value.shape[1]
    return tape.op("layer_norm", x, constant(xp.ones(d, x.value.dtype)), constant(xp.zeros(d, x.value.dtype)))


def _products(tape: Tape, x: Variable, y: Variable) -> Variable:
    """Return the product of every row of x with that of y, divided by the root of their width [P]."""
    factor = x.value.shape[1] ** -0.5

    def backward(d_out: Array) -> None:
        slopes = (d_out * factor)[:, None]
        x.accumulate(slopes * y.value)
        y.accumulate(slopes * x.value)

    return tape.record((x.value * y.value).sum(axis=1) * factor, [x, y], backward)


def _above(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return the larger height of both parts, plus 1."""
    higher = tape.select(left.value >= right.value, left, right)
    return tape.add(higher, constant(tape.xp.ones_like(higher.value)))


def host(x: Array) -> np.ndarray:
    """Return an array as a NumPy array."""
    return x.get() if hasattr(x, "get") else x
