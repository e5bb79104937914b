"""How an operation of a backend is compared with the reference: its values, its neighbours, and its errors."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import numpy as np

from accel.verify.compare import FLOAT32, Disagreement, assert_equal
from accel.verify.errors import assert_refused, changes
from accel.verify.expected import Expected, cast, compare
from accel.verify.op import Case, Example, Op, Outputs
from accel.verify.precision import held


def answers(op: Op, backend: ModuleType, case: Case, dtype: type) -> list[Outputs]:
    outputs = op.call(backend, cast(op.batched(case), dtype))
    for number, output in enumerate(outputs):
        if output.dtype != dtype and output.dtype.kind not in "iu":
            what = f"{op.clause} {op.name}, output {number}"
            raise Disagreement(what, "dtype", output.dtype, np.dtype(dtype))
    return op.split(outputs, case)


def check_values(backend: ModuleType, op: Op, case: Case) -> None:
    """Raise AssertionError unless every example has the reference's outputs, and the laws hold."""
    case, dtypes, precision = held(backend, op, case)
    expected = Expected(op, case, precision)
    for dtype in dtypes:
        got = answers(op, backend, case, dtype)
        compare(expected, got, dtype)
        for law in op.laws if precision == FLOAT32 else ():
            for example, outputs in zip(case.examples, got, strict=True):
                law(case.shared, example, outputs)
        if op.exact:
            break


def check_neighbours(
    backend: ModuleType, op: Op, case: Case, filling: float, examples: Iterable[int] | None = None
) -> None:
    """Raise AssertionError unless each of these examples (None: all) is the same to the bit if the others are filled.

    A NaN may be refused by an operation whose row of the table says so.
    """
    case, (dtype, *_), _ = held(backend, op, case)
    right = answers(op, backend, case, dtype)
    for b in range(len(case.examples)) if examples is None else examples:
        others = [e if i == b else filled(e, filling) for i, e in enumerate(case.examples)]
        if op.finite and any(np.isnan(x).any() for e in others for x in e.values() if isinstance(x, np.ndarray)):
            arguments = op.batched(Case(case.shared, others))
            assert_refused(backend, op, arguments, ("NaN",), f"example {b} beside NaN")
            continue
        with np.errstate(all="ignore"):
            beside = answers(op, backend, Case(case.shared, others), dtype)[b]
        for number, (x, y) in enumerate(zip(right[b], beside, strict=True)):
            assert_equal(y, x, f"{op.clause} {op.name}, example {b} beside {filling}, output {number}")


def check_neighbours_at_size(backend: ModuleType, op: Op, case: Case) -> None:
    """The same of the first and the last example, beside NaN, or where that is refused, beside 1e30."""
    if len(case.examples) > 1:
        check_neighbours(backend, op, case, 1e30 if op.finite else np.nan, (0, len(case.examples) - 1))


def check_error(backend: ModuleType, op: Op, case: Case, number: int) -> None:
    """Raise AssertionError unless a declared bad input is refused as the row of the table says."""
    words, spoiler = op.errors[number]
    right = op.batched(case)
    wrong = spoiler(right)
    assert_refused(backend, op, wrong, words.split("|"), changes(right, wrong))


def filled(example: Example, filling: float) -> Example:
    return {
        key: np.full_like(x, filling) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
        for key, x in example.items()
    }
