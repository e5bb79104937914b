"""The best labelled trees of sentences on the GPU, exactly, each once.

Mirrors `refimpl.transformer_grammars.span_parser.best_trees`, in float64 for scores of either dtype. A block a
sentence, a thread a span, length by length. The CPU computes a span's next derivation when a larger span needs it; here
each span computes as many as can be needed. Memory: 24 bytes a derivation, two lists a span; as many sentences at a
time as fit into MEMORY.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.span_parser import check_spans

Trees = tuple[Array, Array, Array, Array, Array]

MEMORY = 2**31  # bytes of the lists at a time; those of a single sentence may have more
ENTRY = 3  # float64 numbers that a derivation takes
ENTRY_BYTES = 8 * ENTRY
THREADS = 32


def best_trees(scores: Array, offsets: Array, count: int) -> Trees:
    """Return the `count` best trees of each sentence, best first, or all where there are fewer.

    scores and offsets as for `span_logz`. Returns (tree_offsets [B+1] int64, tree_scores [T] float64, span_offsets
    [T+1] int64, spans [K, 2] int32, labels [K] int32): where the trees of each sentence begin; the sum of the scores of
    each tree's constituents; where these begin; and the constituents in pre-order: first and last word within the
    sentence, and label.
    Raises ValueError as `span_logz`, and for a count below 1.
    """
    begins, lengths = check_spans(scores, offsets)
    if count < 1:
        raise ValueError(f"count: {count} is below 1")
    xp, n_labels = device.xp(), scores.shape[1]
    wide = xp.ascontiguousarray(scores, np.float64)
    room = 2 * ENTRY_BYTES * np.diff(begins) * most_trees(int(lengths.max(initial=1)), n_labels, count)
    sizes, parts = [], [(xp.empty(0), xp.empty(0, np.int64), xp.empty((0, 3), np.int32))]
    first = 0
    while first < len(lengths):
        last = max(first + 1, first + int(np.searchsorted(np.cumsum(room[first:]), MEMORY, side="right")))
        part = wide[begins[first] : begins[last]], lengths[first:last], begins[first : last + 1] - begins[first]
        n_trees, *trees = _search(*part, count)
        sizes.append(n_trees)
        parts.append(trees)
        first = last
    tree_scores, tree_sizes, constituents = (xp.concatenate(column) for column in zip(*parts, strict=True))
    tree_offsets = np.cumsum(np.concatenate([[0], *sizes]))
    span_offsets = xp.zeros(len(tree_sizes) + 1, np.int64)
    span_offsets[1:] = xp.cumsum(tree_sizes)
    spans, labels = (xp.ascontiguousarray(constituents[:, columns]) for columns in (slice(2), 2))
    return xp.asarray(tree_offsets, np.int64), tree_scores, span_offsets, spans, labels


def most_trees(n: int, n_labels: int, count: int) -> int:
    """Return how many derivations a span of up to n words has at most, or `count` if that is less."""
    child, rest = [n_labels + 1], [n_labels + 1]
    while len(child) < n and child[-1] < count:
        rows = sum(first * following for first, following in zip(child, reversed(rest), strict=True))
        child.append(n_labels * rows)
        rest.append(n_labels * rows + rows)
    return min(count, child[-1])


def _search(scores: Array, lengths: Any, begins: Any, count: int) -> tuple[Any, Array, Array, Array]:
    """Return the numbers of trees on the host [B], their scores [T], numbers of constituents [T], and constituents."""
    xp, n_labels, longest = device.xp(), scores.shape[1], int(lengths.max())
    most = most_trees(longest, n_labels, count)
    heap_size = max(2 * longest + most, n_labels) + 1
    offsets = xp.asarray(np.concatenate([[0], np.cumsum(lengths)]))
    lists, sizes = xp.empty(2 * len(scores) * most * ENTRY), xp.empty(2 * len(scores), np.int32)
    shared = scores, offsets, xp.asarray(begins), lists, sizes
    heaps = xp.empty(int(lengths.sum()) * heap_size * ENTRY)
    _launch("grow_lists", len(lengths), *shared, heaps, n_labels, most, heap_size)
    roots = begins[:-1] + begins[1:] - 1  # the last list of children; those of rows come after it
    counts = device.to_host(sizes[xp.asarray(roots)]).astype(np.int64)
    tree_offsets = np.concatenate([[0], np.cumsum(counts)])
    n_trees, width, depth = int(tree_offsets[-1]), 2 * longest - 1, longest + 1
    tree_scores, tree_sizes = xp.empty(n_trees), xp.empty(n_trees, np.int64)
    constituents, stacks = xp.empty((n_trees, width, 3), np.int32), xp.empty(n_trees * depth * 4, np.int32)
    outputs = tree_scores, tree_sizes, constituents, stacks
    limits = len(lengths), n_labels, most, width, depth
    _launch("unfold_trees", -(-n_trees // THREADS), *shared, xp.asarray(tree_offsets), *outputs, *limits)
    return counts, tree_scores, tree_sizes, constituents[xp.arange(width) < tree_sizes[:, np.newaxis]]


def _launch(kernel: str, blocks: int, *args: Any) -> None:
    device.launch("best_trees", kernel, (blocks,), (THREADS,), args, np.float64)
