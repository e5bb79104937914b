"""Layers over pairs of vectors, and tables of rows that are written step by step, for GPST's charts.

Mirrors the layers of `refimpl.gpst.composition.compose` and `decompose` (clause IO-1). The first layer's queries, keys
and values of a vector are the same in every pair, so they are computed once, and pairs gather them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, on_device
from accel.autodiff.layers import DropoutSites, mlp_hidden
from accel.autodiff.recomputation import recomputed
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.models.gpst.config import Config
from accel.models.passes import Pass

Parameters = Mapping[str, Variable]
NARROW = 128
"""Up to this width all layers are one operation; for wider vectors, separate products of all rows are faster."""


class PairLayers:
    """The layers of one name, "compose" or "decompose", and the state that all their calls share."""

    def __init__(self, tape: Tape, config: Config, p: Parameters, name: str, sites: DropoutSites) -> None:
        self.tape, self.config, self.p, self.sites = tape, config, p, sites
        count = config.compose_layers if name == "compose" else config.decompose_layers
        self.names = [f"composition.{name}.{k}" for k in range(count)]
        self.width = 3 * config.d_compose if count else config.d_compose
        self._products = [self._joined(layer, ("query", "key", "value")) for layer in self.names]
        self._biases = [self._bias(layer) for layer in self.names]
        self._weights = self._all_weights() if self.names and config.d_compose <= NARROW else []

    def first(self, x: Variable) -> Variable:
        """Return the queries, keys and values of the first layer [n, width] for vectors x [n, d]; x without layers."""
        return self.tape.linear(x, self._products[0]) if self.names else x

    def __call__(self, x: Variable, first: Variable, roles: Array) -> Variable:
        """Return the outputs of the layers for pairs of vectors [P, d].

        `x` [2 P, d] holds the vectors pair after pair, `first` the result of the method `first` for these vectors, and
        `roles` [2 P] int32 their roles.
        """
        return recomputed(self._output, Pass(self.tape, self.config, self.p, self.sites), x, first, roles)

    def _output(self, f: Pass, x: Variable, first: Variable, roles: Array) -> Variable:
        tape, p, config = f.tape, f.p, f.config
        if self._weights:
            draws = [f.sites.draw(config.dropout) for _ in range(4 * len(self.names))]
            seeds = tuple(draw["seed"] for draw in draws)
            options = roles, config.compose_heads, draws[0]["rate"], seeds
            return tape.op("pair_layers", x, first, *self._weights, *options)
        for k, (layer, bias) in enumerate(zip(self.names, self._biases, strict=True)):
            rows = tape.linear(x, self._products[k]) if k else first
            draw = f.sites.draw(config.dropout)
            attended = tape.op("pair_attention", rows, bias, roles, config.compose_heads, draw["rate"], draw["seed"])
            x = _added(f, x, attended, f"{layer}.attention.output")
            hidden = mlp_hidden(tape, p, f"{layer}.feed_forward", x, config.dropout, f.sites)
            x = _added(f, x, hidden, f"{layer}.feed_forward.out")
        total = x.value[::2] + x.value[1::2]
        return norm(tape, tape.record(total, [x], lambda d_out: x.accumulate(tape.xp.repeat(d_out, 2, axis=0))))

    def _all_weights(self) -> list[Variable]:
        """Return the weights and biases that the op `pair_layers` takes, each stacked for all layers."""
        ends = "attention.output", "feed_forward.in", "feed_forward.out"
        parts = self._biases, self._products
        others = [
            [self.p[f"{layer}.{end}{suffix}"] for layer in self.names] for end in ends for suffix in ("", "_bias")
        ]
        return [self._stacked(variables) for variables in (*parts, *others)]

    def _stacked(self, variables: list[Variable]) -> Variable:
        tape = self.tape
        return tape.reshape(tape.concatenate(variables), len(variables), *variables[0].value.shape)

    def _joined(self, layer: str, parts: tuple[str, ...], suffix: str = "") -> Variable:
        variables = [self.p[f"{layer}.attention.{part}{suffix}"] for part in parts]
        return self.tape.concatenate(variables, axis=variables[0].value.ndim - 1)

    def _bias(self, layer: str) -> Variable:
        """Return the vectors added to queries, keys and values by role [R, 3 d]; values do not depend on roles."""
        query_key = self._joined(layer, ("query", "key"))
        zeros = constant(self.tape.xp.zeros_like(self.p[f"{layer}.attention.value"].value))
        product = self.tape.concatenate([query_key, zeros], axis=1)
        return self.tape.linear(
            self.p[f"{layer}.role"], product, self._joined(layer, ("query", "key", "value"), "_bias")
        )


def _added(f: Pass, x: Variable, inner: Variable, matrix: str) -> Variable:
    """Return x plus a linear map of a layer's output, normalised."""
    y, draw = f.tape.linear(inner, f.p[matrix]), f.sites.draw(f.config.dropout)
    return f.tape.op("residual_norm", x, y, f.p[f"{matrix}_bias"], draw["rate"], draw["seed"])


