"""Every operation of every backend against the reference, on ragged batches."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.compare import assert_close
from accel.verify.expected import Expected, compare
from accel.verify.op import Case, Op, example_case
from accel.verify.precision import held
from accel.verify.values import (
    answers,
    check_error,
    check_lasting,
    check_neighbours,
    check_other_options,
    check_values,
)


@given(data=st.data())
def test_ops(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """Example b of the batch has the reference's outputs, which last; the laws hold. In float64 and float32.

    It also has them at another rate of dropout, and with options left out.
    """
    case = data.draw(op.cases, label="case")
    check_values(backend, op, case)
    check_lasting(backend, op, case)
    check_other_options(backend, op, case)


@given(data=st.data())
def test_single_examples(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """The same as `test_ops`, for batches of one example."""
    case = data.draw(op.cases, label="case")
    check_values(backend, op, Case(case.shared, case.examples[:1]))


@pytest.mark.parametrize("filling", [np.nan, 1e30])
@given(data=st.data())
def test_neighbours(backend: ModuleType, op: Op, filling: float, data: st.DataObject) -> None:
    """An example's outputs do not depend on the others in its batch; operations on finite numbers refuse a NaN."""
    check_neighbours(backend, op, data.draw(op.cases, label="case"), filling)


@given(data=st.data())
def test_permuted(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """A permuted batch gives permuted answers."""
    case = data.draw(op.cases, label="case")
    if not op.moves and case.shared.get("rate", 0.0):
        case = Case(case.shared | {"rate": 0.0}, case.examples)
    order = data.draw(st.permutations(range(len(case.examples))), label="order")
    case, (dtype, *_), precision = held(backend, op, case)
    permuted = Case(case.shared, [case.examples[b] for b in order])
    results = answers(op, backend, permuted, dtype)
    if dtype == np.float32:
        compare(Expected(op, permuted, precision), results, dtype)
        return
    straight = answers(op, backend, case, np.float64)
    for place, b in enumerate(order):
        for number, (x, y) in enumerate(zip(straight[b], results[place], strict=True)):
            assert_close(y, x, [], f"{op.clause} {op.name}, example {b} at place {place}, output {number}")


def test_errors(backend: ModuleType, op: Op) -> None:
    """Every declared bad input is refused by a ValueError of one line that names the argument."""
    case = example_case(op) if op.errors else None
    for number in range(len(op.errors)):
        check_error(backend, op, case, number)
