"""Draws of batches on which rules are measured, and the verdicts of all rules on a kernel's answers to one draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from accel import cpu
from accel.verify.compare import FLOAT32, allowance
from accel.verify.expected import Expected, compare
from accel.verify.gradients import (
    ExpectedGradients,
    Slope,
    compare_gradients,
    compare_narrow,
    gentle,
    gradients_of,
    slope,
)  # fmt: skip
from accel.verify.op import Case, Example, Op
from accel.verify.sizes import cases_at_sizes
from accel.verify.values import answers
from benchmarks.checker_errors import FIRST_ROW_BEYOND, Answers
from benchmarks.checker_rules import RULES, passes
from benchmarks.checker_table import OURS, OURS_NARROW


@dataclass(frozen=True, eq=False)
class Draw:
    """A batch, what its answers must be, and a direction for its gradients."""

    expected: Expected
    slope: Slope | None
    gradients: ExpectedGradients | None
    exact: Answers | None  # gradients of the CPU backend in float64
    plain: Answers | None  # and in float32

    @cached_property
    def allowed(self) -> Example:
        return self.gradients.allowed(4)


def draws(op: Op, seed: int, count: int, large: int = 0) -> Iterator[Draw]:
    """Yield `count` batches, and `large` batches at sizes of tiles with more than 64 rows; each also for gradients."""
    cases: list[Case] = []

    @seeded(seed)
    @settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(op.cases)
    def draw(case: Case) -> None:
        cases.append(case)

    draw()
    beyond = (case for _, case in cases_at_sizes(cpu, op) if FIRST_ROW_BEYOND < n_rows(op, case) < 2000)
    for number, case in enumerate([*cases[:count], *islice(beyond, large)]):
        yield Draw(Expected(op, case), None, None, None, None)
        if op.diff:
            case = case if op.saturated else gentle(case)
            expected = slope(op, case, 1000 * seed + number)
            wide, narrow = (gradients_of(op, cpu, case, expected.d_out, t) for t in (np.float64, np.float32))
            gradients = ExpectedGradients(op, cpu, case, expected.d_out, wide)
            yield Draw(Expected(op, case), expected, gradients, [list(wide.values())], [list(narrow.values())])


def n_rows(op: Op, case: Case) -> int:
    return max(len(x) for x in op.batched(case).values() if isinstance(x, np.ndarray) and x.dtype.kind == "f")


def verdicts(op: Op, draw: Draw, wide: Answers, narrow: Answers, copies: int = 0) -> set[str]:
    """Return the rules that refuse answers in float64 and float32, to which `copies` right elements are added."""
    refused = set()
    if draw.slope is None:
        exact, plain = draw.expected.wide, draw.expected.narrow(1)[0]
        if not _ours_passes(op, draw, wide, narrow):
            refused.add(OURS)
            if not _ours_passes(op, draw, exact, narrow):
                refused.add(OURS_NARROW)
    else:
        exact, plain = draw.exact, draw.plain
        refused = _refusals_of_gradients(op, draw, *(dict(zip(op.diff, x[0], strict=True)) for x in (wide, narrow)))
    for number in range(len(exact[0])):
        columns = [np.concatenate([np.ravel(outputs[number]) for outputs in x]) for x in (narrow, exact, plain)]
        if columns[0].shape == columns[1].shape and columns[1].size:
            beside = np.resize(columns[1], copies)
            columns = [np.concatenate([x, beside]) for x in columns]
        refused |= {name for name, rule in RULES.items() if not passes(rule, *columns)}
    return refused


def _refusals_of_gradients(op: Op, draw: Draw, wide: Example, narrow: Example) -> set[str]:
    refused = set()
    try:
        compare_gradients(op, draw.expected.case, draw.slope, wide)
    except AssertionError:
        refused.add(OURS)
    if share_of_bound(op, draw, [list(narrow.values())]) > 1:  # of the error that four neighbours allow
        try:
            compare_narrow(draw.gradients, narrow)
        except AssertionError:
            refused |= {OURS, OURS_NARROW}
    return refused


def _ours_passes(op: Op, draw: Draw, wide: Answers, narrow: Answers) -> bool:
    case = draw.expected.case
    try:
        for results, dtype in ((wide, np.float64), (narrow, np.float32)):
            compare(draw.expected, results, dtype)
            for law in op.laws:
                for example, outputs in zip(case.examples, results, strict=True):
                    law(case.shared, example, tuple(outputs))
    except AssertionError:
        return False
    return True


def answers_of(op: Op, backend: Any, draw: Draw) -> tuple[Answers, Answers]:
    case = draw.expected.case
    if draw.slope is None:
        n = len(draw.expected.wide[0])  # further outputs of a backend are not compared
        return tuple([list(o[:n]) for o in answers(op, backend, case, t)] for t in (np.float64, np.float32))
    return tuple(
        [list(gradients_of(op, backend, case, draw.slope.d_out, t).values())] for t in (np.float64, np.float32)
    )


def share_of_bound(op: Op, draw: Draw, narrow: Answers) -> float:
    """Return the largest error of float32 answers, as a multiple of the allowed error."""
    if draw.slope is None:
        expected = draw.expected
        pairs = [
            (narrow[b][i], exact, allowance(exact, [], expected.conditions[b][i], FLOAT32))
            for b, outputs in enumerate(expected.wide)
            for i, exact in enumerate(outputs)
        ]
    else:
        bounds = draw.allowed
        pairs = [(x, draw.gradients.wide[name], bounds[name]) for name, x in zip(op.diff, narrow[0], strict=True)]
    shares = [0.0]
    for fast, exact, bound in pairs:
        finite = np.isfinite(exact)
        shares.append(
            float((np.abs(fast - exact)[finite] / np.broadcast_to(bound, finite.shape)[finite]).max(initial=0))
        )
    return max(shares)
