"""How a gradient is compared: with the directional derivative of the float64 reference, and float32 with float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from accel import cpu
from accel.verify.arrays import to_library
from accel.verify.compare import (
    FLOAT32,
    FLOAT64,
    Disagreement,
    Precision,
    allowance,
    assert_none_wrong,
    assert_shape,
    rounded,
)  # fmt: skip
from accel.verify.expected import NEIGHBOURS, cast, references
from accel.verify.op import Case, Example, Op, is_float
from accel.verify.precision import declared, held

STEP = 1e-5
ROOT = 16
LARGE = 8.0
"""Larger inputs saturate a softmax or a gate; the gradient is then compared at smaller inputs, too."""
STENCILS = {"second": (1 / 2,), "fourth": (8 / 12, -1 / 12), "sixth": (45 / 60, -9 / 60, 1 / 60)}
"""Weights of f(x + n STEP) - f(x - n STEP), n = 1, 2, 3, whose errors have these orders in STEP.

The difference of two estimates shows how far the worse one is off. Where f is large and its slope small, the rounding
of f is a larger error; the sixth order is for functions that are so curved that the second order is further off than
rounding, such as a LayerNorm over nearly equal numbers.
"""


def moved(arguments: Example, direction: Example, step: float) -> Example:
    return {key: x + step * direction[key] if key in direction else x for key, x in arguments.items()}


def directions(op: Op, arguments: Example, seed: list[int]) -> Example:
    draw = np.random.default_rng(seed)
    return {key: draw.standard_normal(x.shape) for key, x in arguments.items() if key in op.diff}


@dataclass(frozen=True)
class Slope:
    """The derivative of the float64 reference along one random direction, drawn by `seed`."""

    seed: int
    d_out: np.ndarray  # of the outputs of the whole batch
    along: Example  # the direction, as the arguments of the whole batch
    value: float
    off: float  # the largest error that `value` may have

    @property
    def follows(self) -> bool:
        """Return whether the difference quotient is accurate: its error is at most a thousandth of its value."""
        return self.off <= 1e-3 * max(abs(self.value), 1e-3)


def slope(op: Op, case: Case, seed: int, alone: str = "") -> Slope:
    """Return the slope along the direction of this seed or, with the name of an argument, along its part of it."""
    step = 10 * STEP if op.saturated else STEP  # such functions are nearly flat
    parts = [directions(op, case.shared, [seed]), *(directions(op, e, [seed, b]) for b, e in enumerate(case.examples))]
    shared, *per_example = ({key: x for key, x in part.items() if alone in ("", key)} for part in parts)
    draw = np.random.default_rng([seed, 99])

    def outputs(n_steps: int) -> list[np.ndarray]:
        x = n_steps * step
        examples = [moved(e, d, x) for e, d in zip(case.examples, per_example, strict=True)]
        return [out[0] for out in references(op, Case(moved(case.shared, shared, x), examples), np.float64)]

    def weighed(outs: list[np.ndarray]) -> float:
        return float(sum((d * out).sum() for d, out in zip(d_outs, outs, strict=True)))

    outs = outputs(1)
    d_outs = [draw.standard_normal(out.shape) for out in outs]
    d_outs = d_outs if op.saturated else [_some_zero(draw, d_out) for d_out in d_outs]
    differences = [weighed(outs) - weighed(outputs(-1)), weighed(outputs(2)) - weighed(outputs(-2))]
    sizes = sum(float(np.abs(d * out).sum()) for d, out in zip(d_outs, outs, strict=True))
    rounding = 4 * FLOAT64.eps * sizes * 2 * sum(map(abs, STENCILS["sixth"])) / step  # eight u of each value
    worse, value = (_estimate(differences, order) / step for order in ("second", "fourth"))
    if abs(value - worse) > rounding:
        differences.append(weighed(outputs(3)) - weighed(outputs(-3)))
        worse, value = value, _estimate(differences, "sixth") / step
    along = op.batched(Case(case.shared | shared, [e | d for e, d in zip(case.examples, per_example, strict=True)]))
    return Slope(seed, np.concatenate(d_outs), along, value, abs(value - worse) + rounding)


def _some_zero(draw: np.random.Generator, d_out: np.ndarray) -> np.ndarray:
    """Return a gradient in which some numbers are 0, and one row of several: as of labels that do not count.

    Those of gates are left as they are: where nearly all gradients are tiny, float32 has none of them.
    """
    if d_out.size < 8:
        return d_out
    d_out[draw.random(d_out.shape) < 0.1] = 0
    if len(d_out) > 1:
        d_out[draw.integers(len(d_out))] = 0
    return d_out


def _estimate(differences: list[float], order: str) -> float:
    """Return STEP times the slope; an order that needs fewer differences than there are takes the first ones."""
    return sum(weight * x for weight, x in zip(STENCILS[order], differences, strict=False))


def gradients_of(op: Op, backend: Any, case: Case, d_out: np.ndarray, dtype: type) -> Example:
    return op.vjp(backend, cast(op.batched(case), dtype), d_out.astype(dtype))


def compare_gradients(op: Op, case: Case, expected: Slope, wide: Example) -> None:
    """Raise AssertionError unless float64 gradients give the reference's slope, to 1e-7.

    Then the slope along each argument alone shows which gradients are wrong.
    """
    arguments, along = op.batched(case), expected.along
    require_finite(op, wide, "float64")  # an infinity would make every tolerance infinite
    for name in op.diff:
        assert_shape(wide[name], arguments[name], f"{op.clause} {op.name}_vjp, {name}")
    terms = {name: float((wide[name] * along[name]).sum()) for name in op.diff}
    size = max(abs(expected.value), *(float(np.abs(wide[name] * along[name]).sum()) for name in op.diff), 1e-3)
    tolerance = 1e-7 * size + expected.off
    if not abs(sum(terms.values()) - expected.value) <= tolerance:
        what = f"{op.clause} {op.name}_vjp in float64, along one direction"
        slopes = {name: slope(op, case, expected.seed, name) for name in op.diff} if len(op.diff) > 1 else {}
        wrong = [name for name, x in slopes.items() if not abs(terms[name] - x.value) <= 1e-7 * size + x.off]
        if wrong:
            name, share = wrong[0], f"; wrong, too: {', '.join(wrong[1:])}" if wrong[1:] else ""
            raise Disagreement(what, f"gradient of {name}", terms[name], slopes[name].value, tolerance, share)
        parts = " + ".join(f"{term:.9g} of {name}" for name, term in terms.items())
        raise Disagreement(what, parts, sum(terms.values()), expected.value, tolerance)


@dataclass(frozen=True, eq=False)
class ExpectedGradients:
    """The float64 gradients of a backend, and those of neighbours: of inputs moved by about one rounding."""

    op: Op
    backend: Any
    case: Case
    d_out: np.ndarray
    wide: Example
    precision: Precision = FLOAT32
    _near: list[Example] = field(default_factory=list)

    def near(self, count: int) -> list[Example]:
        """Return `count` float64 gradients; arguments, outputs and d_out are each moved by about one rounding."""
        op, backend = self.op, self.backend
        for number in range(len(self._near), count):
            draw = np.random.default_rng(number)

            def factor(x: Any, draw: np.random.Generator = draw) -> np.ndarray:
                return 1 + self.precision.eps * draw.choice([-1.0, 1.0], x.shape)

            def outputs(*arguments: Any, **options: Any) -> tuple[Any, ...]:
                out = getattr(backend, op.name)(*arguments, **options)
                return tuple(y * to_library(factor(y), backend) if is_float(y) else y for y in out)

            moved_backend = backend
            if hasattr(backend, f"{op.name}_vjp"):  # an autograd computes its outputs itself
                moved_backend = SimpleNamespace(**vars(backend) | {"xp": backend.xp, op.name: outputs})
            arguments = {key: x * factor(x) if is_float(x) else x for key, x in op.batched(self.case).items()}
            self._near.append(op.vjp(moved_backend, arguments, self.d_out * factor(self.d_out)))
        return self._near[:count]

    def allowed(self, count: int) -> Example:
        """Return how far the narrow gradients may be off: as `allowance` says, and by 16 eps of the largest.

        Neighbours show the effect of roundings of the arguments, the outputs and d_out, but not of those in between.
        The sum of n independent roundings grows with the root of n (Higham and Mary 2019); 16 allows for 256 on a path.
        """
        op, conditions = self.op, [None] * len(self.op.diff)
        if op.gradient_conditions is not None:
            conditions = op.gradient_conditions(op.batched(self.case), self.d_out)
        near = self.near(count)
        between = ROOT * self.precision.eps * max(float(np.abs(g).max(initial=0.0)) for g in self.wide.values())
        return {
            name: between + allowance(self.wide[name], [x[name] for x in near], condition, self.precision)
            for name, condition in zip(op.diff, conditions, strict=True)
        }


def compare_narrow(expected: ExpectedGradients, narrow: Example) -> None:
    """Raise AssertionError unless narrow gradients agree with the float64 ones."""
    op = expected.op
    for count in (0, *NEIGHBOURS):
        try:
            for name, tolerance in expected.allowed(count).items():
                exact = expected.wide[name]
                what = f"{op.clause} {op.name}_vjp in {expected.precision.name}, {name}"
                assert_shape(narrow[name], exact, what)
                wrong = ~(np.abs(narrow[name] - exact) <= tolerance)
                assert_none_wrong(narrow[name], exact, tolerance, wrong, what)
            return
        except AssertionError:
            if count == NEIGHBOURS[-1]:
                raise


def check_gradients(backend: ModuleType, op: Op, case: Case, seed: int) -> None:
    """Raise AssertionError unless float64 gradients have the reference's slope, and float32 ones agree with them."""
    case, _, _ = held(backend, op, case)
    _check_gradients(backend, op, case, slope(op, case, seed))


