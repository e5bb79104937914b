"""GPST's inside and outside passes over the charts of a batch on the GPU: two kernels a step, of any number of cells.

Mirrors `refimpl.gpst.composition` and `inside_outside` with the layers of `pair_layers`. The gradient of a node is read
from the pairs that use it, so that nothing is added in the memory of others; the gradients of weights are products of
all rows after the last step. Memory: what the layers save of the rows of all pairs, and, while the gradient is
computed, 9 d + f numbers a row and layer more.

The passes are no operations of the table, whose rows batch examples of the reference and check what they are given:
these take the steps of a chart that was made and checked before. `tests/kernels/test_cuda_charts.py` compares them with
the same passes in operations of the table.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda import pair_layers as layers
from accel.cuda.device import Array
from accel.cuda.pair_layers import TILE_BYTES, WARPS, Drop, Rows, Saved, Slopes, Weights
from accel.cuda.products import matmul, matmul_all
from accel.cuda.support.chart_arrays import Chart, Inside, Maps, Nodes, NodeSlopes, Outside, Pairs, Step
from accel.cuda.support.check import THREADS, dropout

__all__ = [
    "Chart", "Maps", "Step", "Weights", "drawn", "fits", "inside", "inside_vjp", "outside", "outside_vjp",
]  # fmt: skip


def fits(d: int, f: int, s: int) -> bool:
    """Return whether vectors of d features, f hidden ones and scores of s features fit into shared memory."""
    return (max(2 * d + max(4 * d, f), 4 * d + 2 * s)) * TILE_BYTES <= device.shared_limit()


def drawn(rate: float, seed: int | None, first: int, count: int) -> Drop:
    """Return the dropout of so many draws from the `first` one on, as `DropoutSites` draws them."""
    seeds = device.xp().empty(count, np.uint64)
    limits = dropout(rate if seed is not None else 0.0, seed or 0)
    grid = (-(-count // THREADS) if limits[1] else 0,)
    device.launch("charts", "draw_seeds", grid, (THREADS,), (seeds, limits[0], first, count), np.float32)
    return Drop(seeds, *limits[1:])


def inside(chart: Chart, leaves: Array, weights: Weights, maps: Maps, recording: bool) -> Inside:
    """Return the inside pass over all nodes, from the vectors of the words [N, d]; maps are of left and right parts."""
    n = chart.steps[-1].end
    nodes = _nodes(n, leaves, maps)
    pairs = _pairs(chart, leaves, weights, recording)
    scored = nodes.sides, nodes.sides
    _forward(chart, chart.steps[0], nodes, pairs, scored, weights, maps, source=leaves, heights=True)
    for step in chart.steps[1:]:
        skipped = 0 if recording else step.first
        _layers(chart, step, nodes.vectors, nodes.firsts, weights, pairs.saved, skipped)
        _forward(chart, step, nodes, pairs, scored, weights, maps, skipped=skipped, heights=True)
    return Inside(nodes, pairs)


def inside_vjp(
    given: list[tuple[Array, Array]], outputs: Inside, chart: Chart, weights: Weights, maps: Maps, attached: int
) -> tuple[Array, Weights, Maps | None]:
    """Return the gradients of leaves, weights and maps, summed over one pass or two with given slopes at once.

    given: of every pass the slopes of the nodes' vectors and heights. The scores are constants but in the first
    `attached` passes, at most one.
    """
    nodes, pairs = outputs
    room, n_summed, slopes, of_nodes, work = _room(nodes, pairs, len(given))
    turned, (turned_maps,) = _transposed(weights, maps)
    (d_vectors, d_heights), last = given[0], given[-1]
    passes, pitch = len(given), room.shape[1]
    scored, read, first = (nodes.sides, nodes.sides), chart.uses[0], (d_vectors, len(d_vectors), d_heights)
    for step in reversed(chart.steps):
        mixing = step is not chart.steps[0]
        _backward(
            chart, step, nodes, pairs, scored, turned, turned_maps, slopes, of_nodes, work, read, first,
            mixing=mixing, heights=True, n_maps=len(maps.inner) if attached else 0,
            others=(*last, pitch, attached), passes=passes,
        )  # fmt: skip
        if mixing:
            rows, drop = _rows(chart, step, nodes.vectors, nodes.firsts, 0), chart.seeded(step.seed)
            layers.backward(
                rows, weights, turned, pairs.saved, slopes, work[0], chart.n_heads, drop, passes, pitch
            )  # fmt: skip
    if passes > 1:
        room[0, :n_summed] += room[1, :n_summed]
    gradients = layers.of_weights(pairs.saved, slopes, chart.roles, chart.n_roles, zero_first=False)
    matmul(nodes.vectors.T, of_nodes.firsts, out=gradients[1][0])
    words = chart.steps[0].end
    of_maps = _of_maps(nodes, of_nodes, 0) if attached else None
    return of_nodes.sums[:words], Weights(*gradients), of_maps


def outside(
    chart: Chart, vectors: Array, weights: Weights, sibling_maps: Maps, parent_maps: Maps, root: Array, recording: bool
) -> Outside:
    """Return the outside pass over all nodes, from their inside vectors [M, d] and the outside vector of roots [d]."""
    xp, (n, d) = device.xp(), vectors.shape
    tables = xp.empty((2 * n, d), vectors.dtype), xp.empty((2 * n, 3 * d), vectors.dtype)
    inner, contexts = (
        _nodes(n, vectors, maps)._replace(vectors=tables[0][part], firsts=tables[1][part])
        for maps, part in ((sibling_maps, slice(n, None)), (parent_maps, slice(n)))
    )
    pairs = _pairs(chart, vectors, weights, recording)
    scored = contexts.sides, inner.sides
    _forward(chart, chart.steps[0], inner, pairs, scored, weights, sibling_maps, source=vectors)
    for step in chart.steps[1:]:
        skipped = 0 if recording else step.first
        _layers(chart, step, *tables, weights, pairs.saved, skipped)
        _forward(chart, step, contexts, pairs, scored, weights, parent_maps, skipped=skipped, root=root)
    return Outside(*tables, inner, contexts, pairs)


def outside_vjp(
    d_words: Array, outputs: Outside, chart: Chart, weights: Weights, sibling_maps: Maps, parent_maps: Maps
) -> tuple[Array, Weights, Maps, Maps, Array]:
    """Return the gradients of vectors, weights, both maps and the root's vector, from those of the words [N, d]."""
    *tables, inner, contexts, pairs = outputs
    slopes, work = layers.slopes_like(pairs.saved, weights), _scratch(pairs)
    of_contexts, of_inner = _node_slopes(contexts), _node_slopes(inner)
    turned, (parents, siblings) = _transposed(weights, parent_maps, sibling_maps)
    scored, words = (contexts.sides, inner.sides), len(d_words)
    shared = pairs, scored, turned
    for step in reversed(chart.steps[1:]):
        given = d_words, words, d_words
        _backward(
            chart, step, contexts, *shared, parents, slopes, of_contexts, work, chart.uses[0], given,
            mixing=True, n_maps=len(parent_maps.inner) * step.is_read,
        )  # fmt: skip
        rows = _rows(chart, step, *tables, 0)
        layers.backward(rows, weights, turned, pairs.saved, slopes, work[0], chart.n_heads, chart.seeded(step.seed))
    _backward(
        chart, chart.steps[0], inner, *shared, siblings, slopes, of_inner, work, chart.uses[1], (d_words, 0, d_words),
        n_maps=len(sibling_maps.inner),
    )  # fmt: skip
    gradients = layers.of_weights(pairs.saved, slopes, chart.roles, chart.n_roles, zero_first=False)
    matmul(inner.vectors.T, of_inner.firsts, out=gradients[1][0])
    matmul(contexts.vectors[words:].T, of_contexts.firsts[words:], out=gradients[1][0], add=True)
    of_maps = _of_maps(inner, of_inner, 0), _of_maps(contexts, of_contexts, words)
    return of_inner.sums, Weights(*gradients), *of_maps, of_contexts.sums[chart.roots].sum(axis=0)


