"""Mirror of `refimpl.treeformer.cky_pooling.chart_trees`: the trees of the largest weights."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, finite, of_sequence, offsets_of, sequences_of
from refimpl.treeformer import cky_pooling as ref_cky_pooling
from refimpl.trees import spans


def chart_trees(weights: Array, offsets: Array, *, max_height: int | None) -> Outputs:
    """Mirror of `refimpl.treeformer.cky_pooling.chart_trees`: spans [S, 2] of two words or more, span_offsets [B+1].

    The spans of a tree stand in pre-order: each one before those inside it, and these from left to right.
    """
    finite(weights=weights)
    lengths = [part.stop - part.start for part in sequences_of(offsets, int(offsets[-1]))]
    phrases = [(b, i, j) for b, n in enumerate(lengths) for i, j in ref_cky_pooling.phrases(n, max_height)[n:]]
    bounds = offsets_of([j - i for _, i, j in phrases])
    if bounds[-1] != len(weights):
        raise ValueError(f"weights: {len(weights)}, but the charts have {bounds[-1]}")
    charts = [ref_cky_pooling.Chart(n, {}, {}) for n in lengths]
    for (b, i, j), start, end in zip(phrases, bounds[:-1], bounds[1:], strict=True):
        charts[b].weights[i, j] = weights[start:end]
    trees = [of_sequence(b, lambda chart=chart: ref_cky_pooling.chart_trees(chart)) for b, chart in enumerate(charts)]
    nodes = [(i, j) for tree in trees for _, i, j in spans(tree) if j > i]
    return np.array(nodes, np.int32).reshape(-1, 2), offsets_of([n - 1 for n in lengths])
