"""Mirror of `refimpl.transformer_grammars.span_parser` for a batch; spans stand in the order of `cky_pool`'s charts.

The gradient is the marginals of the reference, not a central difference.
"""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, of_sequence, sequences_of
from refimpl.transformer_grammars import span_parser as ref_span_parser


def span_logz(scores: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.transformer_grammars.span_parser.span_logz`: (logz [B],)."""
    squares = [square for square, _ in sentences_of(scores, offsets)]
    logz = [of_sequence(b, lambda x=x: ref_span_parser.span_logz(x)) for b, x in enumerate(squares)]
    return (np.array(logz, scores.dtype),)


def span_logz_vjp(d_out: Array, outputs: Outputs, scores: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.transformer_grammars.span_parser.marginals`, times d_out: (d_scores [S, L],)."""
    sentences = zip(d_out, sentences_of(scores, offsets), strict=True)
    parts = [
        gradient * ref_span_parser.marginals(square.astype(np.float64))[rows] for gradient, (square, rows) in sentences
    ]
    return (np.concatenate([scores[:0], *parts]).astype(scores.dtype),)


def sentences_of(scores: Array, offsets: Array) -> list[tuple[Array, tuple[Array, Array]]]:
    """Return, for every sentence, its scores [n, n, L] and the places (i, j) in them of its rows of the batch."""
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"scores: shape {scores.shape} is not [S, L] with labels")
    bad = np.argwhere(~(scores < np.inf))
    if len(bad):
        raise ValueError(f"scores: NaN or +infinity in row {bad[0, 0]}")
    lengths = [part.stop - part.start for part in sequences_of(offsets, int(offsets[-1]) if len(offsets) else 0)]
    n_spans = sum(n * (n + 1) // 2 for n in lengths)
    if n_spans != len(scores):
        raise ValueError(f"scores: {len(scores)} rows, but the charts have {n_spans} spans")
    sentences, begin = [], 0
    for n in lengths:
        first = np.array([i for longer in range(n) for i in range(n - longer)])
        last = np.array([i + longer for longer in range(n) for i in range(n - longer)])
        square = np.full((n, n, scores.shape[1]), -np.inf, scores.dtype)
        square[first, last] = scores[begin : begin + len(first)]
        sentences.append((square, (first, last)))
        begin += len(first)
    return sentences