def _nodes(n: int, like: Array, maps: Maps) -> Nodes:
    (m, d, s), xp = maps.outer.shape, device.xp()
    shapes = (n, d), (n, 3 * d), (n,), (n,), (m, n, d), (m, n, d), (m, n, s)
    return Nodes(*(xp.empty(shape, like.dtype) for shape in shapes))


def _pairs(chart: Chart, like: Array, weights: Weights, recording: bool) -> Pairs:
    """Return room for what is known of pairs; where nothing is recorded, the layers have room for one step."""
    xp, count = device.xp(), len(chart.left)
    rows = 2 * (count if recording else max(step.last - step.first for step in chart.steps))
    shapes = layers.saved_shapes(rows, weights, chart.n_heads).values()
    saved = Saved(*(xp.empty(shape, like.dtype) for shape in shapes))
    return Pairs(xp.empty(count, like.dtype), xp.empty(count, like.dtype), saved)


def _node_slopes(nodes: Nodes) -> NodeSlopes:
    xp = device.xp()
    return NodeSlopes(*(xp.empty_like(x) for x in (nodes.firsts, nodes.sides, nodes.befores, nodes.vectors)))


def _room(nodes: Nodes, pairs: Pairs, passes: int) -> tuple[Array, int, Slopes, NodeSlopes, tuple[Array, Array, Array]]:
    """Return room for the slopes of some passes [passes, *], how many of each are summed, and the parts of the first.

    The parts are the slopes of the layers, of the nodes, and of the pairs' vectors, scores and heights.
    """
    xp, saved = device.xp(), pairs.saved
    n_layers, n, d = saved.outs.shape
    shapes = {
        "joints": (n_layers, n, 3 * d), "outputs": (n_layers, n, d), "inners": saved.befores.shape,
        "outers": (n_layers, n, d), "firsts": nodes.firsts.shape, "sums": nodes.vectors.shape, "rows": (n, d),
        "ends": saved.ends.shape, "scores": pairs.scores.shape, "heights": pairs.scores.shape,
    }  # fmt: skip
    ends = np.cumsum([prod(shape) for shape in shapes.values()]).tolist()
    room = xp.empty((passes, ends[-1]), nodes.vectors.dtype)
    places = zip(shapes.items(), [0, *ends], ends, strict=False)
    part = {name: room[0, begin:end].reshape(shape) for (name, shape), begin, end in places}
    slopes = Slopes(*(part[name] for name in Slopes._fields))
    of_nodes = NodeSlopes(part["firsts"], xp.empty_like(nodes.sides), xp.empty_like(nodes.befores), part["sums"])
    n_summed = ends[list(shapes).index("sums")]
    return room, n_summed, slopes, of_nodes, (part["ends"], part["scores"], part["heights"])


