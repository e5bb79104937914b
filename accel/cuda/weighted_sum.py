"""Softmax within groups of rows, and their weighted sums, on the GPU.

Mirrors the weighted sums of `refimpl.gpst.inside_outside.inside` and `outside`. A block a group.
"""

from __future__ import annotations

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

WARPS = 4  # a group


def weighted_sum(scores: Array, vectors: Array, offsets: Array) -> tuple[Array, Array]:
    """Return (sums [C, d], weights [P]): the weights are the softmax of the scores in each group; an empty sum is 0.

    scores [P]; vectors [P, d]; offsets [C+1] int64. Raises ValueError naming the argument that does not fit.
    """
    scores, vectors = check.floats(scores=scores, vectors=vectors)
    check.shape("scores", scores, "P")
    check.shape("vectors", vectors, len(scores), "d")
    (offsets,) = check.integers(np.int64, offsets=offsets)
    check.indices({}, {"offsets": (offsets, len(scores))})
    xp, groups, d = device.xp(), len(offsets) - 1, vectors.shape[1]
    sums, weights = xp.empty((groups, d), vectors.dtype), xp.empty_like(scores)
    args = scores, vectors, offsets, sums, weights, d
    device.launch("weighted_sum", "weighted_sum_forward", (groups,), (32, WARPS), args, vectors.dtype)
    return sums, weights


def weighted_sum_vjp(
    d_mixed: Array, outputs: tuple[Array, Array], scores: Array, vectors: Array, offsets: Array
) -> tuple[Array, Array]:
    """Return the gradients of scores and vectors."""
    d_mixed, vectors, weights = check.floats(d_mixed=d_mixed, vectors=vectors, weights=outputs[1])
    (offsets,) = check.integers(np.int64, offsets=offsets)
    xp = device.xp()
    d_scores, d_vectors = xp.empty_like(weights), xp.empty_like(vectors)
    args = d_mixed, vectors, weights, offsets, d_scores, d_vectors, vectors.shape[1]
    device.launch("weighted_sum", "weighted_sum_backward", (len(d_mixed),), (32, WARPS), args, vectors.dtype)
    return d_scores, d_vectors
