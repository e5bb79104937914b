"""Every operation of every backend against the reference, on ragged batches."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from accel.verify.compare import FLOAT32, Disagreement, assert_close, assert_equal
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


@given(data=st.data())
def test_ops(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """Example b of the batch has the reference's outputs, in float64 and float32, and the laws hold."""
    check_values(backend, op, data.draw(op.cases, label="case"))


@given(data=st.data())
def test_single_examples(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """The same of batches of one example."""
    case = data.draw(op.cases, label="case")
    check_values(backend, op, Case(case.shared, case.examples[:1]))


def check_values(backend: ModuleType, op: Op, case: Case) -> None:
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


def spoil(example: Example, filling: float) -> Example:
    return {
        key: np.full_like(x, filling) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
        for key, x in example.items()
    }


@pytest.mark.parametrize("filling", [np.nan, 1e30])
@given(data=st.data())
def test_neighbours(backend: ModuleType, op: Op, filling: float, data: st.DataObject) -> None:
    """An example's outputs do not depend on the other examples of its batch; a NaN may be refused."""
    case, (dtype, *_), _ = held(backend, op, data.draw(op.cases, label="case"))
    for b in range(len(case.examples)):
        others = [e if i == b else spoil(e, filling) for i, e in enumerate(case.examples)]
        if op.finite and any(np.isnan(x).any() for e in others for x in e.values() if isinstance(x, np.ndarray)):
            arguments = op.batched(Case(case.shared, others))
            assert_refused(backend, op, arguments, ("NaN",), f"example {b} beside NaN")
            continue
        with np.errstate(all="ignore"):
            alone = answers(op, backend, Case(case.shared, others), dtype)[b]
        for number, (x, y) in enumerate(zip(answers(op, backend, case, dtype)[b], alone, strict=True)):
            assert_equal(y, x, f"{op.clause} {op.name}, example {b} beside {filling}, output {number}")


@given(data=st.data())
def test_permuted(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """A permuted batch gives permuted answers."""
    case = data.draw(op.cases, label="case")
    if not op.moves and case.shared.get("rate", 0.0):
        case = Case(case.shared | {"rate": 0.0}, case.examples)
    order = data.draw(st.permutations(range(len(case.examples))), label="order")
    case, (dtype, *_), precision = held(backend, op, case)
    permuted = Case(case.shared, [case.examples[b] for b in order])
    moved = answers(op, backend, permuted, dtype)
    if dtype == np.float32:
        compare(Expected(op, permuted, precision), moved, dtype)
        return
    straight = answers(op, backend, case, np.float64)
    for place, b in enumerate(order):
        for number, (x, y) in enumerate(zip(straight[b], moved[place], strict=True)):
            assert_close(y, x, [], f"{op.clause} {op.name}, example {b} at place {place}, output {number}")


def test_errors(backend: ModuleType, op: Op) -> None:
    """Every declared bad input is refused by a ValueError of one line that names the argument."""
    case = example_case(op) if op.errors else None
    for number in range(len(op.errors)):
        check_error(backend, op, case, number)


def check_error(backend: ModuleType, op: Op, case: Case, number: int) -> None:
    words, spoiler = op.errors[number]
    right = op.batched(case)
    wrong = spoiler(right)
    assert_refused(backend, op, wrong, words.split("|"), changes(right, wrong))


def example_case(op: Op) -> Case:
    """Return one case with two examples or more, the same at every run."""
    once = settings(phases=[Phase.generate], max_examples=100, derandomize=True, database=None)
    return find(op.cases, lambda case: len(case.examples) >= 2, settings=once)
