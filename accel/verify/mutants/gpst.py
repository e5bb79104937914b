"""Seeded errors of pruned charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accel import cpu

Span = tuple[int, int]


def last_merged(points: list[int], window: int) -> list[int]:
    return sorted(points[-window:])


def after_all_parts(parts: list[int]) -> int:
    return 1 + max(parts)


def shorter_first(i: int, j: int) -> Any:
    return j - i, i


def plain(
    scores: Any, offsets: Any, *, window: int,
    keep: Callable[[list[int], int], list[int]] = last_merged, step_of: Callable[[list[int]], int] = after_all_parts,
    order_of: Callable[[int, int], Any] = shorter_first,
    key: Callable[[int, int, Any], Any] = lambda s, b, splits_of_cell: (s, b, splits_of_cell),
) -> Any:  # fmt: skip
    """Build the charts with loops, from the root down. The defaults are right, other splits, steps or orders wrong."""
    cells: dict[tuple[int, int, int], tuple[int, list[int]]] = {}

    def visit(b: int, i: int, j: int, points: list[int]) -> int:
        if i == j:
            return 0
        if (b, i, j) not in cells:
            splits_of_cell = keep([k for k in points if i <= k < j], window)
            parts = [visit(b, *part, points) for k in splits_of_cell for part in ((i, k), (k + 1, j))]
            cells[b, i, j] = step_of(parts), splits_of_cell
        return cells[b, i, j][0]

    ends = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    for b, (start, end) in enumerate(ends):
        visit(b, 0, end - start - 1, np.argsort(scores[start - b : end - b - 1], kind="stable").tolist())
    placed = sorted(cells, key=lambda cell: key(cells[cell][0], cell[0], order_of(*cell[1:])))
    words = [(b, i, i) for b, (start, end) in enumerate(ends) for i in range(end - start)]
    number = {node: place for place, node in enumerate(words + placed)}
    splits = [(b, i, k, j) for b, i, j in placed for k in cells[b, i, j][1]]
    steps = np.array([cells[cell][0] for cell in placed], int)
    return (
        np.array([cell[1:] for cell in placed], np.int32).reshape(-1, 2),
        np.array([b for b, _, _ in placed], np.int32),
        np.cumsum([0] + [len(cells[cell][1]) for cell in placed]),
        np.array([number[b, i, k] for b, i, k, _ in splits], np.int32),
        np.array([number[b, k + 1, j] for b, _, k, j in splits], np.int32),
        np.cumsum(np.bincount(steps, minlength=1)),
        np.array([number[b, 0, end - start - 1] for b, (start, end) in enumerate(ends)], np.int32),
    )


def splits_one_later(scores: Any, offsets: Any, *, window: int) -> Any:
    def keep(points: list[int], window: int) -> list[int]:
        return sorted({min(k + 1, max(points)) for k in points[-window:]})

    return plain(scores, offsets, window=window, keep=keep)


def first_merged_splits(scores: Any, offsets: Any, *, window: int) -> Any:
    return plain(scores, offsets, window=window, keep=lambda points, window: sorted(points[:window]))


def splits_in_merge_order(scores: Any, offsets: Any, *, window: int) -> Any:
    return plain(scores, offsets, window=window, keep=lambda points, window: points[-window:])


def one_row_less_above_the_words(scores: Any, offsets: Any, *, window: int) -> Any:
    """Keep W splits of spans of up to W + 1 words, and W - 1 of longer ones."""

    def keep(points: list[int], window: int) -> list[int]:
        return last_merged(points, window - (len(points) > window > 1))

    return plain(scores, offsets, window=window, keep=keep)


def steps_of_the_lowest_split(scores: Any, offsets: Any, *, window: int) -> Any:
    """Number a cell's step by the height of its lowest tree."""

    def step_of(parts: list[int]) -> int:
        return 1 + min(max(pair) for pair in zip(parts[::2], parts[1::2], strict=True))

    return plain(scores, offsets, window=window, step_of=step_of)


def steps_of_left_parts(scores: Any, offsets: Any, *, window: int) -> Any:
    return plain(scores, offsets, window=window, step_of=lambda parts: 1 + max(parts[::2]))


def steps_by_height(scores: Any, offsets: Any, *, window: int) -> Any:
    """Stop after as many steps as the highest parser's tree needs."""
    heights = plain(scores, offsets, window=1)[5].size - 1
    spans, owner, split_offsets, left, right, step_offsets, roots = cpu.pruned_chart(scores, offsets, window=window)
    return spans, owner, split_offsets, left, right, np.minimum(step_offsets[: heights + 1], len(owner)), roots


