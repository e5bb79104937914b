"""GPST's inside and outside passes on the tape, for a backend that has whole passes, as `accel.cuda.charts`.

They compute what `composition.inside` and `outside` compute step by step, with the same draws of dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, offsets_of, on_device
from accel.autodiff.arrays import places as places_of
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.gpst.config import Config

Parameters = Mapping[str, Variable]

ROLES = {"compose": 2, "decompose": 3}
_ENDS = "in", "in_bias", "out", "out_bias"
_PARTS = "query", "key", "value"
ALIGNED = 4  # numbers: 16 bytes of float32


def can(tape: Tape, config: Config) -> bool:
    """Return whether the backend has whole passes over charts, and layers of this width fit into it."""
    charts = getattr(tape.ops, "charts", None)
    layers = min(config.compose_layers, config.decompose_layers)
    return charts is not None and layers > 0 and charts.fits(config.d_compose, 4 * config.d_compose, config.d_score)


class Sent(NamedTuple):
    """The arrays of charts made on the host that both passes read; `accel.cuda.chart_plan.Plan` has the same fields."""

    n_nodes: int
    steps: np.ndarray  # [3, T + 1] where each step's nodes, its pairs of the outside and of the inside pass begin
    n_words: int
    inside: dict[str, Any]  # arrays on the device; `uses` is a list of pairs of arrays
    outside: dict[str, Any]


def sent(ops: ModuleType, charts: Any, pairs: tuple[np.ndarray, ...]) -> Sent:
    """Return the arrays that both passes read of the charts, sent to the device in one copy.

    `pairs` is the result of `composition.parents_of`.
    """
    parent, sibling, on_right, bounds = pairs
    n_nodes, rows = len(bounds) - 1, np.stack([charts.left, charts.right], axis=1).ravel()
    numbers, n_words = 2 * np.arange(len(parent)), n_nodes - len(charts.spans)
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
    there = on_device(ops, {name: x.astype(types[name], copy=False) for name, x in arrays.items()})
    nodes = np.append(0, n_words + charts.step_offsets)
    steps = np.stack([nodes, bounds[nodes], np.append(0, charts.split_offsets[charts.step_offsets])])
    return Sent(n_nodes, steps, n_words, *(_of_pass(there, name) for name in ("inside", "outside")))


def _of_pass(there: Mapping[str, Array], name: str) -> dict[str, Any]:
    """Return the arrays of the pass of that name; `uses` are the rows that read each node, see `_uses`."""
    arrays = {key.split()[1]: x for key, x in there.items() if key.startswith(f"{name} ")}
    uses = [(arrays.pop(f"use_offsets{k}"), arrays.pop(f"uses{k}")) for k in range(2) if f"uses{k}" in arrays]
    return arrays | {"uses": uses}


def inside(
    tape: Tape, config: Config, p: Parameters, leaves: Variable, plan: Any, sites: DropoutSites
) -> tuple[Variable, Variable, Array, Variable]:
    """Return vectors, scores and weights of splits, and heights, as `composition.inside`.

    `plan` is a `Sent`, or an `accel.cuda.chart_plan.Plan`.
    """
    ops = tape.ops.charts
    weights_of_layers, (maps,) = _weights(tape, config, p, "compose", ("inside.left", "inside.right"))
    chart = _chart(tape, config, sites, plan, "compose")
    inputs = [leaves, *weights_of_layers, *maps]
    weights, of_maps = ops.Weights(*(x.value for x in inputs[1:9])), ops.Maps(*(x.value for x in maps))

    def compute() -> Any:
        return ops.inside(chart, leaves.value, weights, of_maps, tape.recording)

    outputs = compute()
    nodes, scores = outputs.nodes, Variable(outputs.pairs.scores)
    saved = None if tape.recompute else outputs

    def backward(*passes: Sequence[Array | None]) -> None:
        xp, d_nodes = tape.xp, []
        for d_vectors, d_heights in (d_outs for d_outs in passes if any(x is not None for x in d_outs)):
            d_vectors = xp.zeros_like(nodes.vectors) if d_vectors is None else xp.ascontiguousarray(d_vectors)
            d_heights = xp.zeros_like(nodes.heights) if d_heights is None else d_heights.ravel()
            d_nodes.append((d_vectors, d_heights))
        attached = int(any(x is not None for x in passes[0]))
        gradients = ops.inside_vjp(d_nodes, saved or compute(), chart, weights, of_maps, attached)
        d_leaves, d_weights, d_maps = gradients
        _accumulate(inputs, [d_leaves, *d_weights, *(d_maps or ())])

    values = [nodes.vectors, nodes.heights[:, None]]
    vectors, heights = _recorded(tape, values, inputs, backward, lambda: not scores.needs_gradient)
    return vectors, scores, outputs.pairs.weights, heights


def outside(tape: Tape, config: Config, p: Parameters, vectors: Variable, plan: Any, sites: DropoutSites) -> Variable:
    """Return the outside vectors of all words, as `composition.outside`; `plan` as for `inside`."""
    ops, n_words = tape.ops.charts, plan.n_words
    groups = ("outside.left", "outside.right"), ("outside.parent",)
    weights_of_layers, (siblings, parents) = _weights(tape, config, p, "decompose", *groups)
    chart = _chart(tape, config, sites, plan, "decompose")
    root = p["composition.outside_root"]
    inputs = [vectors, *weights_of_layers, *siblings, *parents, root]
    values = [x.value for x in inputs]
    weights, maps = ops.Weights(*values[1:9]), (ops.Maps(*values[9:13]), ops.Maps(*values[13:17]))

    def compute() -> Any:
        return ops.outside(chart, vectors.value, weights, *maps, values[-1], tape.recording)

    outputs = compute()
    words = outputs.contexts.vectors[:n_words]
    saved = None if tape.recompute else outputs

    def backward(gradients: Sequence[Array | None]) -> None:
        d_words = tape.xp.ascontiguousarray(gradients[0])
        d_vectors, d_weights, *d_maps, d_root = ops.outside_vjp(d_words, saved or compute(), chart, weights, *maps)
        _accumulate(inputs, [d_vectors, *d_weights, *d_maps[0], *d_maps[1], d_root])

    return _recorded(tape, [words], inputs, backward)[0]


def _chart(tape: Tape, config: Config, sites: DropoutSites, plan: Any, layers: str) -> Any:
    """Return the chart of the pass with these layers; a step draws for every layer, then for the maps of its nodes."""
    charts, inside, part = tape.ops.charts, layers == "compose", sites.part()
    n_maps, per_step = (2 if inside else 1), 4 * _count(config, layers)
    shared = ROLES[layers], plan.n_words if inside else 0, config.compose_heads
    arrays, n_steps = plan.inside if inside else plan.outside, plan.steps.shape[1]
    drop = charts.drawn(config.dropout, part.seed, 2 + n_steps * (per_step + n_maps))
    if charts.walks(tape.recording):
        bounds = tape.xp.asarray(plan.steps)
        return charts.Chart([], *shared, drop=drop, bounds=bounds, **arrays)
    steps, at = _steps(plan, plan.steps[2 if inside else 1]), 2
    of_steps = [charts.Step(0, steps[0][1] if inside else plan.n_nodes)]
    for step in steps[1:] if inside else reversed(steps):
        of_steps.append(charts.Step(*step, at, is_read=step[0] > 0))
        at += per_step + n_maps
    return charts.Chart(of_steps, *shared, drop=drop, **arrays)


def _steps(plan: Any, pairs: np.ndarray) -> list[tuple[int, ...]]:
    """Return (first node, last node + 1, first pair, last pair + 1) of every step that has nodes, the words first."""
    steps = zip(*(x.tolist() for row in (plan.steps[0], pairs) for x in (row[:-1], row[1:])), strict=True)
    return [step for step in steps if step[0] < step[1]]


def _uses(nodes: np.ndarray, rows: np.ndarray, n_nodes: int, number: int) -> dict[str, np.ndarray]:
    """Return the rows of pairs that read each node, node after node, and where the rows of each node begin."""
    counts = np.bincount(nodes, minlength=n_nodes)
    return {f"use_offsets{number}": offsets_of(counts), f"uses{number}": rows[np.argsort(nodes, kind="stable")]}


def _count(config: Config, layers: str) -> int:
    return config.compose_layers if layers == "compose" else config.decompose_layers


def _weights(
    tape: Tape, config: Config, p: Parameters, layers: str, *maps: Sequence[str]
) -> tuple[list[Variable], list[list[Variable]]]:
    """Return the weights and biases that `pair_layers` takes, each for all layers, and those of every group of maps."""
    count, d, f = _count(config, layers), config.d_compose, 4 * config.d_compose

    def of_layers(*ends: str) -> list[Variable]:
        return [p[f"composition.{layers}.{k}.{end}"] for k in range(count) for end in ends]

    shapes = {"attention.output": (d, d), "feed_forward.in": (d, f), "feed_forward.out": (f, d)}
    groups = {
        "products": (of_layers(*(f"attention.{part}" for part in _PARTS)), (count, 3, d, d)),
        "biases": (of_layers(*(f"attention.{part}_bias" for part in _PARTS)), (count, 3 * d)),
        "roles": (of_layers("role"), (count, ROLES[layers], d)),
    }
    for name, shape in shapes.items():
        groups |= {
            name: (of_layers(name), (count, *shape)),
            f"{name}_bias": (of_layers(f"{name}_bias"), (count, shape[1])),
        }
    for number, names in enumerate(maps):
        for end in _ENDS:
            parts = [p[f"composition.{name}.{end}"] for name in names]
            groups[f"{number} {end}"] = parts, (len(names), *parts[0].value.shape)
    products, biases, roles, *others = _joined(tape, list(groups.values()))
    product = tape.reshape(tape.transpose(products, 0, 2, 1, 3), count, d, 3 * d)
    weights = [_by_role(tape, roles, product, biases), product, *others[: 2 * len(shapes)]]
    rest = others[2 * len(shapes) :]
    return weights, [rest[i : i + len(_ENDS)] for i in range(0, len(rest), len(_ENDS))]


def _joined(tape: Tape, groups: Sequence[tuple[Sequence[Variable], tuple[int, ...]]]) -> list[Variable]:
    """Return one array for every group, its arrays one after another in the given shape; one call copies all groups."""
    places, size = places_of({str(i): shape for i, (_, shape) in enumerate(groups)}, ALIGNED)
    room = tape.xp.empty(size, groups[0][0][0].value.dtype)
    variables, pairs = [], []
    for (parts, shape), place in zip(groups, places.values(), strict=True):
        whole, at = room[place], 0
        for x in parts:
            pairs.append((whole[at : at + x.value.size].reshape(x.value.shape), x.value))
            at += x.value.size
        variables.append(tape.record(whole.reshape(shape), parts, partial(_share, parts)))
    tape.ops.copy_all(pairs)
    return variables


def _share(parts: Sequence[Variable], d_out: Array) -> None:
    gradients, at = d_out.ravel(), 0
    for x in parts:
        x.accumulate(gradients[at : at + x.value.size].reshape(x.value.shape), owned=False)
        at += x.value.size


def _by_role(tape: Tape, roles: Variable, product: Variable, biases: Variable) -> Variable:
    """Return the vectors added to queries, keys and values by role [K, R, 3 d]; values do not depend on roles."""
    ops, arrays = tape.ops.role_biases, (roles.value, product.value)

    def backward(d_out: Array) -> None:
        if product.gradient is None or not product.owned:
            product.accumulate(tape.xp.zeros_like(product.value))
        d_roles, d_biases = ops.role_biases_vjp(d_out, *arrays, product.gradient)
        roles.accumulate(d_roles)
        biases.accumulate(d_biases)

    return tape.record(ops.role_biases(*arrays, biases.value), [roles, product, biases], backward)


def _accumulate(inputs: Sequence[Variable], gradients: Sequence[Array]) -> None:
    for x, gradient in zip(inputs, gradients, strict=False):
        x.accumulate(gradient)


def _recorded(
    tape: Tape, values: Sequence[Array], inputs: Sequence[Variable], backward: Callable[..., None],
    second: Callable[[], bool] | None = None,
) -> list[Variable]:  # fmt: skip
    """Return variables that share one backward pass, which gets the gradient of each variable, or None without one.

    `second` returns whether the tape runs backwards for the second time. If it is given, the shared entry waits for the
    second run, and gets the gradients of both runs.
    """
    gradients: list[list[Array | None]] = [[None] * len(values) for _ in range(1 if second is None else 2)]
    empty = tape.xp.empty(0)

    def run(_: Array) -> None:
        passes, gradients[:] = list(gradients), [[None] * len(values) for _ in gradients]
        backward(*passes)

    joint = tape.record(empty, inputs, run)
    joint.waits = second is not None
    for weights in inputs[1:]:
        weights.waits = True

    def part(number: int, value: Array) -> Variable:
        def keep(d_out: Array) -> None:
            gradients[second is not None and second()][number] = d_out
            if joint.gradient is None:
                joint.accumulate(empty)

        return tape.record(value, [joint], keep)

    return [part(number, value) for number, value in enumerate(values)]
