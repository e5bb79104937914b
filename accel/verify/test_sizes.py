"""Every operation and gradient of every backend, below, at and above the tile sizes of its kernels."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from accel.verify.compare import assert_equal
from accel.verify.op import Case, Op
from accel.verify.sizes import cases_at_sizes
from accel.verify.test_gradients import check_gradients, gentle
from accel.verify.test_values import answers, check_values, spoil


def test_ops_at_sizes(backend: ModuleType, op: Op) -> None:
    """The outputs are the reference's, in float64 and float32, and the laws hold."""
    for size, case in cases_at_sizes(backend, op):
        try:
            check_values(backend, op, case)
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise


def test_gradients_at_sizes(backend: ModuleType, op: Op) -> None:
    """The gradients are those of the reference along a direction, in float64, and float32 agrees with them."""
    for size, case in cases_at_sizes(backend, op):
        case = case if op.saturated else gentle(case)
        try:
            check_gradients(backend, op, case, 0)
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise


def test_neighbours_at_sizes(backend: ModuleType, op: Op) -> None:
    """The first and the last example stay the same to the bit beside NaN, or where that is refused, beside 1e30."""
    for size, case in cases_at_sizes(backend, op):
        try:
            check_neighbours(backend, op, case)
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise


def check_neighbours(backend: ModuleType, op: Op, case: Case) -> None:
    filling = 1e30 if op.finite else np.nan
    if len(case.examples) == 1:
        return
    right = answers(op, backend, case, np.float64)
    for kept in (0, len(case.examples) - 1):
        others = [e if i == kept else spoil(e, filling) for i, e in enumerate(case.examples)]
        with np.errstate(all="ignore"):
            beside = answers(op, backend, Case(case.shared, others), np.float64)[kept]
        for x, y in zip(right[kept], beside, strict=True):
            assert_equal(y, x, f"{op.clause} {op.name}, example {kept} beside {filling}")
