"""GPST's composition model: its definition, laws of inside and outside, heights, trees and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import floats, regimes, seeds
from refimpl import brute
from refimpl.gpst.composition import compose, decompose, score
from refimpl.gpst.inside_outside import Split, induced_tree, inside, outside, post_order
from refimpl.gpst.pruned_chart import Chart, merge_order, pruned_chart
from refimpl.layers import erf_gelu, gelu
from tests.fixtures.gpst_models import composition_shapes

D, HEADS = 4, 2
cases = given(
    seed=seeds, n=st.integers(1, 6), window=st.integers(1, 6), regime=st.sampled_from(["unit", "tied", "huge"])
)


def drawn_parameters(seed: int, d: int = D) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    shapes = composition_shapes(d, 5, 3, 2, 1)
    return {name: draw.standard_normal(shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}


def drawn_chart(seed: int, n: int, window: int) -> Chart:
    return pruned_chart(np.random.default_rng(seed).permutation(n - 1).tolist(), n, window)


def norm(x: np.ndarray) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def two_layers(p: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    z = x @ p[f"{name}.in"] + p[f"{name}.in_bias"]
    return z * np.array([0.5 * math.erfc(-t / math.sqrt(2)) for t in z]) @ p[f"{name}.out"] + p[f"{name}.out_bias"]


def pair(p: dict[str, np.ndarray], name: str, a: np.ndarray, b: np.ndarray, role: int) -> np.ndarray:
    """Return f_alpha or f_beta, written out for every row, and for every head by the features in it."""
    rows, k = [a, b], 0
    while f"{name}.{k}.role" in p:
        layer = f"{name}.{k}"
        inputs = [row + p[f"{layer}.role"][r] for row, r in zip(rows, (0, role), strict=True)]
        q, key = (
            [x @ p[f"{layer}.attention.{m}"] + p[f"{layer}.attention.{m}_bias"] for x in inputs]
            for m in ("query", "key")
        )
        v = [x @ p[f"{layer}.attention.value"] + p[f"{layer}.attention.value_bias"] for x in rows]
        after = []
        for t in range(2):
            out = np.zeros(len(a))
            for h in range(HEADS):
                f = [c for c in range(len(a)) if c // (len(a) // HEADS) == h]
                difference = (q[t][f] @ key[1][f] - q[t][f] @ key[0][f]) / math.sqrt(len(f))
                second = 0.5 * (1 + math.tanh(difference / 2))  # the softmax of two
                out[f] = (1 - second) * v[0][f] + second * v[1][f]
            attended = out @ p[f"{layer}.attention.output"] + p[f"{layer}.attention.output_bias"]
            y = norm(rows[t] + attended)
            after.append(norm(y + two_layers(p, f"{layer}.feed_forward", y)))
        rows, k = after, k + 1
    return norm(rows[0] + rows[1])


def phi(p: dict[str, np.ndarray], first: str, x: np.ndarray, second: str, y: np.ndarray) -> float:
    a, b = two_layers(p, first, x), two_layers(p, second, y)
    return float(sum(a * b)) / math.sqrt(len(b))


def average(scores: list[float], vectors: list[np.ndarray]) -> np.ndarray:
    e = [math.exp(s - max(scores)) for s in scores]
    return sum(w * x for w, x in zip(e, vectors, strict=True)) / sum(e)


class Definition:
    """Inside and outside vectors by their equations, as recursions without a table."""

    def __init__(self, leaves: np.ndarray, chart: Chart, p: dict[str, np.ndarray]) -> None:
        self.leaves, self.chart, self.p = leaves, chart, p

    def inside(self, i: int, j: int) -> np.ndarray:
        if i == j:
            return self.leaves[i]
        parts = [(self.inside(i, k), self.inside(k + 1, j)) for k in self.chart.cells[i, j]]
        scores = [phi(self.p, "inside.left", a, "inside.right", b) for a, b in parts]
        return norm(average(scores, [pair(self.p, "compose", a, b, 1) for a, b in parts]))

    def outside(self, i: int, j: int) -> np.ndarray:
        if (i, j) == (0, len(self.leaves) - 1):
            return self.p["outside_root"]
        scores, vectors = [], []
        for (a, b), splits in self.chart.cells.items():
            if a == i and b > j and j in splits:
                parent, sibling, side = self.outside(a, b), self.inside(j + 1, b), "right"
            elif b == j and a < i and i - 1 in splits:
                parent, sibling, side = self.outside(a, b), self.inside(a, i - 1), "left"
            else:
                continue
            scores.append(phi(self.p, "outside.parent", parent, f"outside.{side}", sibling))
            vectors.append(pair(self.p, "decompose", parent, sibling, 1 if side == "left" else 2))
        return average(scores, vectors)


@given(regime=regimes, seed=seeds)
def test_exact_gelu(regime: str, seed: int) -> None:
    """LAY-9."""
    x = floats(regime, seed, 50)
    np.testing.assert_allclose(erf_gelu(x) - erf_gelu(-x), x, atol=1e-12)
    assert np.abs(erf_gelu(x) - gelu(x)).max() < 5e-4
    assert erf_gelu(x.astype(np.float32)).dtype == np.float32


@given(seed=seeds, regime=regimes)
def test_pairs_by_hand(seed: int, regime: str) -> None:
    """IO-1, IO-2: they agree with the equations written out."""
    p, a, b = drawn_parameters(seed), *floats(regime, seed, 2, D)
    np.testing.assert_allclose(compose(a, b, p, HEADS), pair(p, "compose", a, b, 1), rtol=1e-7, atol=1e-9)
    for role, side in enumerate(("left", "right"), 1):
        expected = pair(p, "decompose", a, b, role)
        np.testing.assert_allclose(decompose(a, b, side, p, HEADS), expected, rtol=1e-7, atol=1e-9)
        expected = phi(p, "outside.parent", a, f"outside.{side}", b)
        np.testing.assert_allclose(score(a, b, p, "outside.parent", f"outside.{side}"), expected, rtol=1e-9, atol=1e-12)


@given(seed=seeds)
def test_order_of_parts(seed: int) -> None:
    """IO-1 L1 and L2."""
    p, a, b = drawn_parameters(seed), *floats("unit", seed, 2, D)
    one, other = compose(a, b, p, HEADS), compose(b, a, p, HEADS)
    assert abs(one.mean()) < 1e-12 and (one * one).mean() < 1
    assert np.abs(one - other).max() > 1e-6
    equal = p | {name: x[:1].repeat(2, axis=0) for name, x in p.items() if name.endswith("role")}
    np.testing.assert_allclose(compose(a, b, equal, HEADS), compose(b, a, equal, HEADS), atol=1e-12)


@cases
def test_by_definition(seed: int, n: int, window: int, regime: str) -> None:
    """IO-3 L1, L3 and L4, IO-4 L1, L3 and L4."""
    p, leaves, chart = drawn_parameters(seed), floats(regime, seed, n, D), drawn_chart(seed, n, window)
    inner, spelled_out = inside(leaves, chart, p, HEADS), Definition(leaves, chart, p)
    vectors, weights = outside(inner, chart, p, HEADS)
    assert set(vectors) == set(inner.vectors) == {(i, i) for i in range(n)} | set(chart.cells)
    for w in [*inner.weights.values(), *weights.values()]:
        assert w.sum() == pytest.approx(1) and (w >= 0).all()
    if n <= 5:
        for span, x in inner.vectors.items():
            np.testing.assert_allclose(x, spelled_out.inside(*span), rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(vectors[span], spelled_out.outside(*span), rtol=1e-6, atol=1e-7)
    full = Chart(n, {(i, j): list(range(i, j)) for j in range(n) for i in range(j)}, [])
    if window >= n - 1:
        full = Chart(n, {span: full.cells[span] for span in chart.cells}, [])
        assert all((x == inside(leaves, full, p, HEADS).vectors[span]).all() for span, x in inner.vectors.items())


@cases
def test_own_words_only(seed: int, n: int, window: int, regime: str) -> None:
    """IO-3 L2."""
    p, leaves = drawn_parameters(seed), floats(regime, seed, n, D)
    full = inside(leaves, drawn_chart(seed, n, n), p, HEADS)
    for i, j in full.vectors:
        alone = inside(leaves[i : j + 1], drawn_chart(seed + 1, j - i + 1, n), p, HEADS)
        np.testing.assert_allclose(alone.vectors[0, j - i], full.vectors[i, j], rtol=1e-12, atol=1e-12)
    chart = drawn_chart(seed, n, window)
    before = inside(leaves, chart, p, HEADS)
    after = inside(np.concatenate([leaves[:-1], leaves[-1:] + 1]), chart, p, HEADS)
    assert all((x == after.vectors[i, j]).all() for (i, j), x in before.vectors.items() if j < n - 1)


@cases
def test_other_words_only(seed: int, n: int, window: int, regime: str) -> None:
    """IO-4 L2."""
    p, leaves, chart = drawn_parameters(seed), floats(regime, seed, n, D), drawn_chart(seed, n, window)
    before = outside(inside(leaves, chart, p, HEADS), chart, p, HEADS)[0]
    for t in range(n):
        other_leaves = leaves.copy()
        other_leaves[t] += 1
        after = outside(inside(other_leaves, chart, p, HEADS), chart, p, HEADS)[0]
        assert all((x == after[i, j]).all() for (i, j), x in before.items() if i <= t <= j)


@cases
def test_constant_weights(seed: int, n: int, window: int, regime: str) -> None:
    """IO-3 L5."""
    p, leaves, chart = drawn_parameters(seed), floats(regime, seed, n, D), drawn_chart(seed, n, window)
    inner = inside(leaves, chart, p, HEADS)
    other = p | {name: x + 1 for name, x in p.items() if name.startswith("inside")}
    for parameters in (p, other):
        again = inside(leaves, chart, parameters, HEADS, inner.weights)
        assert all((x == again.vectors[span]).all() for span, x in inner.vectors.items())
        assert again.heights == inner.heights
    assert n < 2 or any((s != again.scores[span]).any() for span, s in inner.scores.items())


@cases
def test_heights(seed: int, n: int, window: int, regime: str) -> None:
    """IO-6 L1 and L2."""
    p, leaves = drawn_parameters(seed), floats(regime, seed, n, D)
    for (i, j), h in inside(leaves, drawn_chart(seed, n, window), p, HEADS).heights.items():
        assert math.ceil(math.log2(j - i + 1)) - 1e-9 <= h <= j - i + 1e-9
    chart = drawn_chart(seed, n, 1)
    assert inside(leaves, chart, p, HEADS).heights[0, n - 1] == pytest.approx(len(chart.steps))


def stack_tree(spans: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the nodes that GEN for each word and COMP for each longer span build, from any list of spans."""
    stack, nodes, n_words = [], set(), 0
    for i, j in spans:
        if i == j:
            stack.append((n_words, n_words))
            n_words += 1
        else:
            right, left = stack.pop(), stack.pop()
            stack.append((left[0], right[1]))
            nodes.add(stack[-1])
    assert len(stack) == 1
    return nodes


