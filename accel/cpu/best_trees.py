"""The best labelled trees of many sentences: an exact search that finds each tree once.

Mirrors `refimpl.transformer_grammars.span_parser.best_trees`; computes in float64 for scores of either dtype. Parallel
over sentences. Frontiers are lazy (Huang and Chiang 2005, algorithm 3): the next derivation of a span is computed when
a larger span needs it. Most spans need only a few derivations, and memory grows with the number of derivations.
"""

from __future__ import annotations

import heapq
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from accel.cpu.span_parser import check_spans
from accel.cpu.support.arguments import contiguous
from accel.cpu.support.kernels import kernel

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]


@contiguous
def best_trees(scores: Float, offsets: Offsets, count: int) -> tuple[Offsets, Float, Offsets, Index, Index]:
    """Return the `count` best trees of each sentence, best first, or all where there are fewer.

    Spec: SP-4, of a batch; scores and offsets as of `span_logz`.

    Returns
    -------
    tree_offsets [B+1] int64, tree_scores [T] float64
        Sentence b has the trees `tree_offsets[b]` to `tree_offsets[b+1]`. The score of a tree is the sum of the scores
        of its constituents.
    span_offsets [T+1] int64, spans [K, 2] int32, labels [K] int32
        Constituents of every tree in pre-order: first and last word within the sentence, and the label.

    Raises
    ------
    ValueError
        As `span_logz`, and a count below 1.
    """
    begins = check_spans(scores, offsets)
    if count < 1:
        raise ValueError(f"count: {count} is below 1")

    def best(b: int) -> tuple[Float, Offsets, Index]:
        sentence_scores = np.ascontiguousarray(scores[begins[b] : begins[b + 1]], np.float64)
        sentence_trees: tuple[Float, Offsets, Index] = _best(sentence_scores, offsets[b + 1] - offsets[b], count)
        return sentence_trees

    with ThreadPoolExecutor(get_num_threads()) as threads:
        trees = list(threads.map(best, range(len(offsets) - 1)))
    constituents = np.concatenate([np.empty((0, 3), np.int32), *(spans for _, _, spans in trees)])
    return (
        _offsets([len(best_scores) for best_scores, _, _ in trees]),
        np.concatenate([np.empty(0), *(best_scores for best_scores, _, _ in trees)]),
        _offsets([0, *(size for _, sizes, _ in trees for size in sizes)])[1:],
        np.ascontiguousarray(constituents[:, :2]),
        np.ascontiguousarray(constituents[:, 2]),
    )


def _offsets(sizes: Any) -> Offsets:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@kernel(nogil=True)
def _best(scores, n, count):
    """Return the scores of the best trees [T], their numbers of constituents [T], and the constituents [K, 3].

    Node i n + j stands for words i to j as one child, node n n + i n + j for words i to j as a row of two children or
    more. A derivation is (-score, edge, a, b). The edge of a child is its label, or the number of labels for a bare
    word; b is the place of the derivation of its row in the list of that node. The edge of a row whose first child
    ends at word k is 2 k + 1 if one more child follows, and 2 k if a row follows; a is the place of the derivation of
    the first child, b of what follows. Derivations of equal scores are ordered by edge, a and b.
    """
    derivations = [[(0.0, 0, 0, 0) for _ in range(0)] for _ in range(2 * n * n)]  # those computed so far, best first
    waiting = [[(0.0, 0, 0, 0) for _ in range(0)] for _ in range(2 * n * n)]  # heaps of candidates
    state = np.zeros(2 * n * n, np.int8)  # 1: has a heap; 2: it has the last one's successors, too; 3: complete
    for longer in range(n):
        for i in range(n - longer):
            for node in (n * n + i * n + i + longer, i * n + i + longer):
                ways = _ways(node, scores, n, derivations)
                if len(ways):
                    best = ways[0]
                    for way in ways:
                        best = way if way < best else best
                    derivations[node].append(best)
                else:
                    state[node] = 3
    root = n - 1
    _extend(root, count - 1, scores, n, derivations, waiting, state)
    best_scores, sizes = np.empty(len(derivations[root]), np.float64), np.empty(len(derivations[root]), np.int64)
    constituents = [(0, 0, 0) for _ in range(0)]
    for place in range(sizes.size):
        before = len(constituents)
        best_scores[place] = -derivations[root][place][0]
        _unfold(root, place, scores, n, derivations, constituents)
        sizes[place] = len(constituents) - before
    out = np.empty((len(constituents), 3), np.int32)
    for place in range(len(constituents)):
        out[place, 0], out[place, 1], out[place, 2] = constituents[place]
    return best_scores, sizes, out


