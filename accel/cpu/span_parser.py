"""Sums over all labelled trees of many sentences, and their gradient.

Mirrors `refimpl.transformer_grammars.span_parser`. Parallel over sentences; computes in float64 for scores
of either dtype. The labels of a span are summed once: a sentence of n words takes O(n^2 L + n^3) time, and memory for
four tables of n^2 numbers, six in the gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, check_offsets, contiguous
from accel.cpu.support.kernels import kernel, row_max
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Offsets = NDArray[np.int64]


@contiguous
def span_logz(scores: Float, offsets: Offsets) -> tuple[Float]:
    """Return the logarithm of the sum of exp(score) over all trees of each sentence, [B].

    Spec: SP-2, of a batch.

    Parameters
    ----------
    scores : [S, L]
        The score of every label for every span, -inf for a forbidden label. Rows stand sentence by sentence, within a
        sentence shorter spans first, spans of equal length from left to right.
    offsets : [B+1] int64
        Sentence b has n_b words, at least one, and n_b (n_b + 1) / 2 spans.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, an empty sentence, one without a possible tree, a NaN or +infinity.
    """
    begins = check_spans(scores, offsets)
    logz = np.empty(len(offsets) - 1, np.float64)
    _logz(scores, offsets, begins, logz)
    return (logz.astype(scores.dtype),)


@contiguous
def span_logz_vjp(d_out: Float, outputs: tuple[Float], scores: Float, offsets: Offsets) -> tuple[Float]:
    """Return the gradient of the scores: the probability of every label for every span, times d_out. Spec: SP-3."""
    begins = check_spans(scores, offsets)
    check_floats(logz=(outputs[0], "B"), d_out=(d_out, "B"))
    d_scores = np.empty(scores.shape, scores.dtype)
    _marginals(scores, offsets, begins, d_out, d_scores)
    return (d_scores,)


def check_spans(scores: Float, offsets: Offsets) -> Offsets:
    """Return where the spans of every sentence begin, [B+1]; raise ValueError as `span_logz`."""
    rows, n_labels = check_floats(scores=(scores, "SL")).values()
    if n_labels == 0:
        raise ValueError(f"scores: shape {scores.shape} has no labels")
    check_offsets("offsets", offsets, None, int(offsets[-1]) if len(offsets) else 0)
    lengths = np.diff(offsets)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    begins = np.concatenate([[0], np.cumsum(lengths * (lengths + 1) // 2)])
    if begins[-1] != rows:
        raise ValueError(f"scores: {rows} rows, but the charts have {begins[-1]} spans")
    possible = scores < np.inf
    if not possible.all():
        raise ValueError(f"scores: NaN or +infinity in row {np.argwhere(~possible)[0, 0]}")
    rooted = (scores[begins[1:] - 1] > -np.inf).any(axis=1)
    if not rooted.all():
        raise ValueError(f"sequence {int(np.argmin(rooted))}: no tree is possible")
    return begins


@team_kernel()
def _logz(part, scores, offsets, begins, logz):
    for b in share(part, logz.size):
        n = offsets[b + 1] - offsets[b]
        logz[b] = inside(scores[begins[b] : begins[b + 1]], n)[0, 0, n - 1]


@kernel()
def inside(scores, n):
    """Return C, B, N of the page as [i, j] and R as [j, i], so that both terms of a sum over splits lie in rows."""
    charts = np.empty((4, n, n), np.float64)
    C, B, N, R = charts
    span = 0
    for longer in range(n):
        for i in range(n - longer):
            j = i + longer
            labels = _log_sum_labels(scores[span])
            if longer == 0:
                C[i, i] = labels
                N[i, i] = R[i, i] = _log_add(0.0, labels)
            else:
                B[i, j] = _log_sum_splits(N[i, i:j], R[j, i + 1 : j + 1])
                C[i, j] = N[i, j] = labels + B[i, j]
                R[j, i] = _log_add(N[i, j], B[i, j])
            span += 1
    return charts


@kernel()
def _log_sum_labels(x):
    most = np.float64(row_max(x))
    total = 0.0
    if most > -np.inf:
        for label in range(x.size):
            total += math.exp(x[label] - most)
    return most + math.log(total) if total > 0 else -np.inf


@kernel()
def _log_sum_splits(left, right):
    most = -np.inf
    for k in range(left.size):
        most = max(most, left[k] + right[k])
    total = 0.0
    if most > -np.inf:
        for k in range(left.size):
            total += math.exp(left[k] + right[k] - most)
    return most + math.log(total) if total > 0 else -np.inf


@kernel()
def _log_add(x, y):
    most = max(x, y)
    return most + math.log1p(math.exp(min(x, y) - most)) if most > -np.inf else most


@team_kernel()
def _marginals(part, scores, offsets, begins, d_out, d_scores):
    for b in share(part, offsets.size - 1):
        rows = slice(begins[b], begins[b + 1])
        _outside(scores[rows], offsets[b + 1] - offsets[b], d_out[b], d_scores[rows])


@kernel()
def _outside(scores, n, gradient, d_scores):
    """Set d_scores to the marginals times the gradient of log Z.

    From the root down, `of_C`, `of_B`, `of_N` and `of_R` are the probabilities that the tree uses C, B, N and R [i, j].
    """
    C, B, N, R = inside(scores, n)
    of_N, of_R = np.zeros((2, n, n), np.float64)  # of_R [j, i]
    of_N[0, n - 1] = 1.0
    span = d_scores.shape[0]
    for longer in range(n - 1, -1, -1):
        for i in range(n - longer - 1, -1, -1):
            j, span = i + longer, span - 1
            of_C, of_B, below = of_N[i, j] + of_R[j, i] * _share(N[i, j], R[j, i]), 0.0, 0.0
            if longer:
                below, of_B = B[i, j], of_C + of_R[j, i] * _share(B[i, j], R[j, i])
            elif n > 1:
                of_C *= _share(C[i, i], N[i, i])
            for label in range(scores.shape[1]):
                d_scores[span, label] = gradient * of_C * _share(scores[span, label] + below, C[i, j])
            if of_B > 0:
                for k in range(i, j):
                    share = of_B * _share(N[i, k] + R[j, k + 1], B[i, j])
                    of_N[i, k] += share
                    of_R[j, k + 1] += share


@kernel()
def _share(part, whole):
    """Return exp(part - whole), and 0 for a part of log-probability -inf, even if the whole is -inf."""
    return math.exp(part - whole) if part > -np.inf else 0.0
