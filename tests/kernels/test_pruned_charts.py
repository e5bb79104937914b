"""Pruned charts beyond the table of operations: specs' vectors, one-word sentences, and a thousand words."""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel.cpu.pruned_chart import most_spans
from accel.verify.arrays import to_numpy
from accel.verify.op import Outputs, offsets_of

FOLDER = Path(__file__).parents[2] / "specs" / "vectors" / "gpst" / "pruned_chart"


def charts(backend: ModuleType, orders: list[list[int]], window: int) -> Outputs:
    """Return the charts of sentences that are given by their merge orders."""
    ranks = [np.argsort(np.array(order, int)) for order in orders]
    arguments = np.concatenate([np.zeros(0), *ranks]), offsets_of([len(order) + 1 for order in orders])
    outputs = backend.pruned_chart(*(backend.xp.asarray(x) for x in arguments), window=window)
    return tuple(to_numpy(x) for x in outputs)


def vectors() -> list[dict]:
    all_vectors = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    return [v for v in all_vectors if v["function"] == "refimpl.gpst.pruned_chart.pruned_chart" and "expect" in v]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["id"])
def test_vectors(backend: ModuleType, vector: dict) -> None:
    """Cells, splits and steps are those of the vector, also in a batch between other sentences."""
    inputs, expect = vector["inputs"], vector["expect"]
    orders = [[1, 0, 2], inputs["merge_order"], [], [2, 3, 0, 1]]
    outputs = charts(backend, orders, inputs.get("window", 2))
    spans, owner, split_offsets, left, _, step_offsets, roots = outputs
    own_cells = [(c, tuple(spans[c].tolist())) for c in np.flatnonzero(owner == 1)]
    nodes = [(i, i) for m in map(len, orders) for i in range(m + 1)] + [tuple(span) for span in spans.tolist()]
    cells = {span: [nodes[x][1] for x in left[split_offsets[c] : split_offsets[c + 1]]] for c, span in own_cells}
    for span, splits in expect["cells"].items():
        assert cells[tuple(map(int, span.split(",")))] == splits
    if "steps" in expect:
        steps = [[list(span) for c, span in own_cells if a <= c < b] for a, b in pairwise(step_offsets)]
        assert [step for step in steps if step] == expect["steps"]
    assert nodes[roots[1]] == (0, inputs["n"] - 1) and nodes[roots[2]] == (0, 0)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_sentences_of_one_word(backend: ModuleType, n: int) -> None:
    """There are no cells, and the roots are the words."""
    outputs = charts(backend, [[] for _ in range(n)], 2)
    assert [x.dtype for x in outputs] == [np.int32, np.int32, np.int64, np.int32, np.int32, np.int64, np.int32]
    assert [x.tolist() for x in outputs] == [[], [], [0], [], [], [0], list(range(n))]
    assert outputs[0].shape == (0, 2)


def balanced(n: int) -> list[int]:
    """Return the merges of a balanced tree over n words, level by level."""
    widths = [2**level for level in range(n.bit_length() - 1)]
    return [k for width in widths for k in range(width - 1, n - 1, 2 * width)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (balanced(1024), (19, 3049, 5075)),
        (list(range(1023)), (1023, 2045, 3067)),
        (list(range(1022, -1, -1)), (1023, 2045, 3067)),
    ],
    ids=["balanced", "left", "right"],
)
def test_a_thousand_words(backend: ModuleType, order: list[int], expected: tuple[int, int, int]) -> None:
    """PC-2 L5, PC-3 L2 and L3: the numbers of steps, cells and splits; the last cell is the sentence."""
    spans, _, split_offsets, left, right, step_offsets, roots = charts(backend, [order], 2)
    assert (len(step_offsets) - 1, len(spans), len(left)) == expected and split_offsets[-1] == len(right)
    assert spans[-1].tolist() == [0, 1023] and roots.tolist() == [1024 + len(spans) - 1]
    assert (right < 1024 + np.repeat(np.arange(len(spans)), np.diff(split_offsets))).all()


def test_scores_with_gaps(backend: ModuleType) -> None:
    """Scores may be every second number of an array, or float32."""
    wide = backend.xp.asarray(np.random.default_rng(0).standard_normal(20).astype(np.float32).astype(np.float64))
    offsets = backend.xp.asarray(np.array([0, 4, 12]))
    whole = backend.pruned_chart(wide[::2].copy(), offsets, window=2)
    for scores in (wide[::2], wide[::2].astype(np.float32)):
        for x, y in zip(backend.pruned_chart(scores, offsets, window=2), whole, strict=True):
            np.testing.assert_array_equal(to_numpy(x), to_numpy(y))


def test_zeros_of_both_signs(backend: ModuleType) -> None:
    """0 and -0 are equal scores: the points are merged from left to right."""
    offsets = backend.xp.asarray(np.array([0, 7]))
    plain, signed = (
        backend.pruned_chart(backend.xp.asarray(np.array(scores)), offsets, window=2)
        for scores in ([0.0] * 6, [0.0, -0.0, 0.0, -0.0, -0.0, 0.0])
    )
    assert all((to_numpy(x) == to_numpy(y)).all() for x, y in zip(plain, signed, strict=True))


@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_room_for_the_most_spans_of_all_merge_orders(window: int) -> None:
    """`most_spans` is exactly the largest number over all merge orders, of spans and of their splits."""
    for n in range(1, 7):
        counts = [spans_and_splits(n, window, order) for order in permutations(range(1, n))]
        assert most_spans(np.array([n, 1]), window).tolist() == [[most, 0] for most in np.max(counts, axis=0)]


def spans_and_splits(n: int, window: int, order: tuple[int, ...]) -> tuple[int, int]:
    borders = list(range(n + 1))
    splits: dict[tuple[int, int], int] = {}
    for point in order:
        for j in range(len(borders)):
            for i in range(max(0, j - window - 1), j - 1):
                splits.setdefault((borders[i], borders[j]), j - i - 1)
        borders.remove(point)
    return len(splits), sum(splits.values())
