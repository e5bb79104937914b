"""Trees of the largest weights of charts, many sentences at once.

Mirrors `refimpl.treeformer.cky_pooling.chart_trees`, exactly.

One Numba CUDA thread a sentence. As in `distance_trees`, the list of spans is also the list of open nodes: the places
of a node's children follow from the node's place and their sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from accel.cuda import device
from accel.cuda.cky_pooling import chart_sizes
from accel.cuda.device import Array
from accel.cuda.support import check


def chart_trees(weights: Array, offsets: Array, *, max_height: int | None) -> tuple[Array, Array]:
    """Return (spans [N - B, 2] int32, span_offsets [B+1]): first and last token of every node of two tokens or more.

    weights [P] and max_height as of `cky_pool`; offsets [B+1] int64, of the tokens. Spans count from the start of the
    sentence, in pre-order; a node is split at its largest weight, at the first of equal ones.
    Raises ValueError naming the argument that does not fit, an empty sentence or one longer than max_height, or a row
    with a NaN or an infinity.
    """
    xp = device.xp()
    (weights,) = check.floats(weights=weights)
    check.shape("weights", weights, "P")
    (offsets,) = check.integers(np.int64, offsets=offsets)
    host = check.sequence_offsets(offsets, int(offsets[-1]) if len(offsets) else 0)
    pairs = chart_sizes(host, max_height)[1]
    check.finite(weights=weights)
    for b, n in enumerate(np.diff(host).tolist()):
        if max_height is not None and n > max_height:
            raise ValueError(f"sequence {b}: {n} tokens, but the chart ends at height {max_height}: no root")
    if len(weights) != pairs.sum():
        raise ValueError(f"weights: {len(weights)}, but the charts have {pairs.sum()} pairs")
    spans = xp.empty((int(host[-1]) - len(pairs), 2), np.int32)
    device.each(walk_chart, len(pairs), weights, offsets, xp.asarray(np.cumsum(pairs) - pairs), spans)
    return spans, offsets - xp.arange(len(offsets))


def walk_chart(weights: Any, offsets: Any, first_pairs: Any, spans: Any) -> None:
    """Write the spans of sentence b; a kernel for Numba CUDA."""
    b = cuda.grid(1)
    if b >= first_pairs.size:
        return
    n, first = offsets[b + 1] - offsets[b], offsets[b] - b  # tokens, and the first span
    if n > 1:
        spans[first, 0], spans[first, 1] = 0, n - 1
    for place in range(first, first + n - 1):
        low, high = spans[place, 0], spans[place, 1]
        longer = high - low  # tokens more than one; rows of phrases of at most `longer` tokens have `below` pairs
        below = (longer - 1) * longer // 2 * n - (longer - 1) * longer * (2 * longer - 1) // 6
        pair = first_pairs[b] + below + low * longer
        cut = 0
        for k in range(1, longer):
            if weights[pair + k] > weights[pair + cut]:
                cut = k
        if cut > 0:
            spans[place + 1, 0], spans[place + 1, 1] = low, low + cut
        if cut + 1 < longer:
            right = place + 1 + cut
            spans[right, 0], spans[right, 1] = low + cut + 1, high
