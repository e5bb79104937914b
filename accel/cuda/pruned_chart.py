"""GPST's pruned charts, many sentences at once. Mirrors `refimpl.gpst.pruned_chart`, exactly.

One Numba CUDA thread a sentence merges units as PC-2 on the page says, and finds the spans that the root needs; sorting
them gives the cells their places, and one thread a cell writes its splits. The host waits for the numbers of cells,
steps and splits, but not between steps. Extra memory: for W = 2 about 300 bytes a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

Charts = tuple[Array, Array, Array, Array, Array, Array, Array]


def pruned_chart(scores: Array, offsets: Array, *, window: int) -> Charts:
    """Return (spans [C, 2], owner [C], split_offsets [C+1], left [P], right [P], step_offsets [T+1], roots [B]).

    scores [N - B], of every point between two words, sentence by sentence; offsets [B+1] int64, of the words; window:
    the largest number of splits of a cell. Nodes are the N words, then the cells (spans of two words or more) by step,
    within a step by sentence, within a sentence shorter spans first, then from the left. spans and owner are those of
    the cells; left and right the nodes of both parts of every split; a cell of step s (from 1) has min(s, window)
    splits, and its parts are of earlier steps. Offsets are int64, all else int32.
    Raises ValueError naming the argument that does not fit, an empty sentence, or a row with a NaN or an infinity.
    """
    xp = device.xp()
    (scores,) = check.floats(scores=scores)
    check.shape("scores", scores, "S")
    (offsets,) = check.integers(np.int64, offsets=offsets)
    host = check.sequence_offsets(offsets, len(scores) + len(offsets) - 1)
    lengths = np.diff(host)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    if window < 1:
        raise ValueError(f"window: {window} is below 1")
    check.finite(scores=scores)
    n_words, n_sentences = int(host[-1]), len(lengths)
    if not len(scores):
        nothing, begin = xp.empty(0, np.int32), xp.zeros(1, np.int64)
        return xp.empty((0, 2), np.int32), nothing, begin, nothing, nothing, begin, xp.arange(n_words, dtype=np.int32)
    window = min(window, int(lengths.max()) - 1)
    begins = np.zeros((3, n_sentences + 1), np.int64)
    np.cumsum(most_spans(lengths, window), axis=1, out=begins[:, 1:])
    n_spans, n_splits, n_entries = begins[:, -1].tolist()
    if n_words + n_spans > np.iinfo(np.int32).max:
        raise ValueError(f"offsets: {n_words} words may have {n_spans} spans, more nodes than int32 can number")
    table, roots = xp.empty(n_entries, np.int32), xp.empty(n_sentences, np.int32)
    links = xp.empty((2, n_words + n_sentences), np.int32)
    first, longer, step = xp.zeros((3, n_spans), np.int32)
    first_splits, parts = xp.empty(n_spans, np.int64), xp.empty((2, n_splits), np.int32)
    begins = xp.asarray(begins)
    work = (merge_order(scores, offsets), offsets, begins, window, table, links)
    device.each(play, n_sentences, *work, first, longer, step, first_splits, parts, roots)
    cells = xp.flatnonzero(step)
    owner = xp.searchsorted(begins[0], cells, side="right") - 1
    place = xp.lexsort(xp.stack([first[cells], longer[cells], owner, step[cells]]))
    cells, owner = cells[place], owner[place]
    steps, number = step[cells], xp.arange(n_words + n_spans, dtype=np.int32)
    number[n_words + cells] = n_words + xp.arange(len(cells), dtype=np.int32)
    split_offsets = xp.zeros(len(cells) + 1, np.int64)
    split_offsets[1:] = xp.cumsum(xp.minimum(steps, window), dtype=np.int64)
    left, right = xp.empty((2, int(split_offsets[-1])), np.int32)
    device.each(write_splits, len(cells), cells, first_splits, parts, number, split_offsets, left, right)
    step_offsets = xp.searchsorted(steps, xp.arange(int(steps[-1]) + 1), side="right")
    spans = xp.stack([first[cells], first[cells] + longer[cells]], axis=1)
    return spans, owner.astype(np.int32), split_offsets, left, right, step_offsets.astype(np.int64), number[roots]


def merge_order(scores: Array, offsets: Array) -> Array:
    """Return the points [S], counted from their sentence's first, by ascending score, equal ones from left to right."""
    xp = device.xp()
    begins = offsets - xp.arange(len(offsets))
    owner = xp.searchsorted(begins, xp.arange(len(scores)), side="right") - 1
    order = xp.lexsort(xp.stack([scores.astype(np.float64), owner.astype(np.float64)]))
    return (order - begins[owner]).astype(np.int32)


