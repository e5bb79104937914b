"""Trees drawn without replacement from the charts of many sentences: clause SP-5, of a batch.

Draws from the distribution of `refimpl.transformer_grammars.span_parser.sample_trees`, which lists all trees; here the
trees grow from the root, decision by decision (Kool et al. 2019, "Stochastic beams and where to find them"). A
beginning is the decisions taken so far. Its perturbed log-probability is the greatest of all trees that continue it: so
the beginning on top of the heap is continued, and the first complete tree is the next tree drawn. Computes in float64.
Parallel over sentences. Memory: the charts, and about 30 bytes for every beginning that is among the best.
"""

from __future__ import annotations

import heapq
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from accel.cpu.span_parser import check_spans, inside
from accel.cpu.support.kernels import kernel, mixed

Float = NDArray[Any]
Index = NDArray[np.int32]
Drawn = tuple[Float, NDArray[np.int64], Index]  # log-probabilities [T], numbers of constituents [T], constituents


def sample_trees(scores: Float, offsets: NDArray[np.int64], count: int, seeds: NDArray[np.uint64]) -> list[Drawn]:
    """Return `count` different trees of every sentence in the order in which they are drawn, or all if there are fewer.

    Spec: SP-5.

    Parameters
    ----------
    scores, offsets
        As those of `accel.cpu.span_parser.span_logz`.
    seeds : [B] uint64
        One for every sentence, so that its trees do not depend on the other sentences.

    Returns
    -------
    log_inclusions [T] float64, sizes [T] int64, constituents [K, 3] int32
        For every sentence: the log-probability that each tree is among the drawn trees, its number of constituents, and
        the constituents of each in pre-order: first word, last word, label.

    Raises
    ------
    ValueError
        As `span_logz`, and a count below 1.
    """
    begins = check_spans(scores, offsets)
    if count < 1:
        raise ValueError(f"count: {count} is below 1")

    def draw(b: int) -> Drawn:
        sentence_scores = np.ascontiguousarray(scores[begins[b] : begins[b + 1]], np.float64)
        logqs, least, sizes, constituents = _draw(sentence_scores, offsets[b + 1] - offsets[b], count, seeds[b])
        with np.errstate(over="ignore"):  # for a tree that is certain to be drawn
            return np.log(-np.expm1(-np.exp(logqs - least))), sizes, constituents

    with ThreadPoolExecutor(get_num_threads()) as threads:
        return list(threads.map(draw, range(len(offsets) - 1)))


@kernel(nogil=True)
def _draw(scores, n, count, seed):
    """Return log q of the trees drawn [T], the perturbed log q of the next one, their sizes [T], constituents [K, 3].

    A decision is the number kind n n + i n + j. Kind 0 decides the label of words i to j, kind 1 where the first child
    of their row ends, kind 2 whether they are one constituent or a row. A beginning is (log q, open cell, constituent
    cell), two places in lists: an open cell is (the first open decision, the next open cell), a constituent cell is the
    last constituent (i, j, label, the constituent cell before).
    """
    charts = inside(scores, n)
    open_cells, constituent_cells = [(n - 1, -1)], [(0, 0, 0, -1) for _ in range(0)]
    beginnings, noise, n_noise = [(0.0, 0, -1)], _gumbel(seed, 0), 1
    heap, highest = [(-noise, 0)], [noise]  # `highest`: of the best `count` + 1 trees so far, the least first
    logps, values = np.empty((2, max(n, scores.shape[1], 2)))
    logqs, last_cells, least = [0.0 for _ in range(0)], [0 for _ in range(0)], -np.inf
    while len(heap):
        negated, place = heapq.heappop(heap)
        if len(logqs) == count:
            least = -negated
            break
        logq, cell, last = beginnings[place]
        while cell >= 0:
            decision, after = open_cells[cell]
            size = _weigh(decision, scores, charts, n, logps)
            for way in range(size):
                values[way] = logq + logps[way] + _gumbel(seed, n_noise + way)
            n_noise += size
            best = int(np.argmax(values[:size])) if size else -1
            for way in range(size):
                if way != best and logps[way] > -np.inf:
                    value = _below(-negated, values[way], values[best])
                    if len(highest) <= count:
                        heapq.heappush(highest, value)
                    elif value > highest[0]:
                        heapq.heapreplace(highest, value)
                    else:
                        continue  # not among the best
                    new_cell, new_last = _decide(decision, way, n, after, last, open_cells, constituent_cells)
                    heapq.heappush(heap, (-value, len(beginnings)))
                    beginnings.append((logq + logps[way], new_cell, new_last))
            if size:
                logq += logps[best]
            cell, last = _decide(decision, best, n, after, last, open_cells, constituent_cells)
        logqs.append(logq)
        last_cells.append(last)
    return _listed(np.array(logqs), least, last_cells, constituent_cells)


