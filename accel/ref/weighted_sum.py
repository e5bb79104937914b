"""Mirror of the weighted sums of `refimpl.gpst.inside_outside.inside` and `outside`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, one_dtype, ranges_of
from refimpl import layers as ref_layers


def weighted_sum(scores: Array, vectors: Array, offsets: Array) -> Outputs:
    """Return (sums [C, d], weights [P]): weights are a softmax of the scores of each group; an empty group gives 0."""
    one_dtype(scores=scores, vectors=vectors)
    if scores.shape != vectors.shape[:1] or vectors.ndim != 2:
        raise ValueError(f"scores: shape {scores.shape}, but vectors {vectors.shape}")
    groups = ranges_of(offsets, len(scores))
    sums, weights = np.zeros((len(groups), vectors.shape[1]), vectors.dtype), np.empty_like(scores)
    for c, group in enumerate(groups):
        if group.start < group.stop:
            weights[group] = ref_layers.softmax(scores[group])
            sums[c] = weights[group] @ vectors[group]
    return sums, weights


weighted_sum_vjp = central_difference(weighted_sum, 2)
