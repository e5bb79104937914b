"""GPST's pruned chart: laws of windows, sizes, steps and atoms; errors."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl import brute
from refimpl.gpst.pruned_chart import Chart, merge_order, pruned_chart

orders = st.integers(1, 14).flatmap(lambda n: st.permutations(range(n - 1)))


def tree_of(order: list[int]) -> set[tuple[int, int, int]]:
    """Return the splits of the tree in which each span is split at its point that is merged last."""
    rank = {k: t for t, k in enumerate(order)}

    def node(i: int, j: int) -> set[tuple[int, int, int]]:
        if i == j:
            return set()
        k = max(range(i, j), key=rank.__getitem__)
        return {(i, k, j)} | node(i, k) | node(k + 1, j)

    return node(0, len(order))


def balanced(n: int) -> list[int]:
    """Return the merges of a balanced tree over n words, level by level."""
    levels, width = [], 1
    while width < n:
        levels.append(range(width - 1, n - 1, 2 * width))
        width *= 2
    return [k for level in levels for k in level]


def n_splits(chart: Chart) -> int:
    return sum(map(len, chart.cells.values()))


@given(scores=st.lists(st.integers(0, 5), max_size=12))
def test_merge_order(scores: list[int]) -> None:
    """PC-1 L1 and L2."""
    order = merge_order(scores)
    assert sorted(order) == list(range(len(scores)))
    assert all((scores[a], a) < (scores[b], b) for a, b in zip(order[:-1], order[1:], strict=True))
    assert merge_order(np.exp(np.array(scores, float)) - 7) == order


@given(scores=st.lists(st.floats(-5, 5), min_size=1, max_size=10), a=st.integers(0, 9), size=st.integers(1, 4))
def test_atoms_are_nodes(scores: list[float], a: int, size: int) -> None:
    """PC-1 L3."""
    n = len(scores) + 1
    atoms = [(i, j) for i, j in ((a, a + size), (a + size + 1, a + 2 * size)) if j < n]
    order = merge_order(scores, atoms)
    assert {(i, j) for i, j in atoms if i < j} <= {(i, j) for i, _, j in tree_of(order)}
    inner = {k for i, j in atoms for k in range(i, j)}
    assert set(order[: len(inner)]) == inner


@given(order=orders)
def test_windows(order: list[int]) -> None:
    """PC-2 L1 to L3."""
    n = len(order) + 1
    charts = [pruned_chart(order, n, window) for window in range(1, n + 2)]
    assert {(i, k, j) for (i, j), splits in charts[0].cells.items() for k in splits} == tree_of(order)
    for chart in charts[max(n - 2, 0) :]:
        assert chart.cells == {(i, j): list(range(i, j)) for j in range(n) for i in range(j)}
    for small, large in zip(charts[:-1], charts[1:], strict=True):
        assert all(set(splits) <= set(large.cells[span]) for span, splits in small.cells.items())


@given(order=orders, window=st.integers(1, 5))
def test_steps(order: list[int], window: int) -> None:
    """PC-3 L1 and L3: a cell comes in the first step after its parts."""
    n = len(order) + 1
    chart = pruned_chart(order, n, window)
    assert [span for step in chart.steps for span in step] == sorted(
        chart.cells, key=lambda s: (next(t for t, step in enumerate(chart.steps) if s in step), s[1] - s[0], s)
    )
    spans = {(i, i) for i in range(n)}
    for t, step in enumerate(chart.steps):
        last = set(chart.steps[t - 1]) if t else spans
        for i, j in step:
            parts = {part for k in chart.cells[i, j] for part in ((i, k), (k + 1, j))}
            assert parts <= spans and parts & last
        spans |= set(step)
    assert n == 1 or chart.steps[-1] == [(0, n - 1)]
    heights = {(i, i): 0 for i in range(n)}
    for i, k, j in sorted(tree_of(order), key=lambda split: split[2] - split[0]):
        heights[i, j] = 1 + max(heights[i, k], heights[k + 1, j])
    assert heights[0, n - 1] <= len(chart.steps) <= n - 1


def test_sizes() -> None:
    """PC-2 L5, PC-3 L2 and L3."""
    whole = {n: pruned_chart(balanced(n), n) for n in (4, 8, 16, 64, 128, 1024)}
    assert {n: len(x.steps) for n, x in whole.items()} == {4: 3, 8: 5, 16: 7, 64: 11, 128: 13, 1024: 19}
    assert (len(whole[1024].cells), n_splits(whole[1024])) == (3049, 5075)
    for n in (3, 4, 20, 200):
        for order in (range(n - 1), range(n - 2, -1, -1)):
            chart = pruned_chart(order, n)
            assert (len(chart.steps), len(chart.cells), n_splits(chart)) == (n - 1, 2 * n - 3, 3 * n - 5)
    draw = np.random.default_rng(0)
    for n, count in (*((n, 30) for n in range(1, 9)), (30, 30), (300, 3)):
        for _ in range(count):
            chart = pruned_chart(draw.permutation(n - 1).tolist(), n)
            assert len(chart.cells) <= 3 * n - 3 and n_splits(chart) <= 5 * n


def test_order_of_independent_merges() -> None:
    """PC-2 L6: the number of trees of 4 and 5 words with more than one chart, for each window."""
    for n, window, expected in ((4, 1, 0), (5, 1, 0), (4, 2, 1), (5, 2, 6), (4, 3, 0), (5, 4, 0)):
        charts: dict[frozenset, set] = {}
        for order in permutations(range(n - 1)):
            cells = pruned_chart(order, n, window).cells
            charts.setdefault(frozenset(tree_of(list(order))), set()).add(str(sorted(cells.items())))
        assert len(charts) == len(list(brute.binary_trees(0, n - 1)))
        assert sum(len(same_tree) > 1 for same_tree in charts.values()) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], 0), "n: an empty sentence"),
        (([0, 2], 3), "no permutation of the 2 split points of 3 words"),
        (([0, 0], 3), "no permutation"),
        (([0, 1], 2), "no permutation"),
        (([], 2), "no permutation"),
        (([-1, 0], 3), "no permutation"),
        (([0], 2, 0), "window: 0 is below 1"),
        (([0], 2, -1), "window: -1 is below 1"),
    ],
)
def test_bad_input(arguments: tuple, words: str) -> None:
    """PC-2: errors of one line."""
    with pytest.raises(ValueError, match=words):
        pruned_chart(*arguments)


@pytest.mark.parametrize("scores", [[np.nan], [0.0, np.inf], [[0.0, 1.0]]])
def test_scores_that_are_none(scores: list) -> None:
    """PC-1."""
    with pytest.raises(ValueError, match="scores"):
        merge_order(scores)
