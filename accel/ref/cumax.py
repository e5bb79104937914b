"""Mirror of `refimpl.fasttrees.cumax.cumax` and `refimpl.fasttrees.transformer_gate.tree_gate`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, finite, one_dtype
from refimpl.fasttrees import cumax as ref_cumax
from refimpl.fasttrees.transformer_gate import tree_gate as ref_tree_gate


def cumax(z: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.cumax.cumax`, row by row: (y [N, D],)."""
    finite(z=z)
    if z.shape[1] == 0:
        raise ValueError(f"z: shape {z.shape} has empty rows")
    return (np.array([ref_cumax.cumax(row) for row in z], z.dtype).reshape(z.shape),)


def tree_gate(a: Array, b: Array, f: Array, x: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.transformer_gate.tree_gate`, row by row: (y [N, d],)."""
    one_dtype(a=a, b=b, f=f, x=x)
    finite(a=a, b=b, f=f)
    if f.shape != x.shape or a.shape != b.shape or len(a) != len(x) or x.shape[1] % max(a.shape[1], 1):
        raise ValueError(f"a: shapes {a.shape}, {b.shape}, {f.shape} do not fit x of shape {x.shape}")
    rows = [ref_tree_gate(*row) for row in zip(a, b, f, x, strict=True)]
    return (np.array(rows, x.dtype).reshape(x.shape),)


cumax_vjp = central_difference(cumax, 1)
tree_gate_vjp = central_difference(tree_gate, 4)