def _scratch(pairs: Pairs) -> tuple[Array, Array, Array]:
    """Return room for the slopes of the pairs' vectors, scores and heights."""
    xp = device.xp()
    return xp.empty_like(pairs.saved.ends), xp.empty_like(pairs.scores), xp.empty_like(pairs.scores)


def _transposed(weights: Weights, *maps: Maps) -> tuple[Weights, list[Maps]]:
    """Return the weights of layers and of maps with rows and columns of each matrix exchanged."""
    turned, rest = layers.transposed_all(weights, *(x for of in maps for x in (of.inner, of.outer)))
    return turned, [of._replace(inner=rest[2 * i], outer=rest[2 * i + 1]) for i, of in enumerate(maps)]


def _rows(chart: Chart, step: Step, vectors: Array, firsts: Array, skipped: int) -> Rows:
    return Rows(vectors, firsts, chart.rows, True, chart.roles, 2 * step.first, 2 * step.last, 2 * skipped)


def _layers(
    chart: Chart, step: Step, vectors: Array, firsts: Array, weights: Weights, saved: Saved, skipped: int
) -> None:
    rows = _rows(chart, step, vectors, firsts, skipped)
    layers.forward(rows, weights, saved, chart.n_heads, chart.seeded(step.seed))


def _forward(
    chart: Chart, step: Step, nodes: Nodes, pairs: Pairs, scored: tuple[Array, Array], weights: Weights, maps: Maps,
    *, source: Array | None = None, skipped: int = 0, heights: bool = False, root: Array | None = None,
) -> None:  # fmt: skip
    """Compute the nodes of a step from its pairs, or from the source."""
    (m, d, s), mixing = maps.outer.shape, source is None
    vector = nodes.vectors if source is None else source
    known = nodes.vectors if root is None else root, chart.rows if root is None else chart.is_root
    args = (
        vector, int(mixing), int(heights), pairs.saved.ends, skipped, chart.offsets, chart.shift, *scored,
        chart.left, chart.right, s, pairs.scores, pairs.weights, nodes.heights, *known, nodes.vectors, nodes.rstds,
        weights.product, nodes.firsts, int(step.is_read), m * step.is_read, *maps, nodes.befores, nodes.hiddens,
        nodes.sides, *_seeds(chart, step, weights, mixing), len(nodes.vectors), d, *chart.drop[1:],
    )  # fmt: skip
    _launch("chart_nodes_forward", step, 2 * d, args, vector)