def _check_gradients(backend: ModuleType, op: Op, case: Case, expected: Slope) -> None:
    precision = declared(backend, op)
    if precision is not None:  # it must give the CPU backend's gradients, which have the slope
        d_out = rounded(expected.d_out, precision)
        wide = gradients_of(op, cpu, case, d_out, np.float64)
        narrow = gradients_of(op, backend, case, d_out, np.float32)
        compare_narrow(ExpectedGradients(op, cpu, case, d_out, wide, precision), narrow)
        return
    wide, narrow = (gradients_of(op, backend, case, expected.d_out, dtype) for dtype in (np.float64, np.float32))
    compare_gradients(op, case, expected, wide)
    compare_narrow(ExpectedGradients(op, backend, case, expected.d_out, wide), narrow)


def check_gradients_as_drawn(backend: ModuleType, op: Op, case: Case, seed: int) -> None:
    """Raise AssertionError unless the gradients of the case agree; of a large case, also those of its `gentle` copy.

    At large numbers float64 gradients must have the reference's slope, where the difference quotient is accurate, and
    float32 ones must be finite: in a softmax that is nearly 1, large numbers cancel, and how far float32 is then off is
    known for few operations. There a kernel of a declared precision is not compared.
    """
    drawn_case, _, _ = held(backend, op, case)
    if op.saturated or largest(drawn_case) <= LARGE:
        expected = slope(op, drawn_case, seed)
        if op.saturated or expected.follows:
            _check_gradients(backend, op, drawn_case, expected)
            return
    elif declared(backend, op) is None:
        expected = slope(op, drawn_case, seed)
        if expected.follows:
            with np.errstate(all="ignore"):
                wide = gradients_of(op, backend, drawn_case, expected.d_out, np.float64)
            compare_gradients(op, drawn_case, expected, wide)
    check_finite_gradients(backend, op, case, seed)
    check_gradients(backend, op, gentle(case), seed)


