"""Trees from syntactic distances, many sentences at once. Mirrors `refimpl.fasttrees.distance_trees`, exactly.

One Numba CUDA thread a sentence. n words make n - 1 spans, so the places of a node's children among the spans follow
from the node's place and their sizes: the list of spans is also the list of open nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

SPLITS = ("biased", "unbiased")


def distance_trees(distances: Array, offsets: Array, *, split: str = "biased") -> tuple[Array, Array]:
    """Return (spans [N - B, 2] int32, span_offsets [B+1]): first and last word of every node of two words or more.

    distances [N], one a word; offsets [B+1] int64. Spans count from the start of the sentence, in pre-order. "biased":
    [left [word right]] around the word of greatest distance; "unbiased": [left right], where right begins with the word
    of greatest distance among all but the first. Ties go to the first.
    Raises ValueError naming the argument that does not fit, an empty sentence, or a row with a NaN or an infinity.
    """
    xp = device.xp()
    if split not in SPLITS:
        raise ValueError(f"split: {split!r} is not one of {', '.join(SPLITS)}")
    (distances,) = check.floats(distances=distances)
    check.shape("distances", distances, "N")
    lengths = np.diff(check.sequence_offsets(offsets, len(distances)))
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    check.finite(distances=distances)
    offsets = xp.ascontiguousarray(offsets)
    spans = xp.empty((len(distances) - len(lengths), 2), np.int32)
    device.each(walk_sentence, len(lengths), distances, offsets, int(split == "biased"), spans)
    return spans, offsets - xp.arange(len(offsets))


def walk_sentence(distances: Any, offsets: Any, biased: int, spans: Any) -> None:
    """Write the spans of sentence b; a kernel for Numba CUDA.

    Either split cuts a node in two before a word: the word of greatest distance, or, if that is the node's first
    word, its second. The right part of a biased cut, [word right], is again a node that is cut after its first word.
    """
    b = cuda.grid(1)
    if b >= offsets.size - 1:
        return
    start, first = offsets[b], offsets[b] - b  # the first word, and the first span
    n_spans = offsets[b + 1] - start - 1
    if n_spans > 0:
        spans[first, 0], spans[first, 1] = 0, n_spans
    for place in range(first, first + n_spans):
        low, high = spans[place, 0], spans[place, 1]
        cut = low + 1 - biased
        for i in range(cut + 1, high + 1):
            if distances[start + i] > distances[start + cut]:
                cut = i
        cut = max(cut, low + 1)
        if cut - low > 1:
            spans[place + 1, 0], spans[place + 1, 1] = low, cut - 1
        if cut < high:
            right = place + cut - low
            spans[right, 0], spans[right, 1] = cut, high