def _backward(
    chart: Chart, step: Step, nodes: Nodes, pairs: Pairs, scored: tuple[Array, Array], turned: Weights, maps: Maps,
    slopes: Slopes, of_nodes: NodeSlopes, work: tuple[Array, Array, Array], uses: tuple[Array, Array],
    given: tuple[Array, int, Array], *, mixing: bool = False, heights: bool = False, n_maps: int = 0,
    others: tuple[Array, Array, int, int] | None = None, passes: int = 1,
) -> None:  # fmt: skip
    """Compute the slopes of the nodes of a step, and those of its pairs' vectors and scores; `maps` are transposed.

    others: what is given of a second pass, where its slopes lie, and how many passes have maps.
    """
    d, s = nodes.vectors.shape[1], maps.outer.shape[1]
    args = (
        *given, *(others or (*given[::2], 0, 1)), int(mixing), int(heights), *uses, slopes.rows, slopes.joints,
        *scored, chart.left, chart.right, s,
        nodes.heights, pairs.saved.ends, pairs.weights, chart.offsets, chart.shift, nodes.vectors, nodes.rstds,
        turned.product, int(step.is_read), n_maps, *maps, nodes.befores, *work, of_nodes.firsts, of_nodes.sides,
        of_nodes.befores, of_nodes.sums, *_seeds(chart, step, turned, mixing), len(nodes.vectors), d,
        *chart.drop[1:],
    )  # fmt: skip
    _launch("chart_nodes_backward", step, 4 * d + 2 * s, args, nodes.vectors, passes)


def _seeds(chart: Chart, step: Step, weights: Weights, mixing: bool) -> tuple[Array, int, int]:
    return chart.drop.seeds[step.seed + 4 * len(weights.bias) * mixing :], step.begin, step.end


def _launch(kernel: str, step: Step, columns: int, args: tuple[Any, ...], like: Array, passes: int = 1) -> None:
    grid = -(-(step.end - step.begin) // layers.tile_rows(like.dtype)), passes
    device.launch("charts", kernel, grid, (32, WARPS), args, like.dtype, shared=columns * TILE_BYTES)


def _of_maps(nodes: Nodes, slopes: NodeSlopes, begin: int) -> Maps:
    """Return the gradients of the maps of the nodes from `begin` on."""
    xp = device.xp()
    befores, sides = slopes.befores[:, begin:], slopes.sides[:, begin:]
    inner, outer = (xp.empty((*befores.shape[::2], x.shape[2]), x.dtype) for x in (befores, sides))
    matmul_all([nodes.vectors[begin:].T] * len(befores), list(befores), list(inner))
    matmul(nodes.hiddens[:, begin:].swapaxes(1, 2), sides, out=outer)
    return Maps(inner, befores.sum(axis=1), outer, sides.sum(axis=1))