@kernel()
def _ways(node, scores, n, derivations):
    """Return the best derivation of every possible edge of a node."""
    ways = [(0.0, 0, 0, 0) for _ in range(0)]
    i, j = node % (n * n) // n, node % n
    if node >= n * n:
        for k in range(i, j):
            left, right = derivations[i * n + k], (k + 1) * n + j
            if len(left):
                for edge in (2 * k, 2 * k + 1):
                    rest = derivations[right + n * n * (1 - edge % 2)]
                    if len(rest):
                        ways.append((left[0][0] + rest[0][0], edge, 0, 0))
    elif i == j or len(derivations[n * n + node]):
        below = derivations[n * n + node][0][0] if i < j else 0.0
        label_scores = scores[_span(i, j, n)]
        for label in range(label_scores.size):
            if label_scores[label] > -np.inf:
                ways.append((below - label_scores[label], label, 0, 0))
        if i == j and n > 1:
            ways.append((0.0, label_scores.size, 0, 0))
    return ways


@kernel()
def _span(i, j, n):
    """Return the number of span (i, j) among the spans of a sentence of n words."""
    return (j - i) * n - (j - i) * (j - i - 1) // 2 + i


@kernel()
def _parts(node, edge, n):
    """Return the nodes that an edge of a node joins: a and b are places in their lists of derivations; -1 for none."""
    i, j = node % (n * n) // n, node % n
    if node >= n * n:
        k = edge // 2
        return i * n + k, (k + 1) * n + j + n * n * (1 - edge % 2)
    return -1, n * n + node if i < j else -1


@kernel()
def _extend(root, last, scores, n, derivations, waiting, state):
    """Compute the derivations of the root up to the place `last`, and those of other nodes that these need."""
    open_requests = [(root, last)]
    while len(open_requests):
        node, place = open_requests[-1]
        if len(derivations[node]) > place or state[node] == 3:
            open_requests.pop()
            continue
        if state[node] == 0:
            ways = _ways(node, scores, n, derivations)
            heapq.heapify(ways)
            heapq.heappop(ways)
            waiting[node], state[node] = ways, 1
        if state[node] == 1:
            negated, edge, a, b = derivations[node][-1]
            left, right = _parts(node, edge, n)
            more_right = right >= 0
            if more_right and len(derivations[right]) <= b + 1:
                if state[right] < 3:
                    open_requests.append((right, b + 1))
                    continue
                more_right = False
            more_left = left >= 0 and b == 0
            if more_left and len(derivations[left]) <= a + 1:
                if state[left] < 3:
                    open_requests.append((left, a + 1))
                    continue
                more_left = False
            if more_right:
                other = derivations[left][a][0] if left >= 0 else -scores[_span(node // n, node % n, n), edge]
                heapq.heappush(waiting[node], (other + derivations[right][b + 1][0], edge, a, b + 1))
            if more_left:
                heapq.heappush(waiting[node], (derivations[left][a + 1][0] + derivations[right][0][0], edge, a + 1, 0))
            state[node] = 2
        if len(waiting[node]):
            derivations[node].append(heapq.heappop(waiting[node]))
            state[node] = 1
        else:
            state[node] = 3


@kernel()
def _unfold(root, place, scores, n, derivations, constituents):
    """Append the constituents of a derivation in pre-order."""
    open_requests = [(root, place)]
    while len(open_requests):
        node, place = open_requests.pop()
        _, edge, a, b = derivations[node][place]
        left, right = _parts(node, edge, n)
        if left < 0 and edge < scores.shape[1]:
            constituents.append((node // n, node % n, edge))
        if right >= 0:
            open_requests.append((right, b))
        if left >= 0:
            open_requests.append((left, a))
