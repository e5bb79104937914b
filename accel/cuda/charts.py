"""GPST's inside and outside passes over the charts of a batch on the GPU: two kernels a step, or one a pass.

Mirrors `refimpl.gpst.composition` and `inside_outside` with the layers of `pair_layers`. A node collects its gradient
from the pairs that read it, so that no block adds to the memory of another; the gradients of weights are products of
all rows after the last step. Memory: what the layers save of the rows of all pairs, and, while the gradient is
computed, 9 d + f numbers a row and layer more.

The passes are no operations of the table: these batch examples of the reference and check their arguments, but the
passes take the steps of a chart that was made and checked before. `tests/kernels/test_cuda_charts.py` compares them
with the same passes in operations of the table.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from accel.cuda import chart_passes, chart_steps, device, forms
from accel.cuda import pair_layers as layers
from accel.cuda.device import Array
from accel.cuda.pair_layers import PARTS, TILE_BYTES, Drop, RowGradients, Saved, Weights
from accel.cuda.products import matmul, matmul_all
from accel.cuda.support.chart_arrays import (
    Chart,
    Inside,
    Maps,
    NodeGradients,
    Nodes,
    Outside,
    Pairs,
    Part,
    Passes,
    Step,
    room,
)
from accel.cuda.support.check import THREADS, dropout
from accel.cuda.support.seeds import IS_PLACE

__all__ = [
    "Chart", "Maps", "Step", "Weights", "drawn", "fits", "inside", "inside_vjp", "outside", "outside_vjp", "walks",
]  # fmt: skip


def fits(d: int, f: int, s: int) -> bool:
    """Return whether the smallest tiles with d features, f hidden ones and scores of s fit into shared memory."""
    return max(2 * d + max(4 * d, f), 4 * d + 2 * s) * TILE_BYTES // PARTS[0] <= device.shared_limit()


def walks(recording: bool) -> bool:
    """Return whether all steps of a pass run in one launch, so that the host need not know how many there are."""
    return recording and forms.current().kernels == "fast"


def drawn(rate: float, seed: int | None, count: int) -> Drop:
    """Return the dropout of the first `count` places of a pass with this seed, with the seeds of `DropoutSites`."""
    seeds = device.xp().empty(count, np.uint64)
    first, threshold, multiplier = dropout(rate if seed is not None else 0.0, seed or 0)
    grid = (-(-count // THREADS) if threshold else 0,)
    device.launch("charts", "draw_seeds", grid, (THREADS,), (seeds, first, threshold, count), np.float32)
    return Drop(seeds, threshold & ~np.uint64(IS_PLACE), multiplier)


def inside(chart: Chart, leaves: Array, weights: Weights, maps: Maps, recording: bool) -> Inside:
    """Return the inside pass over all nodes, from the vectors of the words [N, d]; maps: of left and of right parts."""
    nodes, pairs = _nodes(chart, leaves, maps), _pairs(chart, leaves, weights, recording)
    scored, of = (nodes.sides, nodes.sides), (nodes, maps)
    _form(chart).forward(chart, leaves, of, of, pairs, scored, weights, None, recording)
    return Inside(nodes, pairs)


def inside_vjp(
    given: list[tuple[Array, Array]], outputs: Inside, chart: Chart, weights: Weights, maps: Maps, attached: int
) -> tuple[Array, Weights, Maps | None]:
    """Return the gradients of leaves, weights and maps, summed over one or two backward passes that run at once.

    given: for each pass, the gradients of the nodes' vectors and heights. attached: 0 or 1; in the passes after the
    first `attached` ones the scores are constants. The maps have no gradient, None, if it is 0.
    """
    nodes, pairs = outputs
    whole, n_summed, row_gradients, of_nodes, work = _room_of_gradients(chart, nodes, pairs, len(given))
    transposes, (turned_maps,) = _transposed(weights, maps)
    passes, scored = Passes(given, whole.shape[1], attached), (nodes.sides, nodes.sides)
    part = Part(nodes, turned_maps, of_nodes, chart.uses[0], len(given[0][0]))
    _form(chart).backward(chart, passes, part, part, pairs, scored, weights, transposes, row_gradients, work)
    if len(given) > 1:
        whole[0, :n_summed] += whole[1, :n_summed]
    gradients = layers.of_weights(pairs.saved, row_gradients, chart.roles, chart.n_roles, zero_first=False)
    matmul(nodes.vectors.T, of_nodes.firsts, out=gradients[1][0])
    of_maps = _of_maps(nodes, of_nodes, 0) if attached else None
    return of_nodes.sums[: chart.shift], Weights(*gradients), of_maps


def outside(
    chart: Chart, vectors: Array, weights: Weights, sibling_maps: Maps, parent_maps: Maps, root: Array, recording: bool
) -> Outside:
    """Return the outside pass over all nodes, from their inside vectors [M, d] and the outside vector of roots [d]."""
    n, d = vectors.shape
    tables = room([(2 * n, d), (2 * n, 3 * d)], vectors.dtype, chart.bounds is not None)[1]
    inner, contexts = (
        _nodes(chart, vectors, maps, tables[0][part], tables[1][part])
        for maps, part in ((sibling_maps, slice(n, None)), (parent_maps, slice(n)))
    )
    pairs, scored = _pairs(chart, vectors, weights, recording), (contexts.sides, inner.sides)
    first, mixtures = (inner, sibling_maps), (contexts, parent_maps)
    _form(chart).forward(chart, vectors, first, mixtures, pairs, scored, weights, root, recording)
    return Outside(tables[0], tables[1], inner, contexts, pairs)


def outside_vjp(
    d_words: Array, outputs: Outside, chart: Chart, weights: Weights, sibling_maps: Maps, parent_maps: Maps
) -> tuple[Array, Weights, Maps, Maps, Array]:
    """Return the gradients of vectors, weights, both maps and the root's vector, from those of the words [N, d]."""
    inner, contexts, pairs = outputs[2:]
    *_, row_gradients, of_contexts, work = _room_of_gradients(chart, contexts, pairs, 1)
    shapes = [x.shape for x in (inner.firsts, inner.sides, inner.befores, inner.vectors)]
    of_inner = NodeGradients(*room(shapes, d_words.dtype, chart.bounds is not None)[1])
    transposes, (parents, siblings) = _transposed(weights, parent_maps, sibling_maps)
    words, passes, scored = len(d_words), Passes([(d_words, d_words)], 0, 1), (contexts.sides, inner.sides)
    first = Part(inner, siblings, of_inner, chart.uses[1], 0)
    mixtures = Part(contexts, parents, of_contexts, chart.uses[0], words)
    _form(chart).backward(chart, passes, first, mixtures, pairs, scored, weights, transposes, row_gradients, work)
    gradients = layers.of_weights(pairs.saved, row_gradients, chart.roles, chart.n_roles, zero_first=False)
    matmul(inner.vectors.T, of_inner.firsts, out=gradients[1][0])
    matmul(contexts.vectors[words:].T, of_contexts.firsts[words:], out=gradients[1][0], add=True)
    of_maps = _of_maps(inner, of_inner, 0), _of_maps(contexts, of_contexts, words)
    return of_inner.sums, Weights(*gradients), *of_maps, of_contexts.sums[chart.roots].sum(axis=0)


