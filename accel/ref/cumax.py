"""Mirror of `refimpl.fasttrees.cumax`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, finite
from refimpl.fasttrees import cumax as ref_cumax


def cumax(z: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.cumax.cumax`, row by row: (y [N, D],)."""
    finite(z=z)
    if z.shape[1] == 0:
        raise ValueError(f"z: shape {z.shape} has empty rows")
    return (np.array([ref_cumax.cumax(row) for row in z], z.dtype).reshape(z.shape),)


cumax_vjp = central_difference(cumax, 1)
