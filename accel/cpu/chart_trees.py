"""Trees from the weights of charts, many sentences at once.

Mirrors `refimpl.treeformer.cky_pooling.chart_trees`, exactly. Parallel over sentences; memory for the spans only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.cky_pooling import most_tokens, pairs_below, sizes
from accel.cpu.recurrence import steps_of
from accel.cpu.support.arguments import check_finite, check_floats, check_offsets, contiguous
from accel.cpu.support.kernels import kernel
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]


@contiguous
def chart_trees(weights: Float, offsets: Offsets, *, max_height: int | None) -> tuple[Index, Offsets]:
    """Return the spans [S, 2] of every node of two words or more, in pre-order, and their offsets [B+1].

    Spec: CKY-4, of a batch.

    Parameters
    ----------
    weights : [P]
        The weights that `cky_pool` returns, one for every split of every phrase, sentence by sentence and row by row.
        A phrase is split where its weight is largest, and of equal weights at the first.
    offsets : [B+1] int64
        Sentence b has n_b tokens, at least one.
    max_height
        Tokens of the longest phrase in the charts; None for no limit.

    Returns
    -------
    spans [N - B, 2] int32, span_offsets [B+1]
        First and last word within the sentence; n words give n - 1 spans.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, a sentence that is empty or longer than max_height, a NaN or an infinity.
    """
    sizes_of_axes = check_floats(weights=(weights, "P"))
    check_finite("weights", weights)
    check_offsets("offsets", offsets, None, int(offsets[-1]) if len(offsets) else 0)
    steps_of(offsets)
    lengths = np.diff(offsets)
    height = most_tokens(lengths, max_height)
    if (lengths > height).any():
        b = int(np.flatnonzero(lengths > height)[0])
        raise ValueError(f"sequence {b}: {lengths[b]} tokens, but the chart ends at height {height}: no root")
    pairs = sizes(lengths, height)[1]
    if sizes_of_axes["P"] != pairs.sum():
        raise ValueError(f"weights: {sizes_of_axes['P']}, but the charts have {pairs.sum()} pairs")
    span_offsets = offsets - np.arange(offsets.size)
    spans = np.empty((int(span_offsets[-1]), 2), np.int32)
    _trees(weights, np.cumsum(pairs) - pairs, span_offsets, spans)
    return spans, span_offsets


@team_kernel()
def _trees(part, weights, first_pairs, span_offsets, spans):
    for b in share(part, first_pairs.size):
        _tree(weights[first_pairs[b] :], spans[span_offsets[b] : span_offsets[b + 1]])


@kernel()
def _tree(weights, spans):
    """Set the n - 1 spans of a sentence of n words, in pre-order."""
    n = len(spans) + 1
    stack = np.empty((n + 1, 2), np.int64)  # first and last word
    stack[0, 0], stack[0, 1] = 0, n - 1
    n_waiting, n_spans = 1, 0
    while n_waiting:
        n_waiting -= 1
        i, j = stack[n_waiting]
        if i == j:
            continue
        spans[n_spans] = i, j
        n_spans += 1
        first, split = pairs_below(n, j - i + 1) + i * (j - i), 0
        for k in range(1, j - i):
            if weights[first + k] > weights[first + split]:
                split = k
        stack[n_waiting, 0], stack[n_waiting, 1] = i + split + 1, j
        stack[n_waiting + 1, 0], stack[n_waiting + 1, 1] = i, i + split
        n_waiting += 2
