"""Trees drawn without replacement, by the reference and by the library, against enumeration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.cpu.support.tree_sampling import sample_trees
from accel.verify.op import offsets_of
from accel.verify.ops.span_parser import chart_rows
from accel.verify.strategies import floats, regimes, seeds
from refimpl import brute
from refimpl.transformer_grammars import span_parser

Tree = tuple[tuple[int, int, int], ...]  # constituents in pre-order
Draws = list[list[tuple[float, Tree]]]  # for each seed, trees with the probabilities of their inclusion
Sampler = Callable[[np.ndarray, int, range], Draws]


def by_the_reference(scores: np.ndarray, count: int, numbers: range) -> Draws:
    return [
        [(math.exp(logp), tuple(tree)) for logp, tree in span_parser.sample_trees(scores, count, seed)]
        for seed in numbers
    ]


def by_the_library(scores: np.ndarray, count: int, numbers: range) -> Draws:
    rows = np.tile(chart_rows(scores), (len(numbers), 1))
    offsets = offsets_of([len(scores)] * len(numbers))
    samples = sample_trees(rows, offsets, count, np.array(numbers, np.uint64))
    return [
        [
            (math.exp(logp), tuple(map(tuple, part.tolist())))
            for logp, part in zip(logps, np.split(constituents, np.cumsum(sizes)[:-1]), strict=True)
        ]
        for logps, sizes, constituents in samples
    ]


SAMPLERS = pytest.mark.parametrize("draw", [by_the_reference, by_the_library])
SIZES = [(1, 3), (2, 1), (2, 2), (3, 1)]  # words, labels
TREES = {
    size: [tuple(sorted(tree, key=lambda span: (span[0], -span[1]))) for tree in brute.labelled_trees(*size)]
    for size in SIZES
}
DRAWS = 2000


def probabilities(scores: np.ndarray, trees: list[Tree]) -> dict[Tree, float]:
    logz = span_parser.span_logz(scores)
    return {tree: math.exp(span_parser.tree_score(scores, tree) - logz) for tree in trees}


def scores_of(size: tuple[int, int], seed: int = 0) -> np.ndarray:
    n, n_labels = size
    return np.random.default_rng(seed).standard_normal((n, n, n_labels))


@SAMPLERS
@pytest.mark.parametrize("size", [(1, 3), (2, 1), (2, 2), (3, 1)])
def test_ordered_draws_have_the_probability_of_the_law(draw: Sampler, size: tuple[int, int]) -> None:
    """SP-5 L1: the statistic of a chi-squared test stays below its mean plus five deviations."""
    scores = scores_of(size)
    q = probabilities(scores, TREES[size])
    counts = Counter(tuple(tree for _, tree in trees) for trees in draw(scores, 2, range(DRAWS)))
    pairs = {(a, b): DRAWS * q[a] * q[b] / (1 - q[a]) for a, b in permutations(TREES[size], 2)}
    frequent = {pair: expected for pair, expected in pairs.items() if expected >= 5}
    rare = DRAWS - sum(frequent.values())
    statistic = sum((counts[pair] - expected) ** 2 / expected for pair, expected in frequent.items())
    n_rare = DRAWS - sum(counts[pair] for pair in frequent)
    statistic += (n_rare - rare) ** 2 / rare if rare >= 5 else 0.0
    assert set(counts) <= set(pairs) and len(frequent) >= 4
    assert statistic <= len(frequent) + 5 * math.sqrt(2 * len(frequent))


@SAMPLERS
def test_sets_have_the_probability_of_all_their_orders(draw: Sampler) -> None:
    """A set of three of four trees has the sum of the probabilities of all orders in which it may be drawn."""
    size = (2, 1)
    scores = np.array([[[0.3], [0.0]], [[0.0], [-0.8]]])
    q = probabilities(scores, TREES[size])
    counts = Counter(frozenset(tree for _, tree in trees) for trees in draw(scores, 3, range(DRAWS)))
    assert sum(counts.values()) == DRAWS and len(q) == 4
    for subset in counts:
        expected = sum(q[a] * q[b] / (1 - q[a]) * q[c] / (1 - q[a] - q[b]) for a, b, c in permutations(subset))
        assert counts[subset] / DRAWS == pytest.approx(expected, abs=5 * math.sqrt(expected / DRAWS))


@SAMPLERS
def test_inclusions_are_unbiased(draw: Sampler) -> None:
    """SP-5 L4: a tree counts 1 / pi if it is drawn, else 0; the mean count is 1, within five standard errors."""
    scores = scores_of((2, 2), 1)
    draws = draw(scores, 4, range(DRAWS))
    for tree in TREES[2, 2]:
        counts = np.array([sum(1 / p for p, other in trees if other == tree) for trees in draws])
        assert abs(counts.mean() - 1) <= 5 * counts.std() / math.sqrt(DRAWS)


@given(size=st.sampled_from(SIZES), regime=regimes, seed=seeds, forbidden=st.sampled_from([0.0, 0.3]))
def test_all_trees_are_drawn_once(size: tuple[int, int], regime: str, seed: int, forbidden: float) -> None:
    """SP-5 L2, for all regimes of scores, also if some labels are forbidden."""
    n, n_labels = size
    scores = floats(regime, seed, n, n, n_labels)
    scores[np.random.default_rng(seed).random(scores.shape) < forbidden] = -np.inf
    scores[0, -1, 0] = -1.0
    possible = {tree for tree in TREES[size] if span_parser.tree_score(scores, tree) > -np.inf}
    for draw in (by_the_reference, by_the_library):
        for count in (1, len(possible), len(possible) + 3):
            [trees] = draw(scores, count, range(seed, seed + 1))
            assert len(trees) == len({tree for _, tree in trees}) == min(count, len(possible))
            assert {tree for _, tree in trees} <= possible and all(0 < p <= 1 for p, _ in trees)
        assert all(p == 1 for p, _ in trees)


@given(n=st.integers(1, 7), n_labels=st.integers(1, 4), seed=seeds, forbidden=st.sampled_from([0.0, 0.4]))
def test_fewer_are_the_beginning_of_more(n: int, n_labels: int, seed: int, forbidden: float) -> None:
    """SP-5 L3 and L5; every drawn list of constituents is a tree (SP-1)."""
    choose = np.random.default_rng(seed)
    scores = 3 * choose.standard_normal((n, n, n_labels))
    scores[choose.random(scores.shape) < forbidden] = -np.inf
    scores[0, -1, 0] = 0.0
    [more] = by_the_library(scores, 40, range(seed, seed + 1))
    assert len({tree for _, tree in more}) == len(more)
    assert all(span_parser.tree_score(scores, tree) > -np.inf for _, tree in more)
    for count in (1, 7):
        [fewer] = by_the_library(scores, count, range(seed, seed + 1))
        assert [tree for _, tree in fewer] == [tree for _, tree in more[:count]]
    beside = by_the_library(scores, 7, range(seed, seed + 3))
    assert beside[0] == fewer


def test_first_trees_have_the_marginals() -> None:
    """The first tree has each constituent as often as its marginal says (SP-3), in sentences too long to list trees."""
    scores = scores_of((7, 3), 2) - 1.0
    counts = np.zeros(scores.shape)
    for [(_, tree)] in by_the_library(scores, 1, range(DRAWS)):
        counts[tuple(np.transpose(tree))] += 1
    mu = span_parser.marginals(scores)
    assert (np.abs(counts / DRAWS - mu) <= 5 * np.sqrt(mu * (1 - mu) / DRAWS) + 1e-9).all()


def test_bad_input() -> None:
    scores, offsets, seed = np.zeros((1, 2)), np.array([0, 1], np.int64), np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="count: 0 is below 1"):
        sample_trees(scores, offsets, 0, seed)
    with pytest.raises(ValueError, match="no tree is possible"):
        sample_trees(scores - np.inf, offsets, 1, seed)
    with pytest.raises(ValueError, match="no tree is possible"):
        span_parser.sample_trees(np.full((1, 1, 2), -np.inf), 1, 0)
    with pytest.raises(ValueError, match="count: 0 is below 1"):
        span_parser.sample_trees(np.zeros((1, 1, 2)), 0, 0)