@kernel()
def _weigh(decision, scores, charts, n, logps):
    """Set the log-probabilities of the ways to decide, and return how many there are: 0 within a single word."""
    C, B, N, R = charts
    kind, i, j = decision // (n * n), decision % (n * n) // n, decision % n
    below = B[i, j] if i < j else 0.0
    if kind == 0:
        row = (j - i) * n - (j - i) * (j - i - 1) // 2 + i
        for label in range(scores.shape[1]):
            logps[label] = scores[row, label] + below - C[i, j]
        return scores.shape[1]
    if kind == 1:
        for k in range(i, j):
            logps[k - i] = N[i, k] + R[j, k + 1] - B[i, j]
        return j - i
    logps[0], logps[1] = C[i, j] - R[j, i], below - R[j, i]
    return 2


@kernel()
def _decide(decision, way, n, after, last, open_cells, constituent_cells):
    """Take a decision; return the cells of the first open decision and of the last constituent after it."""
    kind, i, j = decision // (n * n), decision % (n * n) // n, decision % n
    if kind == 0:
        constituent_cells.append((i, j, way, last))
        last = len(constituent_cells) - 1
        if i == j:
            return after, last
        open_cells.append((n * n + i * n + j, after))
    elif kind == 2:
        open_cells.append((way * n * n + i * n + j, after))
    elif i == j:
        return after, last
    else:
        k = i + way
        open_cells.append((2 * n * n + (k + 1) * n + j, after))
        open_cells.append(((2 * n * n if k == i else 0) + i * n + k, len(open_cells) - 1))
    return len(open_cells) - 1, last


@kernel()
def _listed(logqs, least, last_cells, constituent_cells):
    """Return what `_draw` does, from the cell of every tree's last constituent."""
    sizes = np.zeros(len(last_cells), np.int64)
    for tree in range(len(last_cells)):
        last = last_cells[tree]
        while last >= 0:
            sizes[tree] += 1
            last = constituent_cells[last][3]
    constituents, end = np.empty((sizes.sum(), 3), np.int32), 0
    for tree in range(len(last_cells)):
        end += sizes[tree]
        row, last = end, last_cells[tree]
        while last >= 0:
            row -= 1
            i, j, label, last = constituent_cells[last]
            constituents[row, 0], constituents[row, 1], constituents[row, 2] = i, j, label
    return logqs, least, sizes, constituents


@kernel()
def _below(limit, value, most):
    """Return g' of SP-5, the perturbed log-probability of a part: g is `limit`, h is `value`, H is `most`."""
    difference = limit - value + math.log1p(-math.exp(value - most))
    return limit - max(0.0, difference) - math.log1p(math.exp(-abs(difference)))


@kernel()
def _gumbel(seed, number):
    """Return standard Gumbel noise: `refimpl.randomness.gumbel`."""
    bits = mixed(seed, number) >> np.uint64(12)
    return -math.log(-math.log((np.float64(bits) + 0.5) / 2.0**52))