def most_spans(lengths: Any, window: int) -> Any:
    """Return [3, B]: the most spans that have W splits or fewer at some time during a sentence's merges; their splits;
    and the entries of its table.

    These are all spans of up to W + 1 words; then each merge but the last W adds as many as there are runs of W + 1
    units that contain the new unit.
    """
    w = np.minimum(window, lengths - 1)
    merges = lengths - 1 - w
    last = np.minimum(merges, w + 1)  # merges that leave at most W + 1 runs
    late = last * (last + 1) // 2 + (merges - last) * (w + 1)
    early, splits = w * lengths - w * (w + 1) // 2, w * (w + 1) * (3 * lengths - 2 * w - 1) // 6
    return np.stack([early + late, splits + w * late, lengths * (w + 1)])


def play(
    order: Any, offsets: Any, begins: Any, window: int, table: Any, links: Any,
    first: Any, longer: Any, step: Any, first_splits: Any, parts: Any, roots: Any,
) -> None:  # fmt: skip
    """Write the spans of sentence b in the order in which they come to have W splits; a kernel for Numba CUDA.

    Parts and roots are words of the batch, or N + the number of a span. A unit is known by its first word: links[0] has
    the unit before it, links[1] the unit after it, and the table the spans of 1 to W + 1 units that begin with it. In
    the end only the spans that the root needs keep their steps.
    """
    b = cuda.grid(1)
    if b >= roots.size:
        return
    n_words, start, n = offsets[roots.size], offsets[b], offsets[b + 1] - offsets[b]
    link, row, count, split = start + b, begins[2, b], begins[0, b], begins[1, b]
    width = min(window, n - 1) + 1
    for i in range(n + 1):
        links[0, link + i], links[1, link + i] = i - 1, i + 1
    for i in range(n):
        table[row + i * width] = start + i
    for m in range(1, width):
        for i in range(n - m):
            first[count], longer[count], step[count], first_splits[count] = i, m, m, split
            for k in range(m):
                parts[0, split] = table[row + i * width + k]
                parts[1, split] = table[row + (i + k + 1) * width + m - 1 - k]
                split += 1
            table[row + i * width + m] = n_words + count
            count += 1
    for merge in range(n - width):
        partner = order[start - b + merge] + 1
        unit, follower = links[0, link + partner], links[1, link + partner]
        links[1, link + unit], links[0, link + follower] = follower, unit
        followers, y = 0, follower
        while y < n and followers < width - 1:
            followers, y = followers + 1, links[1, link + y]
        distance, x = 0, unit  # from the unit that begins with x to the new one
        while x >= 0 and distance < width:
            entry = row + x * width
            for m in range(distance, width - 1):
                table[entry + m] = table[entry + m + 1]
            if width - 1 - distance <= followers:
                first_splits[count] = split
                latest, y = 0, x
                for k in range(width - 1):
                    y = links[1, link + y]
                    left, right = table[entry + k], table[row + y * width + width - 2 - k]
                    parts[0, split], parts[1, split] = left, right
                    if left >= n_words:
                        latest = max(latest, step[left - n_words])
                    if right >= n_words:
                        latest = max(latest, step[right - n_words])
                    split += 1
                first[count], longer[count], step[count] = x, links[1, link + y] - 1 - x, latest + 1
                table[entry + width - 1] = n_words + count
                count += 1
            distance, x = distance + 1, links[0, link + x]
    roots[b] = n_words + count - 1 if n > 1 else start
    if n > 1:
        step[count - 1] = -step[count - 1]
    _keep_needed(begins[0, b], count, split, n_words, step, first_splits, parts)


@cuda.jit(device=True)
def _keep_needed(begin: int, count: int, split: int, n_words: int, step: Any, first_splits: Any, parts: Any) -> None:
    """Set the step of each span of begin..count - 1 to 0 unless the root needs it; `split` is the end of their splits.

    The spans are visited from the root down. Until a span is visited, a negated step says that a larger span needs it.
    """
    while count > begin:
        count -= 1
        first_split = first_splits[count]
        if step[count] < 0:
            for place in range(first_split, split):
                for side in range(2):
                    part = parts[side, place] - n_words
                    if part >= 0:
                        step[part] = -abs(step[part])
        step[count] = max(0, -step[count])
        split = first_split


def write_splits(
    cells: Any, first_splits: Any, parts: Any, number: Any, split_offsets: Any, left: Any, right: Any
) -> None:
    """Write the left and right nodes of the splits of cell c; a kernel for Numba CUDA."""
    c = cuda.grid(1)
    if c >= cells.size:
        return
    source, begin = first_splits[cells[c]], split_offsets[c]
    for k in range(split_offsets[c + 1] - begin):
        left[begin + k] = number[parts[0, source + k]]
        right[begin + k] = number[parts[1, source + k]]
