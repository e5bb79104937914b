"""The metrics of GLUE: vectors, laws, and the counts that define them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.evaluation.classification import accuracy, f1, matthews, pearson, ranks, spearman

BITS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=12)
PLACES = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=8)


@given(BITS)
def test_laws_of_classes(pairs: list[tuple[int, int]]) -> None:
    """CLASS-1 L1 and L2, CLASS-2 L1 and L2, CLASS-3 L1 and L2; F1 is computed from precision and recall."""
    labels, answers = map(list, zip(*pairs, strict=True))
    assert accuracy(labels, labels) == 1.0
    for metric in (accuracy, f1, matthews):
        assert metric(labels[::-1], answers[::-1]) == metric(labels, answers)
    assert accuracy(labels, answers) == sum(y == a for y, a in pairs) / len(pairs)
    both = sum(y and a for y, a in pairs)
    if both:
        precision, recall = both / sum(answers), both / sum(labels)
        assert f1(labels, answers) == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert f1(labels, answers) == 0.0
    assert f1([*labels, 0], [*answers, 0]) == f1(labels, answers)
    assert matthews(labels, answers) == pytest.approx(pearson(labels, answers), abs=1e-12)
    assert matthews(labels, [1 - a for a in answers]) == -matthews(labels, answers)


@given(PLACES)
def test_laws_of_scores(pairs: list[tuple[int, int]]) -> None:
    """CLASS-4 L1 and L2, CLASS-5 L1; the correlation is that of NumPy."""
    scores, answers = (np.array(x, float) for x in zip(*pairs, strict=True))
    r, rho = pearson(scores, answers), spearman(scores, answers)
    assert -1 <= r <= 1 and pearson(answers, scores) == pytest.approx(r, abs=1e-12)
    assert pearson(scores, 3.0 * answers - 2.0) == pytest.approx(r, abs=1e-12)
    assert spearman(scores**3, np.exp(answers)) == pytest.approx(rho, abs=1e-12)
    if len(set(scores)) > 1 and len(set(answers)) > 1:
        assert r == pytest.approx(np.corrcoef(scores, answers)[0, 1], abs=1e-12)
    else:
        assert r == rho == 0.0


@given(st.permutations(range(6)))
def test_spearman_without_ties(order: list[int]) -> None:
    """CLASS-5 L2."""
    squares = sum((i - rank) ** 2 for i, rank in enumerate(order))
    assert spearman(range(6), order) == pytest.approx(1 - 6 * squares / (6**3 - 6))


def test_ranks() -> None:
    """Ranks are those of the definition in CLASS-5, for all lists of four numbers."""
    for values in product(range(3), repeat=4):
        expected = [sum(y < x for y in values) + (sum(y == x for y in values) + 1) / 2 for x in values]
        assert ranks(values) == expected


def test_errors() -> None:
    for metric in (accuracy, f1, matthews, pearson, spearman):
        with pytest.raises(ValueError, match="2 and 1 of them"):
            metric([0, 1], [0])
        with pytest.raises(ValueError, match="0 and 0 of them; use equally many, one or more"):
            metric([], [])
    for metric in (f1, matthews):
        for labels, answers in (([0, 1, 2], [0, 1, 1]), ([0, 1, 1], [0, 1, 2])):
            with pytest.raises(ValueError, match="two classes are needed, 0 and 1"):
                metric(labels, answers)
    for metric in (pearson, spearman):
        with pytest.raises(ValueError, match="a number is not finite"):
            metric([0.0, 1.0], [float("nan"), 1.0])
