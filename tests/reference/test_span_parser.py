"""Labelled trees from scores of spans: against enumeration, at the limits of floats, and laws that the table lacks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.arrays import to_numpy
from accel.verify.op import offsets_of
from accel.verify.ops.span_parser import chart_rows
from accel.verify.strategies import floats, regimes, seeds
from refimpl import brute
from refimpl.transformer_grammars import span_parser

FOLDER = Path(__file__).parents[2] / "specs" / "vectors" / "transformer_grammars" / "span_parser"
SIZES = [(1, 1), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1)]  # words, labels
TREES = {size: list(brute.labelled_trees(*size)) for size in SIZES}


def drawn(regime: str, seed: int, n: int, n_labels: int, forbidden: float = 0.0) -> np.ndarray:
    scores = floats(regime, seed, n, n, n_labels)
    scores[np.random.default_rng(seed).random(scores.shape) < forbidden] = -np.inf
    scores[0, -1, 0] = -1.0
    return scores


@pytest.mark.parametrize(("n", "n_labels"), SIZES)
def test_numbers_of_trees(n: int, n_labels: int) -> None:
    """SP-1 L1, SP-2 L2, BF-5 L1: the counts are those of shapes, times labels of constituents and of words."""
    shapes = {1: [0, 1], 2: [0, 1], 3: [0, 1, 2], 4: [0, 1, 5, 5]}[n]
    words = (n_labels + 1) ** n if n > 1 else 1
    count = words * sum(shape * n_labels**power for power, shape in enumerate(shapes))
    assert len(TREES[n, n_labels]) == len({frozenset(tree) for tree in TREES[n, n_labels]}) == count
    assert math.exp(span_parser.span_logz(np.zeros((n, n, n_labels)))) == pytest.approx(count)
    assert all(span_parser.tree_score(np.zeros((n, n, n_labels)), tree) == 0 for tree in TREES[n, n_labels])


@given(size=st.sampled_from(SIZES), regime=regimes, seed=seeds, forbidden=st.sampled_from([0.0, 0.3]))
def test_all_trees(size: tuple[int, int], regime: str, seed: int, forbidden: float) -> None:
    """SP-2 L1 and L4, SP-3 L1, SP-4 L1 to L4: results agree with the list of all trees."""
    scores = drawn(regime, seed, *size, forbidden)
    trees = [tree for tree in TREES[size] if span_parser.tree_score(scores, tree) > -np.inf]
    tree_scores = np.array([span_parser.tree_score(scores, tree) for tree in trees])
    logz = span_parser.span_logz(scores)
    assert logz == pytest.approx(np.logaddexp.reduce(tree_scores), rel=1e-12, abs=1e-12)
    expected = np.zeros_like(scores)
    for tree, score in zip(trees, tree_scores, strict=True):
        expected[tuple(np.transpose(tree))] += math.exp(score - logz)
    np.testing.assert_allclose(span_parser.marginals(scores), expected, atol=1e-12)
    for count in (1, 2, 7, len(trees), len(trees) + 1):
        best = span_parser.best_trees(scores, count)
        highest = np.sort(tree_scores)[::-1][:count]
        np.testing.assert_allclose([score for score, _ in best], highest, rtol=1e-12, atol=1e-12)
        assert len({frozenset(tree) for _, tree in best}) == min(count, len(trees))
        assert all(frozenset(tree) in set(map(frozenset, trees)) for _, tree in best)
    assert math.fsum(math.exp(score - logz) for score, _ in best) == pytest.approx(1)


@given(n=st.integers(1, 8), regime=regimes, seed=seeds)
def test_root_constant(n: int, regime: str, seed: int) -> None:
    """SP-2 L3: added to the root's scores, a constant is added to log Z; marginals and the order of trees stay."""
    scores = drawn(regime, seed, n, 2)
    other_scores = scores.copy()
    other_scores[0, -1] += 5.0
    assert span_parser.span_logz(other_scores) == pytest.approx(span_parser.span_logz(scores) + 5)
    np.testing.assert_allclose(span_parser.marginals(other_scores), span_parser.marginals(scores), atol=1e-9)
    for (a, _), (b, _) in zip(span_parser.best_trees(scores, 9), span_parser.best_trees(other_scores, 9), strict=True):
        assert b == pytest.approx(a + 5)


