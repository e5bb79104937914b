"""GPST's inside and outside passes where a backend has whole passes, as `accel.cuda.charts`, on the tape.

They compute what `composition.inside` and `outside` do step by step, with the same draws of dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of, on_device
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape, Variable
from accel.models.gpst.config import Config

Parameters = Mapping[str, Variable]

ROLES = {"compose": 2, "decompose": 3}
_ENDS = "in", "in_bias", "out", "out_bias"
_PARTS = "query", "key", "value"


def can(tape: Tape, config: Config) -> bool:
    """Return whether the backend has whole passes over charts, and layers of this width fit into it."""
    charts = getattr(tape.ops, "charts", None)
    layers = min(config.compose_layers, config.decompose_layers)
    return charts is not None and layers > 0 and charts.fits(config.d_compose, 4 * config.d_compose, config.d_score)


def sent(ops: ModuleType, charts: Any, pairs: tuple[np.ndarray, ...]) -> dict[str, Array]:
    """Return what both passes read of the charts, on the device after one copy.

    `pairs` is the result of `composition.parents_of`.
    """
    parent, sibling, on_right, bounds = pairs
    n_nodes, rows = len(bounds) - 1, np.stack([charts.left, charts.right], axis=1).ravel()
    numbers = 2 * np.arange(len(parent))
    inner = {
        "rows": rows, "roles": np.tile(np.arange(2), len(charts.left)), "left": charts.left,
        "right": n_nodes + charts.right, "offsets": charts.split_offsets,
    } | _uses(rows, np.arange(len(rows)), n_nodes, 0)  # fmt: skip
    outer = {
        "rows": np.stack([parent, n_nodes + sibling], axis=1).ravel(),
        "roles": np.stack([0 * on_right, 1 + on_right], axis=1).ravel(), "left": parent,
        "right": on_right * n_nodes + sibling, "offsets": bounds, "roots": charts.roots,
        "is_root": np.bincount(charts.roots, minlength=n_nodes),
    } | _uses(parent, numbers, n_nodes, 0) | _uses(sibling, numbers + 1, n_nodes, 1)  # fmt: skip
    arrays = {f"inside {name}": x for name, x in inner.items()} | {f"outside {name}": x for name, x in outer.items()}
    types = {name: np.int64 if "offsets" in name else np.int32 for name in arrays}
    return on_device(ops, {name: x.astype(types[name], copy=False) for name, x in arrays.items()})


def inside(
    tape: Tape, config: Config, p: Parameters, leaves: Variable, charts: Any, sites: DropoutSites
) -> tuple[Variable, Variable, Array, Variable]:
    """Return vectors, scores and weights of splits, and heights, as `composition.inside`."""
    ops, n_words = tape.ops.charts, len(leaves.value)
    maps = _maps(tape, p, "inside.left", "inside.right")
    ends, bounds = n_words + charts.step_offsets, charts.split_offsets[charts.step_offsets]
    steps = [(0, n_words, 0, 0, 2)]
    steps += [(*step, 2) for step in zip(ends[:-1], ends[1:], bounds[:-1], bounds[1:], strict=True)]
    chart = _chart(tape, config, sites, "compose", n_words, steps, charts.sent, "inside")
    inputs = [leaves, *_weights(tape, config, p, "compose"), *maps]
    weights, of_maps = ops.Weights(*(x.value for x in inputs[1:9])), ops.Maps(*(x.value for x in maps))

    def compute() -> Any:
        return ops.inside(chart, leaves.value, weights, of_maps, tape.recording)

    outputs = compute()
    nodes, scores = outputs.nodes, Variable(outputs.pairs.scores)
    saved = None if tape.recompute else outputs

    def backward(slopes: Sequence[Array | None]) -> None:
        xp, (d_vectors, d_heights) = tape.xp, slopes
        d_vectors = xp.zeros_like(nodes.vectors) if d_vectors is None else xp.ascontiguousarray(d_vectors)
        d_heights = xp.zeros_like(nodes.heights) if d_heights is None else d_heights.ravel()
        detached = not scores.needs_gradient
        d_leaves, d_weights, d_maps = ops.inside_vjp(
            d_vectors, d_heights, saved or compute(), chart, weights, of_maps, detached
        )
        _accumulate(inputs, [d_leaves, *d_weights, *(d_maps or ())])

    vectors, heights = _recorded(tape, [nodes.vectors, nodes.heights[:, None]], inputs, backward)
    return vectors, scores, outputs.pairs.weights, heights


def outside(
    tape: Tape, config: Config, p: Parameters, vectors: Variable, charts: Any, sites: DropoutSites,
    downwards: Sequence[tuple[int, int]],
) -> Variable:  # fmt: skip
    """Return the outside vectors of all words, as `composition.outside`.

    downwards: the first node of every step, and that after the last one.
    """
    ops, n_nodes = tape.ops.charts, len(vectors.value)
    n_words = n_nodes - len(charts.spans)
    siblings, parents = _maps(tape, p, "outside.left", "outside.right"), _maps(tape, p, "outside.parent")
    bounds, steps = host(charts.sent["outside offsets"]), [(0, n_nodes, 0, 0, 2)]
    steps += [(begin, end, bounds[begin], bounds[end], int(begin > 0)) for begin, end in downwards]
    chart = _chart(tape, config, sites, "decompose", 0, steps, charts.sent, "outside")
    weights_of_layers, root = _weights(tape, config, p, "decompose"), p["composition.outside_root"]
    inputs = [vectors, *weights_of_layers, *siblings, *parents, root]
    values = [x.value for x in inputs]
    weights, maps = ops.Weights(*values[1:9]), (ops.Maps(*values[9:13]), ops.Maps(*values[13:17]))

    def compute() -> Any:
        return ops.outside(chart, vectors.value, weights, *maps, values[-1], tape.recording)

    outputs = compute()
    words = outputs.contexts.vectors[:n_words]
    saved = None if tape.recompute else outputs

    def backward(slopes: Sequence[Array | None]) -> None:
        d_words = tape.xp.ascontiguousarray(slopes[0])
        d_vectors, d_weights, *d_maps, d_root = ops.outside_vjp(d_words, saved or compute(), chart, weights, *maps)
        _accumulate(inputs, [d_vectors, *d_weights, *d_maps[0], *d_maps[1], d_root])

    return _recorded(tape, [words], inputs, backward)[0]


def _chart(
    tape: Tape, config: Config, sites: DropoutSites, layers: str, shift: int, steps: Sequence[Sequence[int]],
    there: Mapping[str, Array], name: str,
) -> Any:  # fmt: skip
    """Return the chart of the pass of that name; dropout is drawn in the order of the steps."""
    charts, of_steps, first = tape.ops.charts, [], sites.count
    for *bounds, n_maps in steps:
        of_steps.append(charts.Step(*map(int, bounds), sites.count - first, n_maps > 0))
        sites.count += 4 * _count(config, layers) * (len(of_steps) > 1) + n_maps  # the first step has no pairs
    arrays = {key.split()[1]: x for key, x in there.items() if key.startswith(f"{name} ")}
    uses = [(arrays.pop(f"use_offsets{k}"), arrays.pop(f"uses{k}")) for k in range(2) if f"uses{k}" in arrays]
    drop = charts.drawn(config.dropout, sites.seed, first, sites.count - first)
    return charts.Chart(of_steps, ROLES[layers], shift, config.compose_heads, uses, drop, **arrays)


def _uses(nodes: np.ndarray, rows: np.ndarray, n_nodes: int, number: int) -> dict[str, np.ndarray]:
    """Return the rows of pairs that read each node, node after node, and where those of a node begin."""
    counts = np.bincount(nodes, minlength=n_nodes)
    return {f"use_offsets{number}": offsets_of(counts), f"uses{number}": rows[np.argsort(nodes, kind="stable")]}


def _count(config: Config, layers: str) -> int:
    return config.compose_layers if layers == "compose" else config.decompose_layers


def _weights(tape: Tape, config: Config, p: Parameters, layers: str) -> list[Variable]:
    """Return the weights and biases of `pair_layers`, each of all layers of this name."""
    count, d = _count(config, layers), config.d_compose

    def stacked(*ends: str) -> Variable:
        return tape.concatenate([p[f"composition.{layers}.{k}.{end}"] for k in range(count) for end in ends])

    matrices = tape.reshape(stacked(*(f"attention.{part}" for part in _PARTS)), count, 3, d, d)
    product = tape.reshape(tape.transpose(matrices, 0, 2, 1, 3), count, d, 3 * d)
    biases = tape.reshape(stacked(*(f"attention.{part}_bias" for part in _PARTS)), count, 3 * d)
    roles = tape.reshape(stacked("role"), count, ROLES[layers], d)
    shapes = {"attention.output": (d, d), "feed_forward.in": (d, 4 * d), "feed_forward.out": (4 * d, d)}
    others = [
        tape.reshape(stacked(name + suffix), count, *shape[at:])
        for name, shape in shapes.items()
        for at, suffix in enumerate(("", "_bias"))
    ]
    return [_by_role(tape, roles, product, biases), product, *others]


def _by_role(tape: Tape, roles: Variable, product: Variable, biases: Variable) -> Variable:
    """Return what is added to queries, keys and values by role [K, R, 3 d]; values do not depend on roles."""
    values = slice(2 * roles.value.shape[2], None)
    added = tape.matmul(roles.value, product.value)
    added[:, :, values] = 0
    added += biases.value[:, None]

    def backward(d_out: Array) -> None:
        slopes = d_out.copy()
        slopes[:, :, values] = 0
        roles.accumulate(tape.matmul(slopes, product.value.swapaxes(1, 2)))
        product.accumulate(tape.matmul(roles.value.swapaxes(1, 2), slopes))
        biases.accumulate(d_out.sum(axis=1))

    return tape.record(added, [roles, product, biases], backward)


def _maps(tape: Tape, p: Parameters, *names: str) -> list[Variable]:
    """Return the parts of maps of one shape, each of all of them."""
    parts = ([p[f"composition.{name}.{end}"] for name in names] for end in _ENDS)
    return [tape.reshape(tape.concatenate(x), len(names), *x[0].value.shape) for x in parts]


def _accumulate(inputs: Sequence[Variable], gradients: Sequence[Array]) -> None:
    for x, gradient in zip(inputs, gradients, strict=False):
        x.accumulate(gradient)


def _recorded(
    tape: Tape, values: Sequence[Array], inputs: Sequence[Variable], backward: Callable[[list[Array | None]], None]
) -> list[Variable]:
    """Return variables with one backward pass, which gets the slopes of all; None for one that has none."""
    slopes: list[Array | None] = [None] * len(values)
    reached = tape.xp.zeros(0)

    def run(_: Array) -> None:
        given, slopes[:] = list(slopes), [None] * len(slopes)
        backward(given)

    joint = tape.record(reached, inputs, run)
    for weights in inputs[1:]:
        weights.waits = True

    def part(number: int, value: Array) -> Variable:
        def keep(d_out: Array) -> None:
            slopes[number] = d_out
            if joint.gradient is None:
                joint.accumulate(reached)

        return tape.record(value, [joint], keep)

    return [part(number, value) for number, value in enumerate(values)]
