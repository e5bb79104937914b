"""Mirror of `refimpl.fasttrees.stack.layer` for Faster FastTrees, after the product of inputs and weights."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference
from accel.ref.support.cell import run_steps


def linear_recurrence(gates: Array, c0: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.layer` for Faster FastTrees: the outputs of `recurrence`."""
    nothing = np.zeros((0, c0.shape[1]), gates.dtype)
    return run_steps("faster_fasttrees", gates, nothing, nothing[:, 0], c0, c0, offsets)


linear_recurrence_vjp = central_difference(linear_recurrence, 1)