@given(n=st.integers(1, 8), regime=regimes, seed=seeds)
def test_mirrored(n: int, regime: str, seed: int) -> None:
    """SP-2 L7: scores of the words read from right to left give the same log Z, and mirrored marginals."""
    scores = drawn(regime, seed, n, 2, 0.2)
    mirrored = scores[::-1, ::-1].transpose(1, 0, 2)
    assert span_parser.span_logz(mirrored) == pytest.approx(span_parser.span_logz(scores), rel=1e-12, abs=1e-12)
    expected = span_parser.marginals(scores)[::-1, ::-1].transpose(1, 0, 2)
    np.testing.assert_allclose(span_parser.marginals(mirrored), expected, atol=1e-9)


@given(n=st.integers(1, 9), regime=regimes, seed=seeds, forbidden=st.sampled_from([0.0, 0.5]))
def test_marginals_add_up(n: int, regime: str, seed: int, forbidden: float) -> None:
    """SP-3 L3; and n words have at most n constituents of one word and n - 1 longer ones."""
    scores = drawn(regime, seed, n, 3, forbidden)
    mu = span_parser.marginals(scores)
    assert mu.min() >= 0 and mu.max() <= 1 + 1e-9 and not mu[np.isinf(scores)].any()
    assert mu[0, -1].sum() == pytest.approx(1)
    words = np.arange(n)
    assert mu[words, words].sum() <= n + 1e-9 and mu.sum() - mu[words, words].sum() <= max(1, n - 1) + 1e-9
    assert not mu[np.tril_indices(n, -1)].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.0, 1e4, -1e4])
def test_large_scores(backend: ModuleType, dtype: type, size: float) -> None:
    """Nothing is NaN: all scores are equal, huge or 0; some labels are forbidden.

    In one sentence all spans but the root are forbidden.
    """
    draw = np.random.default_rng(0)
    squares = [np.full((n, n, 3), size) for n in (1, 2, 7, 5)]
    for square in squares[:3]:
        square[draw.random(square.shape) < 0.4] = -np.inf
    squares[3][:] = -np.inf
    for square in squares:
        square[0, -1, 1] = size
    rows = np.concatenate([chart_rows(square) for square in squares]).astype(dtype)
    arguments = backend.xp.asarray(rows), backend.xp.asarray(offsets_of([1, 2, 7, 5]))
    outputs = backend.span_logz(*arguments)
    logz = to_numpy(outputs[0])
    np.testing.assert_allclose(logz, [span_parser.span_logz(square) for square in squares], rtol=1e-6)
    (gradient,) = backend.span_logz_vjp(backend.xp.ones(4, dtype), outputs, *arguments)
    expected = np.concatenate([chart_rows(span_parser.marginals(square)) for square in squares])
    np.testing.assert_allclose(to_numpy(gradient), expected, atol=1e-6 if dtype == np.float32 else 1e-9)
    tree_offsets, scores, span_offsets, _, _ = (to_numpy(x) for x in backend.best_trees(*arguments, 4))
    assert tree_offsets.tolist()[-1] == len(scores) == len(span_offsets) - 1
    for b, square in enumerate(squares):
        expected = [score for score, _ in span_parser.best_trees(square, 4)]
        assert scores[tree_offsets[b] : tree_offsets[b + 1]].tolist() == expected
    assert logz[3] == size and scores[-1] == size and tree_offsets[4] - tree_offsets[3] == 1


@pytest.mark.parametrize("seed", range(4))
def test_many_trees(backend: ModuleType, seed: int) -> None:
    """There are more words and trees than the table draws; scores are float32 numbers with any fraction, in a batch."""
    draw = np.random.default_rng(seed)
    squares = [draw.standard_normal((n, n, 4)).astype(np.float32) * (1 + 4 * (seed % 2)) for n in (9, 1, 4)]
    rows = np.concatenate([chart_rows(square) for square in squares])
    outputs = backend.best_trees(backend.xp.asarray(rows), backend.xp.asarray(offsets_of([9, 1, 4])), 80)
    tree_offsets, scores, span_offsets, spans, labels = (to_numpy(x) for x in outputs)
    for b, square in enumerate(squares):
        wide = square.astype(np.float64)
        expected = [score for score, _ in span_parser.best_trees(wide, 80)]
        here = slice(tree_offsets[b], tree_offsets[b + 1])
        np.testing.assert_allclose(scores[here], expected, rtol=1e-12)
        for tree in range(here.start, here.stop):
            part = slice(span_offsets[tree], span_offsets[tree + 1])
            constituents = [(*span, label) for span, label in zip(spans[part], labels[part], strict=True)]
            assert span_parser.tree_score(wide, constituents) == pytest.approx(scores[tree], rel=1e-12)