def norm(tape: Tape, x: Variable) -> Variable:
    """Return every row normalised, without scale and shift."""
    xp, d = tape.xp, x.value.shape[1]
    return tape.op("layer_norm", x, constant(xp.ones(d, x.value.dtype)), constant(xp.zeros(d, x.value.dtype)))


class Places(NamedTuple):
    """Rows to read: all of them, the distinct ones, and the index of each row among these, or None if none repeats.

    A backend with `add_rows` needs only the rows.
    """

    rows: Array
    distinct: Array
    index: Array | None


def places(ops: ModuleType, rows: np.ndarray, bounds: np.ndarray) -> list[Places]:
    """Return the places of every step: those of step t are `rows[bounds[t] : bounds[t + 1]]`."""
    if hasattr(ops, "add_rows"):
        parts = (rows[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True))
        return [Places(part, part, None) for part in parts]
    above = int(rows.max(initial=0)) + 1
    step = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    keys, index = np.unique(step * above + rows, return_inverse=True)
    starts = np.searchsorted(keys, above * np.arange(len(bounds)))
    arrays = {"rows": rows, "distinct": keys % above, "index": (index - starts[step]).astype(np.int32)}
    all_rows, distinct, place = on_device(ops, arrays).values()
    steps = []
    for begin, end, first, last in np.stack([bounds[:-1], bounds[1:], starts[:-1], starts[1:]], axis=1).tolist():
        repeats = last - first < end - begin
        step_rows = all_rows[begin:end]
        steps.append(
            Places(step_rows, distinct[first:last], place[begin:end]) if repeats else Places(step_rows, step_rows, None)
        )
    return steps


class Rows:
    """A table whose rows are written part by part and read meanwhile; its gradient is one table too.

    Every part is an entry of the tape, and its gradient is a view of the gradient's table, to which the backward pass
    of `read` adds in place. The backward pass ends with the part that was written first, which must need a gradient.
    """

    def __init__(self, tape: Tape, n_rows: int, width: int, dtype: Any) -> None:
        self.tape, self.value = tape, tape.xp.empty((n_rows, width), dtype)
        self._parts: list[tuple[slice, Variable]] = []
        self._gradients: Array | None = None

    def write(self, x: Variable, first: int) -> None:
        """Set the rows from `first` on to x [n, width]."""
        rows, is_first = slice(first, first + len(x.value)), not self._with_gradient()
        self.value[rows] = x.value

        def backward(d_out: Array) -> None:
            x.accumulate(d_out)
            if is_first:
                self._gradients = None

        self._parts.append((rows, self.tape.record(self.value[rows], [x], backward)))

    def read(self, rows: slice | Places) -> Variable:
        """Return rows that have been written."""
        ops, xp = self.tape.ops, self.tape.xp
        if isinstance(rows, slice):
            value, distinct, index = self.value[rows], rows, None
        else:
            value, distinct, index = xp.take(self.value, rows.rows, axis=0), rows.distinct, rows.index

        def backward(d_out: Array) -> None:
            if isinstance(rows, Places) and hasattr(ops, "add_rows"):
                ops.add_rows(self._gradient(), rows.rows, d_out)
                return
            if index is not None:
                d_out = ops.embedding_vjp(d_out, (), self.value[: len(distinct)], index)[0]
            self._gradient()[distinct] += d_out

        return self.tape.record(value, self._with_gradient()[:1], backward)

    def _with_gradient(self) -> list[Variable]:
        return [part for _, part in self._parts if part.needs_gradient]

    def _gradient(self) -> Array:
        if self._gradients is None:
            self._gradients = self.tape.xp.zeros_like(self.value)
            for rows, part in self._parts:
                part.gradient = self._gradients[rows]
        return self._gradients
