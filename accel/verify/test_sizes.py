"""Every operation and gradient of every backend, below, at and above the tile sizes of its kernels."""

from __future__ import annotations

from types import ModuleType

from accel.verify.op import Op
from accel.verify.sizes import cases_at_sizes
from accel.verify.test_gradients import compare_gradients, gentle, slope
from accel.verify.test_values import check_values


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
            compare_gradients(op, backend, case, slope(op, case, 0))
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise
