"""Trees from syntactic distances, many sentences at once.

Mirrors `refimpl.fasttrees.distance_trees`, exactly. Parallel over sentences; memory for the spans only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.recurrence import steps_of
from accel.cpu.support.arguments import check_finite, check_floats, check_offsets, contiguous
from accel.cpu.support.kernels import kernel
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]
SPLITS = ("biased", "unbiased")


@contiguous
def distance_trees(distances: Float, offsets: Offsets, *, split: str = "biased") -> tuple[Index, Offsets]:
    """Return the spans [S, 2] of every node of two words or more, in pre-order, and their offsets [B+1].

    Spec: FT-8, of a batch.

    Parameters
    ----------
    distances : [N]
        One distance for every word; of equal distances the first counts as the greatest.
    split
        "biased": [left [word right]] around the word of greatest distance; "unbiased": [left right], where right begins
        with the word of greatest distance among all but the first.

    Returns
    -------
    spans [N - B, 2] int32, span_offsets [B+1]
        First and last word within the sequence; n words give n - 1 spans.

    Raises
    ------
    ValueError
        An unknown split, shapes or dtypes that do not fit, an empty sequence, a NaN or an infinity.
    """
    sizes = check_floats(distances=(distances, "N"))
    check_offsets("offsets", offsets, None, sizes["N"])
    steps_of(offsets)
    check_finite("distances", distances)
    if split not in SPLITS:
        raise ValueError(f"split: {split!r} is not one of {', '.join(SPLITS)}")
    span_offsets = offsets - np.arange(offsets.size)
    spans = np.empty((sizes["N"] - (offsets.size - 1), 2), np.int32)
    _trees(distances, offsets, span_offsets, split == "biased", spans)
    return spans, span_offsets


@team_kernel()
def _trees(part, distances, offsets, span_offsets, biased, spans):
    for b in share(part, offsets.size - 1):
        _tree(distances[offsets[b] : offsets[b + 1]], biased, spans[span_offsets[b] : span_offsets[b + 1]])


@kernel()
def _tree(distances, biased, spans):
    """Set the n - 1 spans of a sentence of n words, in pre-order."""
    stack = np.empty((distances.size + 1, 3), np.int64)  # first word, last word, whether the first is a child
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, distances.size - 1, 0
    n_waiting, n_spans = 1, 0
    while n_waiting:
        n_waiting -= 1
        i, j, first_is_split = stack[n_waiting]
        if i == j:
            continue
        spans[n_spans] = i, j
        n_spans += 1
        split = i if biased else i + 1
        for k in range(split + 1, j + 1):
            if distances[k] > distances[split] and not first_is_split:
                split = k
        if biased and (split == i or first_is_split):  # [word right]
            stack[n_waiting, 0], stack[n_waiting, 1], stack[n_waiting, 2] = i + 1, j, 0
            n_waiting += 1
            continue
        stack[n_waiting, 0], stack[n_waiting, 1], stack[n_waiting, 2] = split, j, biased
        stack[n_waiting + 1, 0], stack[n_waiting + 1, 1], stack[n_waiting + 1, 2] = i, split - 1, 0
        n_waiting += 2
