"""Mirror of `refimpl.transformer_grammars.span_parser.best_trees`."""

from __future__ import annotations

import numpy as np

from accel.ref.span_parser import sentences_of
from accel.ref.support.batch import Array, Outputs, of_sequence, offsets_of
from refimpl.transformer_grammars import span_parser as ref_span_parser


def best_trees(scores: Array, offsets: Array, count: int) -> Outputs:
    """Mirror of `refimpl.transformer_grammars.span_parser.best_trees`.

    Returns (tree_offsets [B+1], tree_scores [T] float64, span_offsets [T+1], spans [K, 2], labels [K]).

    The constituents of a tree stand in pre-order: each one before those inside it, and these from left to right.
    """
    squares = [square.astype(np.float64) for square, _ in sentences_of(scores, offsets)]
    best = [of_sequence(b, lambda x=x: ref_span_parser.best_trees(x, count)) for b, x in enumerate(squares)]
    trees = [tree for trees in best for _, tree in trees]
    constituents = np.array([span for tree in trees for span in tree], np.int32).reshape(-1, 3)
    return (
        offsets_of([len(trees) for trees in best]),
        np.array([score for trees in best for score, _ in trees], np.float64),
        offsets_of([len(tree) for tree in trees]),
        constituents[:, :2].copy(),
        constituents[:, 2].copy(),
    )