def check_finite_gradients(backend: ModuleType, op: Op, case: Case, seed: int) -> None:
    """Raise AssertionError unless float32 gradients are finite; a kernel of a declared precision may overflow."""
    if declared(backend, op) is not None:
        return
    shape = np.concatenate([out[0] for out in references(op, case, np.float64)]).shape
    d_out = np.random.default_rng([seed, 99]).standard_normal(shape)
    with np.errstate(all="ignore"):
        gradients = gradients_of(op, backend, case, d_out, np.float32)
    require_finite(op, gradients, "float32")


def require_finite(op: Op, gradients: Example, dtype: str) -> None:
    """Raise Disagreement if a gradient has a NaN or an infinity."""
    for name, g in gradients.items():
        if not np.isfinite(g).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(g))[0])
            raise Disagreement(f"{op.clause} {op.name}_vjp in {dtype}, {name}", str(list(at)), g[at], "a finite number")


def largest(case: Case) -> float:
    arrays = (x for e in (case.shared, *case.examples) for x in e.values() if isinstance(x, np.ndarray))
    return max((float(np.abs(x).max(initial=0.0)) for x in arrays if x.dtype.kind == "f"), default=0.0)


def gentle(case: Case) -> Case:
    """Scale every array to at most 2, so that a central difference is accurate: huge scores make a softmax a step."""

    def scaled(x: object) -> object:
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        return (x / max(1.0, np.abs(x).max(initial=0.0) / 2)).astype(np.float32).astype(np.float64)

    shared, *examples = ({key: scaled(x) for key, x in e.items()} for e in (case.shared, *case.examples))
    return Case(shared, examples)