def _form(chart: Chart) -> ModuleType:
    return chart_steps if chart.bounds is None else chart_passes


def _nodes(chart: Chart, like: Array, maps: Maps, vectors: Array | None = None, firsts: Array | None = None) -> Nodes:
    """Return room for what a pass computes for nodes; vectors and firsts may have room elsewhere."""
    (m, d, s), n = maps.outer.shape, chart.n_nodes
    word_shapes = [(n, d), (n, 3 * d)] if vectors is None else [(0, d), (0, 3 * d)]
    parts = room([*word_shapes, (n,), (n,), (m, n, d), (m, n, d), (m, n, s)], like.dtype, chart.bounds is not None)[1]
    return Nodes(*parts) if vectors is None else Nodes(vectors, firsts, *parts[2:])


def _pairs(chart: Chart, like: Array, weights: Weights, recording: bool) -> Pairs:
    """Return room for what a pass computes for pairs; unless `recording`, the layers have room for one step."""
    count = len(chart.left)
    rows = 2 * (count if recording else max(step.last - step.first for step in chart.steps))
    shapes = [(count,), (count,), *layers.saved_shapes(rows, weights, chart.n_heads).values()]
    scores, of_pairs, *saved = room(shapes, like.dtype, chart.bounds is not None)[1]
    return Pairs(scores, of_pairs, Saved(*saved))


def _room_of_gradients(
    chart: Chart, nodes: Nodes, pairs: Pairs, passes: int
) -> tuple[Array, int, RowGradients, NodeGradients, tuple[Array, Array, Array]]:
    """Return room for the gradients of passes [passes, *], how many numbers of each are summed, and the parts of one.

    The parts are those of the first pass: the gradients in the layers, of the nodes, and of the pairs' vectors, scores
    and heights. The gradients of the nodes' maps lie elsewhere: at most one pass has them.
    """
    saved, zero, dtype = pairs.saved, chart.bounds is not None, nodes.vectors.dtype
    n_layers, n, d = saved.outs.shape
    summed = [(n_layers, n, 3 * d), (n_layers, n, d), saved.befores.shape, (n_layers, n, d), nodes.firsts.shape]
    others = [nodes.vectors.shape, (n, d), saved.ends.shape, pairs.scores.shape, pairs.scores.shape]
    whole, parts = room([*summed, *others], dtype, zero, passes)
    joints, outputs, inners, outers, firsts, sums, rows, *work = parts
    sides, befores = room([nodes.sides.shape, nodes.befores.shape], dtype, zero)[1]
    n_summed = (device.address(rows) - device.address(whole)) // dtype.itemsize
    return (
        whole, n_summed, RowGradients(rows, joints, outputs, inners, outers),
        NodeGradients(firsts, sides, befores, sums), (work[0], work[1], work[2]),
    )  # fmt: skip


def _transposed(weights: Weights, *maps: Maps) -> tuple[Weights, list[Maps]]:
    """Return the weights of layers and of maps with rows and columns of each matrix exchanged."""
    transposes, rest = layers.transposed_all(weights, *(x for of in maps for x in (of.inner, of.outer)))
    return transposes, [of._replace(inner=rest[2 * i], outer=rest[2 * i + 1]) for i, of in enumerate(maps)]


def _of_maps(nodes: Nodes, gradients: NodeGradients, begin: int) -> Maps:
    """Return the gradients of the maps of the nodes from `begin` on."""
    xp = device.xp()
    befores, sides = gradients.befores[:, begin:], gradients.sides[:, begin:]
    inner, outer = (xp.empty((*befores.shape[::2], x.shape[2]), x.dtype) for x in (befores, sides))
    matmul_all([nodes.vectors[begin:].T] * len(befores), list(befores), list(inner))
    matmul(nodes.hiddens[:, begin:].swapaxes(1, 2), sides, out=outer)
    return Maps(inner, befores.sum(axis=1), outer, sides.sum(axis=1))
