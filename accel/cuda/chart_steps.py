"""The plain form of a pass over charts: two kernels a step, for any number of cells. The host must know the steps."""

from __future__ import annotations

from typing import Any

from accel.cuda import device
from accel.cuda import pair_layers as layers
from accel.cuda.device import Array
from accel.cuda.pair_layers import TILE_BYTES, WARPS, RowGradients, Rows, Weights
from accel.cuda.support.chart_arrays import Chart, Maps, Nodes, Pairs, Part, Passes, Step


def forward(
    chart: Chart, source: Array, first: tuple[Nodes, Maps], mixed: tuple[Nodes, Maps], pairs: Pairs,
    scored: tuple[Array, Array], weights: Weights, root: Array | None, recording: bool,
) -> None:  # fmt: skip
    """Compute the nodes without pairs, `first`, from the source; then the nodes of every step, `mixed`, from its pairs.

    scored: the two tables whose rows are multiplied to score pairs. root: the outside vector of roots; None in the
    inside pass. Unless `recording`, the layers only keep the rows of one step.
    """
    _nodes(chart, chart.steps[0], *first, pairs, scored, weights, source=source, root=root)
    for step in chart.steps[1:]:
        offset = 0 if recording else step.first
        rows = _rows(chart, step, mixed[0], offset)
        layers.forward(rows, weights, pairs.saved, chart.n_heads, chart.seeded(step.seed))
        _nodes(chart, step, *mixed, pairs, scored, weights, offset=offset, root=root)


def backward(
    chart: Chart, passes: Passes, first: Part, mixed: Part, pairs: Pairs, scored: tuple[Array, Array],
    weights: Weights, turned: Weights, row_gradients: RowGradients, work: tuple[Array, Array, Array],
) -> None:  # fmt: skip
    """Compute the gradients of all nodes, and of what each matrix product of the layers returns.

    turned: transposed weights. work: room for the gradients of the pairs' vectors, scores and heights.
    """
    shared = passes, pairs, scored, turned, row_gradients, work
    for step in reversed(chart.steps[1:]):
        _nodes_backward(chart, step, mixed, *shared)
        rows, drop = _rows(chart, step, mixed.nodes, 0), chart.seeded(step.seed)
        count, pitch = len(passes.given), passes.pitch
        layers.backward(rows, weights, turned, pairs.saved, row_gradients, work[0], chart.n_heads, drop, count, pitch)
    _nodes_backward(chart, chart.steps[0], first, *shared)


def _rows(chart: Chart, step: Step, nodes: Nodes, offset: int) -> Rows:
    return Rows(nodes.vectors, nodes.firsts, chart.rows, True, chart.roles, 2 * step.first, 2 * step.last, 2 * offset)


def _nodes(
    chart: Chart, step: Step, nodes: Nodes, maps: Maps, pairs: Pairs, scored: tuple[Array, Array], weights: Weights,
    *, source: Array | None = None, offset: int = 0, root: Array | None = None,
) -> None:  # fmt: skip
    """Compute the nodes of a step from its pairs, or from the source."""
    (m, d, s), mixing = maps.outer.shape, source is None
    vector = nodes.vectors if source is None else source
    roots = nodes.vectors if root is None else root, chart.rows if root is None else chart.is_root
    args = (
        vector, int(mixing), int(root is None), pairs.saved.ends, offset, chart.offsets, chart.shift, *scored,
        chart.left, chart.right, s, pairs.scores, pairs.weights, nodes.heights, *roots, nodes.vectors, nodes.rstds,
        weights.product, nodes.firsts, int(step.is_read), m * step.is_read, *maps, nodes.befores, nodes.hiddens,
        nodes.sides, *_seeds(chart, step, weights, mixing), len(nodes.vectors), d, *chart.drop[1:],
    )  # fmt: skip
    _launch("chart_nodes_forward", step, 2 * d, args, vector)


def _nodes_backward(
    chart: Chart, step: Step, part: Part, passes: Passes, pairs: Pairs, scored: tuple[Array, Array],
    transposes: Weights, row_gradients: RowGradients, work: tuple[Array, Array, Array],
) -> None:  # fmt: skip
    """Compute the gradients of the nodes of a step, and of the vectors, scores and heights of its pairs."""
    nodes, maps, of_nodes = part.nodes, part.maps, part.gradients
    (m, s, d), mixing = maps.outer.shape, step is not chart.steps[0]
    (d_vectors, d_heights), last = passes.given[0], passes.given[-1]
    args = (
        d_vectors, part.given_rows, d_heights, *last, passes.pitch, passes.attached, int(mixing),
        int(chart.is_root is None), *part.uses, row_gradients.rows, row_gradients.joints, chart.offsets, chart.shift,
        *scored, chart.left, chart.right, s, nodes.heights, pairs.saved.ends, pairs.weights, nodes.vectors, nodes.rstds,
        transposes.product, int(step.is_read), m * step.is_read, *maps, nodes.befores, *work, of_nodes.firsts,
        of_nodes.sides, of_nodes.befores, of_nodes.sums, *_seeds(chart, step, transposes, mixing), len(nodes.vectors),
        d, *chart.drop[1:],
    )  # fmt: skip
    _launch("chart_nodes_backward", step, 4 * d + 2 * s, args, nodes.vectors, len(passes.given))


def _seeds(chart: Chart, step: Step, weights: Weights, mixing: bool) -> tuple[Array, int, int]:
    return chart.drop.seeds[step.seed + 4 * len(weights.bias) * mixing :], step.begin, step.end


def _launch(kernel: str, step: Step, columns: int, args: tuple[Any, ...], like: Array, passes: int = 1) -> None:
    count, part = layers.tiles_of(step.end - step.begin, like.dtype, columns)
    shared = columns * TILE_BYTES // part
    device.launch("charts", kernel, (count, passes), (32, WARPS), args, like.dtype, chunks=part, shared=shared)
