"""The terms of a loss of several parts, such as GPST's: their weighted sum and gradients, by a kernel of one block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

WARPS = 32  # of the block
MOST = 6  # arrays of terms

Linear = tuple[int, int]  # (a, b): a times the number of words plus b times the number of sentences


class Term(NamedTuple):
    """A flat array of terms: the loss has their sum times sign / count; of a padded batch only the first `size`."""

    x: Array
    sign: int
    count: int | Linear
    size: Linear = (0, 0)


def weigh(terms: Sequence[Term], n_labels: int, sizes: Array | None = None) -> tuple[Array, list[Array]]:
    """Return the loss times the number of labels, float64 without axes, and its gradients with respect to the terms.

    The loss is the sum of sign / count times the sum of each array; at most six, of one dtype. For a padded batch
    `sizes` [2] int64 has the numbers of words and sentences without the padding: the device computes counts and sizes
    from them, the labels are the words, and n_labels is not read.
    """
    xp, arrays = device.xp(), check.floats(**{f"terms{i}": term.x for i, term in enumerate(terms)})
    gradients, total = [xp.empty_like(x) for x in arrays], xp.empty(1, np.float64)
    parts = [
        (x, gradient, x.size, term.sign, *((term.count, 0) if isinstance(term.count, int) else term.count), *term.size)
        for x, gradient, term in zip(arrays, gradients, terms, strict=True)
    ]
    parts += [(arrays[0], gradients[0], 0, 0, 1, 0, 0, 0)] * (MOST - len(parts))
    of_batch = (total.view(np.int64), 0) if sizes is None else (sizes, 1)
    args = *(x for part in parts for x in part), n_labels, *of_batch, total
    device.launch("loss_terms", "weigh_terms", (1,), (32, WARPS), args, arrays[0].dtype)
    return total[0], gradients
