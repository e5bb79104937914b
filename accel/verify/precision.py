"""The precision that a backend declares for a kernel: `precision = {"layer_norm": "bfloat16"}`.

The kernel is then called with float32 arrays only, whose numbers are rounded to that precision, and is held to the
bound that follows from its unit roundoff. It may round every intermediate result, and add in any order. "float32"
declares a kernel that has no float64.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Any

import numpy as np

from accel.verify.compare import FLOAT32, PRECISIONS, Precision, rounded
from accel.verify.op import Case, Op
from accel.verify.own_backend import meant

BOTH = (np.float64, np.float32)


def declared(backend: ModuleType, op: Op) -> Precision | None:
    """Return the precision that a backend declares for an operation; None if it has both float64 and float32.

    Raises ValueError if it is not one of PRECISIONS, or if answers of the operation are compared exactly.
    """
    name = getattr(backend, "precision", {}).get(op.name)
    if name is None:
        return None
    if op.exact:
        raise ValueError(f"precision: {op.name} is compared exactly, and has no precision: leave it out")
    check_declarations(backend, [op.name])
    return PRECISIONS[name]


def check_declarations(backend: ModuleType, operations: Collection[str]) -> None:
    """Raise ValueError if a backend declares a precision for what it does not export, or an unknown one for these."""
    by_operation = getattr(backend, "precision", {})
    if not isinstance(by_operation, dict):
        raise ValueError(f'precision: {by_operation!r} is no dict: an example is {{"layer_norm": "bfloat16"}}')
    for operation, name in by_operation.items():
        if operation in operations and name not in list(PRECISIONS):  # a name of any type
            advice = meant(str(name), PRECISIONS) or f"choose one of {', '.join(PRECISIONS)}"
            raise ValueError(f"precision: {operation}: {name!r} is unknown: {advice}")
        if not hasattr(backend, operation):
            near = meant(operation, [other for other in operations if hasattr(backend, other)])
            raise ValueError(f"precision: this backend exports no {operation}: {near or 'leave it out'}")


def held(backend: ModuleType, op: Op, case: Case) -> tuple[Case, tuple[type, ...], Precision]:
    """Return the case with the inputs that the kernel gets, the types to test, and the precision it is held to."""
    precision = declared(backend, op)
    if precision is None:
        return case, BOTH, FLOAT32
    shared, *examples = ({key: _rounded(x, precision) for key, x in e.items()} for e in (case.shared, *case.examples))
    return Case(shared, examples), (np.float32,), precision


def _rounded(x: Any, precision: Precision) -> Any:
    return rounded(x, precision) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