@pytest.mark.parametrize("n", range(1, 8))
def test_post_order_builds_the_tree(n: int) -> None:
    """IO-5 L2: it holds for all trees of up to 7 words."""
    for tree in brute.binary_trees(0, n - 1):
        order = post_order(tree)
        assert len(order) == 2 * n - 1
        assert stack_tree(order) == {(i, j) for i, _, j in tree} == {(i, j) for i, j in order if i < j}
        for i, k, j in tree:
            assert order.index((i, k)) < order.index((k + 1, j)) < order.index((i, j))


@given(seed=seeds, n=st.integers(2, 10), window=st.integers(1, 9), a=st.integers(0, 8), size=st.integers(1, 4))
def test_atoms(seed: int, n: int, window: int, a: int, size: int) -> None:
    """IO-5 L3."""
    draw = np.random.default_rng(seed)
    atoms = [(i, j) for i, j in ((a, a + size), (a + size + 1, a + size + 2)) if j < n]
    chart = pruned_chart(merge_order(draw.standard_normal(n - 1), atoms), n, window)
    scores = {span: draw.standard_normal(len(splits)) for span, splits in chart.cells.items()}
    assert set(atoms) <= {(i, j) for i, _, j in induced_tree(chart, scores, atoms)}


def test_deep_trees() -> None:
    """It works for trees of 1,024 words that branch to one side only."""
    chart = pruned_chart(range(1023), 1024, 1)
    tree = induced_tree(chart, {span: np.zeros(1) for span in chart.cells})
    assert len(post_order(tree)) == 2047 and tree[-1] == (0, 0, 1)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ([(0, 0, 2)], "binary tree over 2 words"),
        ([(0, 1, 1)], "binary tree"),
        ([(0, 0, 2), (0, 0, 2)], "binary tree over 3"),
        ([(0, 0, 3), (1, 1, 3), (1, 1, 2)], "binary tree over 4"),
    ],
)
def test_no_tree(tree: list[Split], words: str) -> None:
    """IO-5: splits that form no tree are refused, and so are scores that are not finite."""
    with pytest.raises(ValueError, match=words):
        post_order(tree)
    for n in (2, 3):
        chart = pruned_chart(range(n - 1), n)
        with pytest.raises(ValueError, match=f"span 0..{n - 1}: NaN"):
            induced_tree(chart, {span: np.full(len(splits), np.nan) for span, splits in chart.cells.items()})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"leaves": np.zeros((3, D))}, r"leaves: shape \(3, 4\), expected \(2, any\)"),
        ({"leaves": np.zeros(2)}, r"leaves: shape \(2,\)"),
        ({"leaves": np.array([[0.0] * D, [np.inf] * D])}, "NaN or infinity in row 1"),
        ({"leaves": np.zeros((2, 3))}, "weight: shape"),
        ({"leaves": np.zeros((2, D), np.float32)}, "dtype"),
        ({"n_heads": 3}, "n_heads: 3 does not divide 4"),
        ({"n_heads": 0}, "n_heads: 0"),
    ],
)
def test_bad_input(change: dict, words: str) -> None:
    """IO-1, IO-3: every error message is one line."""
    arguments = {"leaves": np.ones((2, D)), "parameters": drawn_parameters(0), "n_heads": HEADS}
    with pytest.raises(ValueError, match=words) as caught:
        inside(chart=pruned_chart([0], 2), **(arguments | change))
    assert "\n" not in str(caught.value)


def test_float32_stays() -> None:
    p = {name: x.astype(np.float32) for name, x in drawn_parameters(1).items()}
    chart = drawn_chart(0, 5, 2)
    inner = inside(floats("unit", 0, 5, D).astype(np.float32), chart, p, HEADS)
    vectors, weights = outside(inner, chart, p, HEADS)
    everything = [*inner.vectors.values(), *inner.scores.values(), *inner.weights.values()]
    assert {x.dtype for x in [*everything, *vectors.values(), *weights.values()]} == {np.dtype(np.float32)}
