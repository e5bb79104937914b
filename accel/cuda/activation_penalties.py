"""The gradient of `refimpl.fasttrees.stack`'s penalties on hidden states, in one pass; a thread for every element.

It is no operation of the table: `accel.models.fasttrees.language_model` calls it where a backend has it, and otherwise
computes the same, bit for bit, in array operations.
"""

from __future__ import annotations

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

THREADS = 128  # columns


def penalty_gradients(h: Array, offsets: Array, of_size: float, of_change: float, times: float) -> Array:
    """Return `times` (of_size h_t + of_change (h_t - h_{t-1}) - of_change (h_{t+1} - h_t)) [N, H].

    h [N, H]; offsets [B+1] int64: the terms of change are those between steps of one sequence. Raises ValueError naming
    the argument that does not fit.
    """
    (h,) = check.floats(h=h)
    check.shape("h", h, "N", "H")
    (offsets,) = check.integers(np.int64, offsets=offsets)
    check.indices({}, {"offsets": (offsets, len(h))})
    (n, d), gradients = h.shape, device.xp().empty_like(h)
    args = h, offsets, gradients, len(offsets) - 1, d, float(of_size), float(of_change), float(times)
    device.launch("activation_penalties", "penalty_gradients", (n, -(-d // THREADS)), (THREADS,), args, h.dtype)
    return gradients
