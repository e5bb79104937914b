"""GPST's pruned charts, many sentences at once.

Mirrors `refimpl.gpst.pruned_chart`, exactly: it merges neighbouring units one pair at a time, as on its page, and keeps
W + 1 rows of the chart. A merge makes at most W + 1 new spans, so a sentence of n words takes O(n W^2) after its scores
are sorted. Parallel over sentences, in two passes: the first finds the spans of every sentence and counts the cells of
its steps, the second writes the cells to their places in the batch. Memory is the outputs and, for W = 2, about 160
bytes a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_finite, check_floats, check_offsets, contiguous
from accel.cpu.support.kernels import kernel
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Index = NDArray[np.int32]
Offsets = NDArray[np.int64]
Charts = tuple[Index, Index, Offsets, Index, Index, Offsets, Index]


@contiguous
def pruned_chart(scores: Float, offsets: Offsets, *, window: int) -> Charts:
    """Return the cells of all sentences, their splits, and the steps in which they can be encoded.

    Spec: PC-1, PC-2, PC-3, of a batch. Nodes are numbered through the batch: first its N words, then the cells (spans
    of two words or more) by step, within a step by sentence, within a sentence shorter spans first, then from the left.

    Parameters
    ----------
    scores : [N - B]
        A parser's score of every point between two words, sentence by sentence. Points are merged by ascending score,
        points of equal score from left to right.
    offsets : [B+1] int64
        Sentence b has n_b words, at least one, and n_b - 1 scores.
    window
        W, the largest number of splits of a cell: 1 for the parser's tree, n - 1 or more for the full chart.

    Returns
    -------
    spans [C, 2] int32, owner [C] int32
        First and last word of every cell within its sentence, and the sentence.
    split_offsets [C+1] int64, left [P] int32, right [P] int32
        The nodes of both parts of every split, from left to right. A cell of step s (from 1) has min(s, W) splits.
    step_offsets [T+1] int64
        Step s has the cells `step_offsets[s - 1]` to `step_offsets[s]`; their parts are of earlier steps.
    roots [B] int32
        The node of every whole sentence; for a sentence of one word, that word.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, an empty sentence, a NaN or an infinity, W < 1.
    """
    axes = check_floats(scores=(scores, "S"))
    check_offsets("offsets", offsets, None, axes["S"] + len(offsets) - 1)
    lengths = np.diff(offsets)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    if window < 1:
        raise ValueError(f"window: {window} is below 1")
    check_finite("scores", scores)
    n_words, window = int(offsets[-1]), min(window, int(lengths.max(initial=2)))
    begins = np.zeros((2, offsets.size), np.int64)  # where each sentence's spans and splits begin
    np.cumsum(most_spans(lengths, window), axis=1, out=begins[:, 1:])
    fields, parts = np.empty((4, begins[0, -1]), np.int32), np.empty((2, begins[1, -1]), np.int32)
    counts, heights = np.zeros(n_words, np.int64), np.empty(lengths.size, np.int64)
    _find(scores, offsets, window, begins, fields, parts, counts, heights)
    step_offsets, first_splits = np.zeros((2, int(heights.max(initial=0)) + 1), np.int64)
    _place(counts, heights, offsets, window, step_offsets, first_splits)
    n_cells, n_splits = int(step_offsets[-1]), int(first_splits[-1])
    if n_words + n_cells > np.iinfo(np.int32).max:
        raise ValueError(f"offsets: {n_words} words and {n_cells} cells are more nodes than int32 can number")
    spans, owner = np.empty((n_cells, 2), np.int32), np.empty(n_cells, np.int32)
    roots = np.empty(lengths.size, np.int32)
    split_offsets, (left, right) = np.empty(n_cells + 1, np.int64), np.empty((2, n_splits), np.int32)
    split_offsets[-1] = n_splits
    steps = counts, step_offsets, first_splits
    _fill(offsets, window, begins, fields, parts, *steps, spans, owner, split_offsets, left, right, roots)
    return spans, owner, split_offsets, left, right, step_offsets, roots


def most_spans(lengths: Offsets, window: int) -> Offsets:
    """Return [2, B]: upper bounds of the number of spans that `_play` sets for a sentence, and of their splits.

    It sets all spans of up to W + 1 words. Then each merge but the last W adds one span for every run of W + 1 units
    that contains the new unit.
    """
    w = np.minimum(window, lengths - 1)
    merges = lengths - 1 - w
    last = np.minimum(merges, w + 1)  # merges that leave at most W + 1 runs
    late = last * (last + 1) // 2 + (merges - last) * (w + 1)
    early = w * lengths - w * (w + 1) // 2
    return np.stack([early + late, w * (w + 1) * (3 * lengths - 2 * w - 1) // 6 + w * late])


@team_kernel()
def _find(part, scores, offsets, window, begins, fields, parts, counts, heights):
    for b in share(part, offsets.size - 1):
        cells, splits = slice(begins[0, b], begins[0, b + 1]), slice(begins[1, b], begins[1, b + 1])
        n = offsets[b + 1] - offsets[b]
        first, longer, step, rank = fields[0, cells], fields[1, cells], fields[2, cells], fields[3, cells]
        left, right = parts[0, splits], parts[1, splits]
        w = min(window, n - 1)
        count = _play(scores[offsets[b] - b : offsets[b + 1] - b - 1], w, first, longer, step, left, right)
        if n > 1:
            heights[b] = step[count - 1]
            _rank(n, w, count, first, longer, step, left, right, rank, counts[offsets[b] : offsets[b + 1]])
        else:
            heights[b] = 0


@kernel()
def _play(scores, window, first, longer, step, left, right):
    """Set every span that has W splits or fewer at some merge, in order of the merges; return the number of spans.

    A span has its first word, its number of words minus one, its step, and its splits. Of the parts of splits, part
    0..n-1 is a word, and part n + c is span c. `table[x, m]` is the span of m + 1 units that begins with word x.
    """
    n = scores.size + 1
    table = np.empty((n, window + 1), np.int32)
    for i in range(n):
        table[i, 0] = i
    count = split = 0
    for m in range(1, window + 1):
        for i in range(n - m):
            for k in range(m):
                left[split], right[split] = table[i, k], table[i + k + 1, m - 1 - k]
                split += 1
            first[count], longer[count], step[count], table[i, m] = i, m, m, n + count
            count += 1
    order = merge_order(scores)
    before, after = np.arange(-1, n), np.arange(1, n + 2)  # by a unit's first word: those of its neighbours
    for merge in range(n - 1 - window):
        partner = order[merge] + 1
        unit, follower = before[partner], after[partner]
        after[unit], before[follower] = follower, unit
        followers, y = 0, follower
        while y < n and followers < window:
            followers, y = followers + 1, after[y]
        x = unit
        for distance in range(window + 1):  # in units, from the one at x to the new one
            if x < 0:
                break
            for m in range(distance, window):
                table[x, m] = table[x, m + 1]
            if window - distance <= followers:
                latest, y = 0, x
                for k in range(window):
                    y = after[y]
                    left[split], right[split] = table[x, k], table[y, window - 1 - k]
                    latest = max(latest, _step(left[split], n, step), _step(right[split], n, step))
                    split += 1
                first[count], longer[count], step[count] = x, after[y] - 1 - x, latest + 1
                table[x, window] = n + count
                count += 1
            x = before[x]
    return count


@kernel()
def _step(part, n, step):
    return step[part - n] if part >= n else 0


@kernel()
def merge_order(scores):
    """Return the points by ascending score, equal ones from left to right."""
    n = scores.size
    order, merged = np.arange(n), np.arange(n)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            a, b = low, min(low + width, n)
            middle, high = b, min(low + 2 * width, n)
            for place in range(low, high):
                if a < middle and (b == high or scores[order[a]] <= scores[order[b]]):
                    merged[place] = order[a]
                    a += 1
                else:
                    merged[place] = order[b]
                    b += 1
        order, merged = merged, order
        width *= 2
    return order


@kernel()
def _rank(n, window, count, first, longer, step, left, right, rank, counts):
    """Count the cells of every step; set each span's rank among these, from 1, or 0 if no larger span needs it."""
    split = 0
    for c in range(count):
        split += min(longer[c], window)
    rank[:] = 0
    rank[count - 1] = 1
    n_cells = 0
    for c in range(count - 1, -1, -1):
        begin = split - min(longer[c], window)
        if rank[c]:
            n_cells += 1
            for part in range(begin, split):
                if left[part] >= n:
                    rank[left[part] - n] = 1
                if right[part] >= n:
                    rank[right[part] - n] = 1
        split = begin
    cells, other, bounds = np.empty(n_cells, np.int32), np.empty(n_cells, np.int32), np.empty(n + 1, np.int32)
    place = 0
    for c in range(count):
        if rank[c]:
            cells[place] = c
            place += 1
    for key in (first, longer, step):
        _sort(cells, key, bounds, other)
        cells, other = other, cells
    for c in cells:
        s = step[c] - 1
        counts[s] += 1
        rank[c] = counts[s]


