"""Mirror of `refimpl.fasttrees.distance_trees`: the trees of the distances of a batch."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, finite, offsets_of, sequences_of
from refimpl.fasttrees.distance_trees import distance_trees as ref_distance_trees
from refimpl.trees import spans


def distance_trees(distances: Array, offsets: Array, *, split: str = "biased") -> Outputs:
    """Mirror of `refimpl.fasttrees.distance_trees`: (spans [S, 2] of two words or more, span_offsets [B+1]).

    The spans of a tree stand in pre-order: each one before those inside it, and these from left to right.
    """
    finite(distances=distances)
    nodes, counts = [], []
    for part in sequences_of(offsets, len(distances)):
        words = [str(i) for i in range(part.stop - part.start)]
        tree = ref_distance_trees(words, distances[part], split)
        nodes += [(i, j) for _, i, j in spans(tree) if j > i]
        counts.append(len(nodes) - sum(counts))
    return np.array(nodes, np.int32).reshape(-1, 2), offsets_of(counts)
