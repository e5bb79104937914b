"""Every gradient against the directional derivative of the float64 reference."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from accel.verify.gradients import check_gradients_as_drawn
from accel.verify.op import Op


@given(data=st.data())
def test_gradients(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """Float64 agrees to 1e-7 (relative) along one random direction; float32 agrees with float64 up to its rounding.

    Huge inputs are also tested scaled down: the gradients of a saturated function are 0.
    """
    case, seed = data.draw(op.cases, label="case"), data.draw(st.integers(0, 2**16), label="direction")
    check_gradients_as_drawn(backend, op, case, seed)