def test_no_sentences(backend: ModuleType) -> None:
    nothing = backend.xp.zeros((0, 2)), backend.xp.zeros(1, np.int64)
    outputs = backend.span_logz(*nothing)
    assert to_numpy(outputs[0]).shape == (0,)
    assert to_numpy(backend.span_logz_vjp(outputs[0], outputs, *nothing)[0]).shape == (0, 2)
    assert [to_numpy(x).shape for x in backend.best_trees(*nothing, 3)] == [(1,), (0,), (1,), (0, 2), (0,)]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_no_tree(n: int) -> None:
    """SP-2 L6."""
    scores = np.zeros((n, n, 2))
    scores[0, -1] = -np.inf
    for function in (span_parser.span_logz, span_parser.marginals, lambda x: span_parser.best_trees(x, 1)):
        with pytest.raises(ValueError, match="no tree is possible"):
            function(scores)
    possible = np.full((n, n, 2), -np.inf)
    possible[0, -1, 1] = 3.0
    assert span_parser.span_logz(possible) == 3.0 and span_parser.best_trees(possible, 9) == [(3.0, [(0, n - 1, 1)])]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.zeros((2, 2)), "shape"),
        (np.zeros((2, 2, 1), int), r"shape .2, 2, 1. of int64, expected floats"),
        (np.zeros((2, 3, 1)), "shape"),
        (np.zeros((2, 2, 0)), "shape"),
        (np.zeros((0, 0, 1)), "n and L above 0"),
        (np.array([[[0.0], [np.nan]], [[0.0], [0.0]]]), r"NaN or \+inf for \(0, 1\)"),
        (np.array([[[np.inf], [0.0]], [[0.0], [0.0]]]), r"NaN or \+inf for \(0, 0\)"),
    ],
)
def test_bad_input(scores: np.ndarray, words: str) -> None:
    for function in (span_parser.span_logz, span_parser.marginals, lambda x: span_parser.best_trees(x, 1)):
        with pytest.raises(ValueError, match=words):
            function(scores)
    with pytest.raises(ValueError, match=words):
        span_parser.tree_score(scores, [])


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ([], "no label"),
        ([(0, 1, 0)], "the sentence has no label"),
        ([(0, 2, 0), (0, 2, 1)], r"two labels for \(0, 2\)"),
        ([(0, 2, 0), (0, 1, 0), (1, 2, 0)], "cross"),
        ([(0, 2, 0), (1, 2, 0), (0, 1, 0)], "cross"),
        ([(0, 2, 2)], "no label of a span of 3 words"),
        ([(0, 3, 0)], "no label of a span of 3 words"),
        ([(0, 2, 0), (1, 0, 0)], "no label of a span of 3 words"),
    ],
)
def test_ill_formed_trees(tree: list[tuple[int, int, int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        span_parser.tree_score(np.zeros((3, 3, 2)), tree)


def test_the_lower_half_is_not_read() -> None:
    scores = drawn("unit", 0, 3, 2)
    spoiled = scores.copy()
    spoiled[np.tril_indices(3, -1)] = np.nan
    assert span_parser.span_logz(spoiled) == span_parser.span_logz(scores)
    assert np.array_equal(span_parser.marginals(spoiled), span_parser.marginals(scores))
    assert span_parser.best_trees(spoiled, 5) == span_parser.best_trees(scores, 5)


def numbers(x: list) -> np.ndarray:
    return np.array([[[float(s) for s in labels] for labels in row] for row in x])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_vectors_through_backends(backend: ModuleType, path: Path) -> None:
    """Sums and marginals are those of the vectors, also beside another sentence."""
    vector = json.loads(path.read_text(encoding="utf-8"))
    name = vector["function"].rsplit(".", 1)[1]
    if name not in ("span_logz", "marginals") or "error" in vector:
        return
    scores = numbers(vector["inputs"]["scores"])
    rows = np.concatenate([np.zeros((3, scores.shape[2])), chart_rows(scores)])
    arguments = backend.xp.asarray(rows), backend.xp.asarray(offsets_of([2, len(scores)]))
    outputs = backend.span_logz(*arguments)
    if name == "span_logz":
        assert float(outputs[0][1]) == pytest.approx(vector["expect"], rel=1e-10)
    else:
        (gradient,) = backend.span_logz_vjp(backend.xp.asarray(np.array([7.0, 1.0])), outputs, *arguments)
        np.testing.assert_allclose(to_numpy(gradient)[3:], chart_rows(numbers(vector["expect"])), atol=1e-10)
