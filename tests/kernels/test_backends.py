"""One name everywhere: the three backends export the same operations, from files of the same names."""

from __future__ import annotations

import accel.cpu
import accel.cuda
import accel.ref
from accel.verify.op import Op

BACKENDS = (accel.ref, accel.cpu, accel.cuda)


def test_an_operation_has_one_file_name(op: Op) -> None:
    files = {getattr(backend, op.name).__module__.removeprefix(f"{backend.__name__}.") for backend in BACKENDS}
    assert len(files) == 1, f"{op.name} lies in {', '.join(sorted(files))}"


def test_differentiable_operations_have_gradients(op: Op) -> None:
    for backend in BACKENDS:
        assert hasattr(backend, f"{op.name}_vjp") == bool(op.diff), backend.__name__
