"""The fast form of a pass over charts: all steps in one cooperative launch. The host need not know the steps."""

from __future__ import annotations

from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.pair_layers import TILE_BYTES, WARPS, RowGradients, Weights, tiles_of
from accel.cuda.support.chart_arrays import Chart, Maps, Nodes, Pairs, Part, Passes
from accel.cuda.support.persistent import word


def forward(
    chart: Chart, source: Array, first: tuple[Nodes, Maps], mixed: tuple[Nodes, Maps], pairs: Pairs,
    scored: tuple[Array, Array], weights: Weights, root: Array | None, recording: bool,
) -> None:  # fmt: skip
    """Compute what `chart_steps.forward` computes, always with all that the gradient needs: `recording` is not read."""
    (leaves, maps), (nodes, other_maps) = first, mixed
    roots = nodes.vectors if root is None else root, chart.rows if root is None else chart.is_root
    args = (
        *_steps(chart), source, len(maps.inner), *maps, leaves.befores, leaves.hiddens, leaves.sides, leaves.vectors,
        leaves.firsts, *_scored(chart, scored), pairs.scores, pairs.weights, nodes.heights, *roots, nodes.rstds,
        len(other_maps.inner), *other_maps, nodes.befores, nodes.hiddens, nodes.sides, nodes.vectors, nodes.firsts,
        *_pairs(chart, pairs, weights, weights, nodes),
    )  # fmt: skip
    d, f = weights.inner.shape[1:]
    _launch("chart_pass_forward", 2 * d + max(3 * d, f), chart, args, source)


def backward(
    chart: Chart, passes: Passes, first: Part, mixed: Part, pairs: Pairs, scored: tuple[Array, Array],
    weights: Weights, turned: Weights, row_gradients: RowGradients, work: tuple[Array, Array, Array],
) -> None:  # fmt: skip
    """Compute what `chart_steps.backward` computes."""
    (d_vectors, d_heights), last = passes.given[0], passes.given[-1]
    leaves, nodes = first.nodes, mixed.nodes
    args = (
        *_steps(chart), d_vectors, mixed.given_rows, d_heights, *last, passes.pitch, len(passes.given), passes.attached,
        first.given_rows, *first.uses, len(first.maps.inner), *first.maps, leaves.befores, leaves.vectors,
        *first.gradients, *mixed.uses, *_scored(chart, scored), nodes.heights, pairs.weights, nodes.rstds,
        len(mixed.maps.inner), *mixed.maps, nodes.befores, nodes.vectors, nodes.firsts, *mixed.gradients, *work,
        *row_gradients, *_pairs(chart, pairs, weights, turned, nodes),
    )  # fmt: skip
    d, f = weights.inner.shape[1:]
    _launch("chart_pass_backward", max(2 * d + max(4 * d, f), 4 * d + 2 * scored[0].shape[-1]), chart, args, d_vectors)


def _steps(chart: Chart) -> tuple[Any, ...]:
    assert chart.bounds is not None
    return chart.bounds, chart.bounds.shape[1] - 1, int(chart.is_root is not None), word()


def _scored(chart: Chart, scored: tuple[Array, Array]) -> tuple[Any, ...]:
    return chart.offsets, chart.shift, *scored, chart.left, chart.right, scored[0].shape[-1]


def _pairs(chart: Chart, pairs: Pairs, weights: Weights, matrices: Weights, nodes: Nodes) -> tuple[Any, ...]:
    """Return the arguments of the layers, with `matrices`: the weights, or their transposes."""
    layers, d, f = weights.inner.shape
    heads = chart.n_heads, d // chart.n_heads
    sizes = pairs.saved.outs.shape[1], layers, weights.bias.shape[1], *heads, f, len(nodes.vectors)
    return chart.rows, chart.roles, *matrices, *pairs.saved, chart.drop.seeds, *sizes, *chart.drop[1:]


def _launch(kernel: str, columns: int, chart: Chart, args: tuple[Any, ...], like: Array) -> None:
    """Run a kernel in tiles that suit a step of mean size, in as many blocks as run at once, or as there are tiles."""
    assert chart.bounds is not None
    rows, steps = max(2 * len(chart.left), chart.n_nodes), max(1, chart.bounds.shape[1] - 1)
    part = tiles_of(-(-rows // steps), like.dtype, columns)[1]
    size = TILE_BYTES // part
    grid = (min(device.multiprocessors(), -(-rows * like.itemsize // size)),)
    settings = {"chunks": part, "shared": columns * size, "cooperative": True}
    device.launch("chart_passes", kernel, grid, (32, WARPS), args, like.dtype, **settings)
