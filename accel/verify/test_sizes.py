"""Every operation and gradient of every backend, below, at and above the tile sizes of its kernels."""

from __future__ import annotations

from types import ModuleType

from accel.verify.gradients import check_gradients_as_drawn
from accel.verify.op import Op
from accel.verify.sizes import cases_at_sizes
from accel.verify.values import check_neighbours_at_size, check_values_at_size


def test_ops_at_sizes(backend: ModuleType, op: Op) -> None:
    """The outputs are the reference's, in float64 and float32, and the laws hold."""
    for size, case in cases_at_sizes(backend, op):
        try:
            check_values_at_size(backend, op, case)
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise


def test_gradients_at_sizes(backend: ModuleType, op: Op) -> None:
    """Float64 gradients have the reference's slope along a random direction, and float32 ones agree with them."""
    for size, case in cases_at_sizes(backend, op):
        try:
            check_gradients_as_drawn(backend, op, case, 0)
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise


def test_neighbours_at_sizes(backend: ModuleType, op: Op) -> None:
    """Outputs of the first and the last example stay the same beside NaN or, where NaN is refused, beside 1e30."""
    for size, case in cases_at_sizes(backend, op):
        try:
            check_neighbours_at_size(backend, op, case)
        except AssertionError as error:
            error.add_note(f"at {size}")
            raise
