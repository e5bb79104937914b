"""Every gradient against the directional derivative of the float64 reference."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from accel.verify.gradients import check_finite_gradients, check_gradients, gentle
from accel.verify.op import Op


@given(data=st.data())
def test_gradients(backend: ModuleType, op: Op, data: st.DataObject) -> None:
    """1e-7 relative in float64 along one random direction; float32 agrees with float64 to its own rounding.

    Where a difference cannot follow huge inputs, they are scaled; in float32 the gradients at those drawn are finite.
    """
    case, seed = data.draw(op.cases, label="case"), data.draw(st.integers(0, 2**16), label="direction")
    check_gradients(backend, op, case if op.saturated else gentle(case), seed)
    if not op.saturated:
        check_finite_gradients(backend, op, case, seed)
