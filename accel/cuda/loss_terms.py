"""The terms of a loss of several parts, such as GPST's: their weighted sum and slopes, by a kernel of one block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

WARPS = 32  # of the block
MOST = 6  # arrays of terms

Linear = tuple[int, int]  # a number of words and sentences: so many times the words, plus so many times the sentences


class Term(NamedTuple):
    """A flat array of terms, of which the loss has the sum times sign / count; in a padded batch the first `size`."""

    x: Array
    sign: int
    count: int | Linear
    size: Linear = (0, 0)


def weigh(terms: Sequence[Term], n_labels: int, sizes: Array | None = None) -> tuple[Array, list[Array]]:
    """Return the labels times the sum of sign / count times the sum of each array, float64 without axes, and slopes.

    At most six terms, of one type. Of a padded batch `sizes` [2] int64 has the words and the sentences without the
    padding: counts and sizes follow from them on the device, the labels are its words, and n_labels is not read.
    """
    xp, arrays = device.xp(), check.floats(**{f"terms{i}": term.x for i, term in enumerate(terms)})
    slopes, total = [xp.empty_like(x) for x in arrays], xp.empty(1, np.float64)
    parts = [
        (x, slope, x.size, term.sign, *((term.count, 0) if isinstance(term.count, int) else term.count), *term.size)
        for x, slope, term in zip(arrays, slopes, terms, strict=True)
    ]
    parts += [(arrays[0], slopes[0], 0, 0, 1, 0, 0, 0)] * (MOST - len(parts))
    of_batch = (total.view(np.int64), 0) if sizes is None else (sizes, 1)
    args = *(x for part in parts for x in part), n_labels, *of_batch, total
    device.launch("loss_terms", "weigh_terms", (1,), (32, WARPS), args, arrays[0].dtype)
    return total[0], slopes