def cells_by_first_word(scores: Any, offsets: Any, *, window: int) -> Any:
    return plain(scores, offsets, window=window, order_of=lambda i, j: (i, j))


def cells_by_last_word(scores: Any, offsets: Any, *, window: int) -> Any:
    return plain(scores, offsets, window=window, order_of=lambda i, j: (j, i))


def sentence_by_sentence(scores: Any, offsets: Any, *, window: int) -> Any:
    return plain(scores, offsets, window=window, key=lambda s, b, order: (b, s, order))


def mixed_sentences(scores: Any, offsets: Any, *, window: int) -> Any:
    """Order the cells of a step by their spans, whichever sentence they belong to."""
    return plain(scores, offsets, window=window, key=lambda s, b, order: (s, order, b))


def ranked(scores: Any, offsets: Any, order_of: Callable[[Any], Any]) -> Any:
    """Return scores whose ascending order in every sentence is the one that `order_of` returns."""
    out = scores.copy()
    for b, (start, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        points = slice(start - b, end - b - 1)
        out[points][order_of(scores[points])] = np.arange(end - start - 1)
    return out


def ties_from_the_right(scores: Any, offsets: Any, *, window: int) -> Any:
    order = ranked(scores, offsets, lambda part: np.lexsort((-np.arange(len(part)), part)))
    return cpu.pruned_chart(order, offsets, window=window)


def descending(scores: Any, offsets: Any, *, window: int) -> Any:
    return cpu.pruned_chart(-scores, offsets, window=window)


def places_for_ranks(scores: Any, offsets: Any, *, window: int) -> Any:
    """Use the result of argsort as the ranks of the points."""
    ranks = ranked(scores, offsets, lambda part: np.argsort(np.argsort(part, kind="stable")))
    return cpu.pruned_chart(ranks, offsets, window=window)


def one_split_more(scores: Any, offsets: Any, *, window: int) -> Any:
    return cpu.pruned_chart(scores, offsets, window=window + 1)


def one_split_less(scores: Any, offsets: Any, *, window: int) -> Any:
    return cpu.pruned_chart(scores, offsets, window=max(1, window - 1))


def scores_of_the_neighbours(scores: Any, offsets: Any, *, window: int) -> Any:
    """Read a sentence's scores at its words' places, as if every sentence had one for its last word."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets) - 1)
    return cpu.pruned_chart(scores[(np.arange(len(scores)) + owner) % max(1, len(scores))], offsets, window=window)


def nodes_of_the_sentence(scores: Any, offsets: Any, *, window: int) -> Any:
    """Number words from the start of their sentence, not of the batch."""
    spans, owner, split_offsets, left, right, step_offsets, roots = cpu.pruned_chart(scores, offsets, window=window)
    starts = offsets[np.repeat(owner, np.diff(split_offsets))]
    left, right = (np.where(part < offsets[-1], part - starts, part) for part in (left, right))
    return spans, owner, split_offsets, left, right, step_offsets, roots


def parts_swapped(scores: Any, offsets: Any, *, window: int) -> Any:
    spans, owner, split_offsets, left, right, *rest = cpu.pruned_chart(scores, offsets, window=window)
    return spans, owner, split_offsets, right, left, *rest


def roots_are_cells(scores: Any, offsets: Any, *, window: int) -> Any:
    """Use the last cells as the roots, as if all sentences were equally long."""
    *charts, roots = cpu.pruned_chart(scores, offsets, window=window)
    last = offsets[-1] + len(charts[0]) - len(roots)
    return *charts, np.maximum(last, 0) + np.arange(len(roots), dtype=np.int32)


def spans_without_their_last_word(scores: Any, offsets: Any, *, window: int) -> Any:
    spans, *rest = cpu.pruned_chart(scores, offsets, window=window)
    return spans + np.array([0, 1], np.int32), *rest


GPST: tuple[tuple[str, Callable[..., Any]], ...] = tuple(
    ("pruned_chart", mutant)
    for mutant in (
        splits_one_later,
        first_merged_splits,
        splits_in_merge_order,
        one_row_less_above_the_words,
        steps_of_the_lowest_split,
        steps_of_left_parts,
        steps_by_height,
        cells_by_first_word,
        cells_by_last_word,
        sentence_by_sentence,
        mixed_sentences,
        ties_from_the_right,
        descending,
        places_for_ranks,
        one_split_more,
        one_split_less,
        scores_of_the_neighbours,
        nodes_of_the_sentence,
        parts_swapped,
        roots_are_cells,
        spans_without_their_last_word,
    )
)
