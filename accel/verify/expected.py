"""What a case's answers must be: the reference's answers, each computed when it is first needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from accel.verify.compare import FLOAT32, FLOAT64, Precision, assert_close, assert_equal
from accel.verify.op import Case, Op, Outputs

NEIGHBOURS = (4, 32, 256)
"""How many narrow answers of the reference are computed: the next number if the bound from fewer refuses the answer."""


def cast(arguments: Any, dtype: type, jitter: int = 0, precision: Precision = FLOAT32) -> Any:
    """Return the same dictionary with every float array in another dtype, and moved by one rounding if `jitter` > 0."""
    if isinstance(arguments, dict):
        return {key: cast(x, dtype, jitter, precision) for key, x in arguments.items()}
    if isinstance(arguments, np.ndarray) and arguments.dtype.kind == "f":
        signs = np.random.default_rng(jitter).choice([-1, 1], arguments.shape) if jitter else 0
        return (arguments * (1 + signs * precision.eps)).astype(dtype)
    return arguments


def starts(case: Case) -> list[int]:
    """Return the number, in the batch, of the first row (for sparse attention: edge) of every example."""
    sizes = [sum(map(len, e["keys"])) if "keys" in e else len(next(iter(e.values()))) for e in case.examples]
    return np.concatenate([[0], np.cumsum(sizes)])[:-1].tolist()


def references(op: Op, case: Case, dtype: type, jitter: int = 0, precision: Precision = FLOAT32) -> list[Outputs]:
    shared = cast(case.shared, dtype, jitter, precision)
    return [
        op.reference(shared, cast(example, dtype, jitter, precision), start)
        for example, start in zip(case.examples, starts(case), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Expected:
    """The reference's wide (float64) and narrow (float32) answers; float32 answers are held to `precision`."""

    op: Op
    case: Case
    precision: Precision = FLOAT32
    _narrow: list[list[Outputs]] = field(default_factory=list)

    @cached_property
    def wide(self) -> list[Outputs]:
        return references(self.op, self.case, np.float64)

    @cached_property
    def conditions(self) -> list[Outputs] | None:
        """How far rounding may move every output, in eps; None if the row of the table has no condition."""
        condition, case, unit = self.op.condition, self.case, self.precision.eps / 2
        if condition is None:
            return None
        return [condition(case.shared, e, start, unit) for e, start in zip(case.examples, starts(case), strict=True)]

    def narrow(self, count: int) -> list[list[Outputs]]:
        """Return `count` answers in float32, for the inputs and for neighbours of them within one rounding."""
        for jitter in range(len(self._narrow), count):
            self._narrow.append(references(self.op, self.case, np.float32, jitter, self.precision))
        return self._narrow[:count]


def compare(expected: Expected, got: list[Outputs], dtype: type) -> None:
    """Raise AssertionError unless the outputs of every example agree with the reference's.

    The bound follows from the operation's condition or, if it has none, from narrow answers of the reference.
    """
    asks = dtype == np.float32 and not expected.op.exact and expected.op.condition is None
    for count in NEIGHBOURS if asks else (0,):
        try:
            _compare(expected, got, dtype, count)
            return
        except AssertionError:
            if count in (0, NEIGHBOURS[-1]):
                raise


def _compare(expected: Expected, results: list[Outputs], dtype: type, count: int) -> None:
    op, narrow = expected.op, expected.narrow(count)
    conditions = expected.conditions
    precision = expected.precision if dtype == np.float32 else FLOAT64
    for b, (fast, exact) in enumerate(zip(results, expected.wide, strict=True)):
        for number, reference in enumerate(exact):
            what = f"{op.clause} {op.name}, example {b}, output {number}"
            if op.exact:
                assert_equal(fast[number], reference, what)
                continue
            near = [outputs[b][number] for outputs in narrow]
            assert_close(fast[number], reference, near, what, conditions and conditions[b][number], precision)