@kernel()
def _sort(cells, key, bounds, out):
    """Set `out` to the cells in ascending order of their keys; cells with equal keys keep their order."""
    bounds[:] = 0
    for c in cells:
        bounds[key[c] + 1] += 1
    for value in range(1, bounds.size):
        bounds[value] += bounds[value - 1]
    for c in cells:
        out[bounds[key[c]]] = c
        bounds[key[c]] += 1


@kernel()
def _place(counts, heights, offsets, window, step_offsets, first_splits):
    """Set where the cells and splits of each step begin, and in `counts` where its cells of each sentence begin."""
    for b in range(heights.size):
        for s in range(heights[b]):
            step_offsets[s + 1] += counts[offsets[b] + s]
    for s in range(1, step_offsets.size):
        first_splits[s] = first_splits[s - 1] + step_offsets[s] * min(s, window)
        step_offsets[s] += step_offsets[s - 1]
    begin = step_offsets.copy()
    for b in range(heights.size):
        for s in range(heights[b]):
            here = counts[offsets[b] + s]
            counts[offsets[b] + s] = begin[s]
            begin[s] += here


@team_kernel()
def _fill(
    part, offsets, window, begins, fields, parts, counts, step_offsets, first_splits,
    spans, owner, split_offsets, left, right, roots,
):  # fmt: skip
    n_words = offsets[-1]
    for b in share(part, offsets.size - 1):
        n, cells = offsets[b + 1] - offsets[b], slice(begins[0, b], begins[0, b + 1])
        first, longer, step, number = fields[0, cells], fields[1, cells], fields[2, cells], fields[3, cells]
        roots[b] = offsets[b]
        for c in range(first.size):  # ranks become places
            if number[c]:
                number[c] += counts[offsets[b] + step[c] - 1]
                roots[b] = n_words + number[c] - 1
        split = begins[1, b]
        for c in range(first.size):
            size = min(longer[c], window)
            if number[c]:
                place, s = number[c] - 1, step[c] - 1
                spans[place, 0], spans[place, 1], owner[place] = first[c], first[c] + longer[c], b
                begin = first_splits[s] + (place - step_offsets[s]) * size
                split_offsets[place] = begin
                for k in range(size):
                    a, z = parts[0, split + k], parts[1, split + k]
                    left[begin + k] = n_words + number[a - n] - 1 if a >= n else offsets[b] + a
                    right[begin + k] = n_words + number[z - n] - 1 if z >= n else offsets[b] + z
            split += size
