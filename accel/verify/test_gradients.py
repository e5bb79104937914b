"""Every gradient against the directional derivative of the float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.compare import EPS32, Disagreement, assert_none_wrong, assert_shape
from accel.verify.expected import cast, references
from accel.verify.op import Case, Example, Op

STEP = 1e-5
STENCIL = ((2, -1 / 12), (1, 8 / 12), (-1, -8 / 12), (-2, 1 / 12))
"""A central difference with an error of order STEP^4: a LayerNorm over nearly equal numbers is strongly curved."""


def moved(arguments: Example, direction: Example, step: float) -> Example:
    return {key: x + step * direction[key] if key in direction else x for key, x in arguments.items()}


def directions(op: Op, arguments: Example, seed: list[int]) -> Example:
    draw = np.random.default_rng(seed)
    return {key: draw.standard_normal(x.shape) for key, x in arguments.items() if key in op.diff}


def objective(op: Op, case: Case, d_outs: list[np.ndarray]) -> float:
    return float(sum((d * out[0]).sum() for d, out in zip(d_outs, references(op, case, np.float64), strict=True)))


@dataclass(frozen=True)
class Slope:
    """The derivative of the float64 reference along one random direction."""

    d_out: np.ndarray  # of the outputs of the whole batch
    along: Example  # the direction, as the arguments of the whole batch
    value: float


def slope(op: Op, case: Case, seed: int) -> Slope:
    step = 10 * STEP if op.saturated else STEP  # functions there are nearly flat
    shared = directions(op, case.shared, [seed])
    per_example = [directions(op, e, [seed, b]) for b, e in enumerate(case.examples)]
    draw = np.random.default_rng([seed, 99])
    d_outs = [draw.standard_normal(out[0].shape) for out in references(op, case, np.float64)]
    value = 0.0
    for n_steps, weight in STENCIL:
        examples = [moved(e, d, n_steps * step) for e, d in zip(case.examples, per_example, strict=True)]
        value += weight * objective(op, Case(moved(case.shared, shared, n_steps * step), examples), d_outs) / step
    along = op.batched(Case(case.shared | shared, [e | d for e, d in zip(case.examples, per_example, strict=True)]))
    return Slope(np.concatenate(d_outs), along, value)


def compare_gradients(op: Op, backend: ModuleType, case: Case, expected: Slope) -> None:
    arguments, along = op.batched(case), expected.along
    gradients = op.vjp(backend, arguments, expected.d_out)
    for name in op.diff:
        assert_shape(gradients[name], arguments[name], f"{op.clause} {op.name}_vjp, {name}")
    terms = {name: float((gradients[name] * along[name]).sum()) for name in op.diff}
    size = max(abs(expected.value), *(float(np.abs(gradients[name] * along[name]).sum()) for name in op.diff), 1e-3)
    if not abs(sum(terms.values()) - expected.value) <= 1e-7 * size:
        parts = " + ".join(f"{term:.9g} of {name}" for name, term in terms.items())
        what = f"{op.clause} {op.name}_vjp in float64, along one direction"
        raise Disagreement(what, parts, sum(terms.values()), expected.value, 1e-7 * size)

    narrow = op.vjp(backend, cast(arguments, np.float32), expected.d_out.astype(np.float32))
    allowed = allowed_errors(op, arguments, expected.d_out, gradients)
    for name in op.diff:
        wrong = ~(np.abs(narrow[name] - gradients[name]) <= allowed[name])
        what = f"{op.clause} {op.name}_vjp in float32, {name}"
        assert_none_wrong(narrow[name], gradients[name], allowed[name], wrong, what)


@given(data=st.data())
def test_gradients(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """1e-7 relative in float64 along one random direction; float32 agrees with float64 to its own rounding."""
    case = data.draw(op.cases if op.saturated else op.cases.map(gentle), label="case")
    compare_gradients(op, backend, case, slope(op, case, data.draw(st.integers(0, 2**16), label="direction")))


def allowed_errors(op: Op, arguments: Example, d_out: np.ndarray, gradients: Example) -> Example:
    """Return the bound of float32 gradients: 256 eps32 of the largest, or of 1, or the row's condition."""
    largest = max(float(np.abs(g).max(initial=0.0)) for g in gradients.values())
    allowed = {name: np.asarray(256 * EPS32 * max(largest, 1.0)) for name in op.diff}
    if op.gradient_conditions is not None:
        for name, condition in zip(op.diff, op.gradient_conditions(arguments, d_out), strict=True):
            allowed[name] = np.maximum(allowed[name], EPS32 * condition)
    return allowed


def gentle(case: Case) -> Case:
    """Scale every array to at most 2, so that a central difference can follow: huge scores make a step of a softmax."""

    def scaled(x: object) -> object:
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        return (x / max(1.0, np.abs(x).max(initial=0.0) / 2)).astype(np.float32).astype(np.float64)

    shared, *examples = ({key: scaled(x) for key, x in e.items()} for e in (case.shared, *case.examples))
    return Case(shared, examples)
