"""Softmax within groups of rows, and the weighted sum of each group, forward and gradient.

Mirrors the weighted sums of `refimpl.gpst.inside_outside.inside` and `outside`.
Parallel over chunks of groups; a group has few rows, which are read once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_offsets, contiguous
from accel.cpu.support.kernels import chunk_begin, exp, n_chunks, row_max
from accel.cpu.support.rows import add, dot, row_dot, row_sum
from accel.cpu.support.team import LEAST, share, team_kernel

Float = NDArray[Any]
Offsets = NDArray[np.int64]


@contiguous
def weighted_sum(scores: Float, vectors: Float, offsets: Offsets) -> tuple[Float, Float]:
    """Return the weighted sums [C, d] of groups of rows, and the weights [P], a softmax of the scores of each group.

    Spec: IO-3, of a batch.

    Parameters
    ----------
    scores : [P], vectors : [P, d]
        The scores and vectors of all rows, group by group.
    offsets : [C+1] int64
        Group c has the rows `offsets[c]` to `offsets[c+1]`; the sum of an empty group is 0.

    Raises
    ------
    ValueError
        Shapes, dtypes or offsets that do not fit.
    """
    sizes = check_floats(scores=(scores, "P"), vectors=(vectors, "Pd"))
    check_offsets("offsets", offsets, None, sizes["P"])
    sums, weights = np.zeros((len(offsets) - 1, sizes["d"]), vectors.dtype), np.empty_like(scores)
    _forward(vectors, scores, offsets, sums, weights, n_chunks(len(sums)))
    return sums, weights


@contiguous
def weighted_sum_vjp(
    d_out: Float, outputs: tuple[Float, Float], scores: Float, vectors: Float, offsets: Offsets
) -> tuple[Float, Float]:
    """Return the gradients of scores [P] and vectors [P, d]."""
    check_floats(scores=(scores, "P"), vectors=(vectors, "Pd"), d_out=(d_out, "Cd"))
    d_scores, d_vectors = np.empty(scores.shape, scores.dtype), np.zeros(vectors.shape, vectors.dtype)
    _backward(d_out, vectors, outputs[1], offsets, d_scores, d_vectors, n_chunks(len(d_out)))
    return d_scores, d_vectors


@team_kernel(LEAST)
def _forward(part, vectors, scores, offsets, sums, weights, chunks):
    groups = len(sums)
    for chunk in share(part, chunks):
        for c in range(chunk_begin(chunk, chunks, groups), chunk_begin(chunk + 1, chunks, groups)):
            begin, end = offsets[c], offsets[c + 1]
            if begin == end:
                continue
            s, w = scores[begin:end], weights[begin:end]
            most = row_max(s)
            for k in range(s.size):
                w[k] = exp(s[k] - most)
            total = row_sum(w)
            for k in range(w.size):
                w[k] /= total
                add(sums, c, vectors, begin + k, w[k])


@team_kernel(LEAST)
def _backward(part, d_mixed, vectors, weights, offsets, d_scores, d_vectors, chunks):
    groups = len(d_mixed)
    for chunk in share(part, chunks):
        for c in range(chunk_begin(chunk, chunks, groups), chunk_begin(chunk + 1, chunks, groups)):
            begin, end = offsets[c], offsets[c + 1]
            w, d_s = weights[begin:end], d_scores[begin:end]
            for k in range(w.size):
                d_s[k] = dot(d_mixed, c, vectors, begin + k)
                add(d_vectors, begin + k, d_mixed, c, w[k])
            mean = row_dot(w, d_s)
            for k in range(w.size):
                d_s[k] = w[k] * (d_s[k] - mean)
