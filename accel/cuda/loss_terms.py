"""The terms of a loss of several parts, such as GPST's: their weighted sum and slopes, by a kernel of one block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

WARPS = 32  # of the block
MOST = 6  # arrays of terms


def weigh(terms: Sequence[tuple[Array, int, int]], n_labels: int) -> tuple[Array, list[Array]]:
    """Return n_labels times the sum of sign / count times the sum of each array, float64 without axes, and the slopes.

    terms: at most six flat arrays of one type, each with a sign and a count.
    """
    xp, arrays = device.xp(), check.floats(**{f"terms{i}": x for i, (x, *_) in enumerate(terms)})
    slopes, total = [xp.empty_like(x) for x in arrays], xp.empty(1, np.float64)
    parts = [(x, slope, x.size, *numbers) for x, slope, (_, *numbers) in zip(arrays, slopes, terms, strict=True)]
    parts += [(arrays[0], slopes[0], 0, 0, 1)] * (MOST - len(parts))
    args = *(x for part in parts for x in part), n_labels, total
    device.launch("loss_terms", "weigh_terms", (1,), (32, WARPS), args, arrays[0].dtype)
    return total[0], slopes
