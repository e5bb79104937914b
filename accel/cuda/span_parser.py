"""Sums over all labelled trees of sentences, and their gradient, on the GPU.

Mirrors `refimpl.transformer_grammars.span_parser`. A block a sentence, a warp a span, length by length; in float64
whatever the scores are in. The labels of all spans are summed before, a warp a span. Memory: four tables of n^2 a
sentence; five for the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check, known

WARPS = 8  # a block


def span_logz(scores: Array, offsets: Array) -> tuple[Array]:
    """Return the logarithm of the sum of exp(score) over all trees of each sentence, [B].

    scores [S, L], of every label for every span, -inf where it is forbidden: sentence by sentence, in a sentence
    shorter spans first, then from the left; offsets [B+1] int64, of the words.
    Raises ValueError naming the argument that does not fit, a row with a NaN or +infinity, or a sentence that is empty
    or has no possible tree.
    """
    begins, lengths = check_spans(scores, offsets)
    return (_charts(scores, offsets, begins, lengths)[-1].astype(scores.dtype),)


def span_logz_vjp(d_out: Array, outputs: tuple[Array], scores: Array, offsets: Array) -> tuple[Array]:
    """Return the gradient of the scores: the probability of every label for every span, times d_out."""
    begins, lengths = _spans(scores, offsets)
    check.shape("d_out", d_out, len(lengths))
    xp, wide = device.xp(), device.xp().ascontiguousarray(scores, np.float64)
    *charts, _ = _charts(scores, offsets, begins, lengths)
    probabilities, (factors, bases), d_scores = xp.empty_like(charts[-1]), xp.empty((2, len(wide))), xp.empty_like(wide)
    gradients = xp.ascontiguousarray(d_out, np.float64)
    _launch("span_outside", len(lengths), gradients, *charts, probabilities, factors, bases)
    _launch("span_marginals", -(-len(wide) // WARPS), wide, factors, bases, d_scores, *wide.shape)
    return (d_scores.astype(scores.dtype),)


def check_spans(scores: Array, offsets: Array) -> tuple[Any, Any]:
    """Return, on the host, where the spans of every sentence begin, [B+1], and its words, [B].

    Raises ValueError as `span_logz`.
    """
    begins, lengths = _spans(scores, offsets)
    xp = device.xp()
    possible = (scores < np.inf).all(axis=1)
    if not possible.all():
        raise ValueError(f"scores: NaN or +infinity in row {int(xp.argmin(possible))}")
    rooted = (scores[xp.asarray(begins[1:] - 1)] > -np.inf).any(axis=1)
    if not rooted.all():
        raise ValueError(f"sequence {int(xp.argmin(rooted))}: no tree is possible")
    return begins, lengths


def _spans(scores: Array, offsets: Array) -> tuple[Any, Any]:
    """Return what `check_spans` returns, without checking the values of the scores, for which the host would wait."""
    check.floats(scores=scores)
    check.shape("scores", scores, "S", "L")
    if scores.shape[1] == 0:
        raise ValueError(f"scores: shape {scores.shape} has no labels")
    copy = known.host(offsets)
    lengths = np.diff(check.sequence_offsets(offsets, int(copy[-1]) if len(copy) else 0))
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    begins = np.concatenate([[0], np.cumsum(lengths * (lengths + 1) // 2)])
    if begins[-1] != len(scores):
        raise ValueError(f"scores: {len(scores)} rows, but the charts have {begins[-1]} spans")
    return begins, lengths


def _charts(scores: Array, offsets: Array, begins: Any, lengths: Any) -> tuple[Array, ...]:
    """Return offsets, begins, where the tables of each sentence begin, the tables C, B, N and R, and log Z."""
    xp = device.xp()
    wide = xp.ascontiguousarray(scores, np.float64)
    labels, logz = xp.empty(len(wide)), xp.empty(len(lengths))
    _launch("span_labels", -(-len(wide) // WARPS), wide, labels, *wide.shape)
    ends = np.cumsum(lengths**2)
    places = xp.ascontiguousarray(offsets), xp.asarray(begins), xp.asarray(ends - lengths**2)
    tables = [xp.empty(int(ends[-1]) if len(ends) else 0) for _ in range(4)]
    _launch("span_inside", len(lengths), labels, *places, *tables, logz)
    return *places, *tables, logz


def _launch(kernel: str, blocks: int, *args: Any) -> None:
    device.launch("span_parser", kernel, (blocks,), (32, WARPS), args, np.float64)
