"""Treeformer's chart: laws of the reference, gradients near ties, and errors."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.arrays import to_numpy
from accel.verify.op import offsets_of
from accel.verify.strategies import floats, regimes, seeds
from refimpl import transformer as encoder_decoder
from refimpl.layers import layer_norm
from refimpl.treeformer import model as treeformer
from refimpl.treeformer.cky_pooling import (
    Chart,
    chart_trees,
    cky_pool,
    compose,
    n_nodes,
    parameter_shapes,
    phrases,
    pool,
)
from refimpl.treeformer.released import released_block, released_shapes
from tests.fixtures.sequence_models import random_parameters

D, HEADS = 4, 2
variants = st.sampled_from(["paper", "released"])
heights = st.one_of(st.none(), st.integers(1, 7))


def drawn_parameters(seed: int, variant: str = "paper", d: int = D) -> dict[str, np.ndarray]:
    shapes = parameter_shapes(d) if variant == "paper" else released_shapes(d, 3)
    draw = np.random.default_rng(seed)
    return {name: draw.standard_normal(shape) / 2 + name.endswith("scale") for name, shape in shapes.items()}


@given(seed=seeds, variant=variants, n=st.integers(1, 6), height=heights)
def test_own_tokens_only(seed: int, variant: str, n: int, height: int | None) -> None:
    """CKY-3 L1 to L3, CKY-5 L1: the chart of a phrase alone is a part of the sentence's chart."""
    parameters, tokens = drawn_parameters(seed, variant), floats("unit", seed, n, D)
    chart = cky_pool(tokens, parameters, height, variant, HEADS)
    rows = min(n, height or n)
    assert len(chart.vectors) == n_nodes(n, height) == n * rows - rows * (rows - 1) // 2
    assert list(chart.vectors) == phrases(n, height)
    assert list(chart.vectors) == sorted(chart.vectors, key=lambda span: (span[1] - span[0], span[0]))
    assert sum(map(len, chart.weights.values())) == sum((n - h + 1) * (h - 1) for h in range(2, rows + 1))
    for (i, j), r in chart.vectors.items():
        span_alone = cky_pool(tokens[i : j + 1], parameters, height, variant, HEADS)
        np.testing.assert_allclose(span_alone.vectors[0, j - i], r, rtol=1e-9, atol=1e-12)
        if i < j:
            assert chart.weights[i, j].sum() == pytest.approx(1) and (chart.weights[i, j] >= 0).all()


@given(seed=seeds, variant=variants, n=st.integers(1, 6))
def test_low_charts_begin_high_ones(seed: int, variant: str, n: int) -> None:
    """CKY-3 L4, CKY-5 L1."""
    parameters, tokens = drawn_parameters(seed, variant), floats("unit", seed, n, D)
    full = cky_pool(tokens, parameters, None, variant, HEADS)
    for height in range(1, n + 3):
        low = cky_pool(tokens, parameters, height, variant, HEADS)
        assert list(low.vectors) == list(full.vectors)[: len(low.vectors)] and len(low.vectors) == n_nodes(n, height)
        assert all((r == full.vectors[span]).all() for span, r in low.vectors.items())
        assert all((p == full.weights[span]).all() for span, p in low.weights.items())


@given(seed=seeds, regime=regimes, n_splits=st.integers(1, 5), d=st.integers(1, 5))
def test_scores_of_halves(seed: int, regime: str, n_splits: int, d: int) -> None:
    """CKY-1 L1, CKY-2 L3: the backends' form agrees: scores from u, and halves of W applied once a phrase."""
    p = drawn_parameters(seed, d=d)
    left, right = floats(regime, seed, n_splits, d), floats(regime, seed + 1, n_splits, d)
    u = p["key"] @ (p["w"] @ p["query"]) / math.sqrt(d)
    from_left, from_right = left @ p["compose"][:d], right @ p["compose"][d:]
    c = np.array([compose(*parts, p["compose"]) for parts in zip(left, right, strict=True)])
    np.testing.assert_allclose(c, from_left + from_right, rtol=1e-9, atol=1e-12)
    r, weights = pool(c, p["key"], p["query"], p["w"])
    scores = from_left @ u + from_right @ u
    e = np.exp(scores - scores.max())
    np.testing.assert_allclose(weights, e / e.sum(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(r, weights @ c, rtol=1e-9, atol=1e-12)


@given(seed=seeds, n_splits=st.integers(1, 5))
def test_sharper_and_sharper(seed: int, n_splits: int) -> None:
    """CKY-2 L2 and L4."""
    p, c = drawn_parameters(seed), floats("unit", seed, n_splits, D)
    one = np.eye(D)
    r, weights = pool(c, p["key"], p["query"], 0 * p["w"])
    np.testing.assert_allclose(weights, 1 / n_splits)
    np.testing.assert_allclose(r, c.mean(axis=0), atol=1e-12)
    best = int(np.argmax(c[:, 0]))
    r, weights = pool(c, one, one, np.array([1e9, 0, 0, 0]))
    if np.sum(c[:, 0] == c[best, 0]) == 1:
        assert weights[best] == 1 and weights.sum() == 1 and (r == c[best]).all()
    twice = pool(np.concatenate([c, c]), one, one, p["w"])[1]
    np.testing.assert_allclose(twice[:n_splits], twice[n_splits:], rtol=1e-12)


@given(seed=seeds, n_splits=st.integers(1, 5))
def test_released_block_from_halves(seed: int, n_splits: int) -> None:
    """CKY-5 L3: LN_2 of a pair follows from terms of each part alone, and one number for the pair."""
    p = drawn_parameters(seed, "released")
    left, right = floats("unit", seed, n_splits, D), floats("unit", seed + 1, n_splits, D)
    v, u = (layer_norm(x, p["norm_1.scale"], p["norm_1.bias"]) for x in (left, right))
    a, b = v + v @ p["compose"][:D] + p["compose_bias"], u + u @ p["compose"][D:]
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    sigma = np.sqrt(((a * a).sum(1) + 2 * (a * b).sum(1) + (b * b).sum(1)) / D + 1e-5)
    keys, queries = p["attention.key"], p["w"] @ p["attention.query"] + p["attention.query_bias"]
    mean = np.zeros(n_splits)
    for head in (slice(0, 2), slice(2, 4)):
        toward = p["norm_2.scale"] * (keys[:, head] @ queries[head])
        scores = (a @ toward + b @ toward) / sigma / math.sqrt(2)  # biases add the same to all scores
        e = np.exp(scores - scores.max())
        mean += e / e.sum() / HEADS
    np.testing.assert_allclose(released_block(left, right, p, HEADS)[1], mean, rtol=1e-9)


def test_numbers_of_parameters() -> None:
    """CKY-1 L3, CKY-5 L2: added to 37 million parameters, the released block gives the 40 million of Table 1."""
    sizes = [sum(map(math.prod, shapes.values())) for shapes in (parameter_shapes(512), released_shapes(512, 1024))]
    assert sizes == [1_049_088, 2_629_120]
    assert [round(37 + size / 1e6) for size in sizes] == [38, 40]


@given(seed=seeds, variant=variants, s=st.integers(1, 5), n=st.integers(1, 3), height=heights)
def test_memory_of_the_decoder(seed: int, variant: str, s: int, n: int, height: int | None) -> None:
    """TF-1 L1 to L3; if each token is its only phrase, the model is a Transformer."""
    p = random_parameters(seed, "none") | {f"chart.{k}": x for k, x in drawn_parameters(seed, variant).items()}
    draw = np.random.default_rng(seed)
    ids, target = draw.integers(0, 5, s), draw.integers(0, 5, n)
    memory, encoded = treeformer.encode(p, ids, HEADS, height, variant), encoder_decoder.encode(p, ids, HEADS)
    assert len(memory) == n_nodes(s, height) and (memory[:s] == encoded).all()
    logp = encoder_decoder.decode(p, memory, target, HEADS)
    permuted_logp = encoder_decoder.decode(p, memory[draw.permutation(len(memory))], target, HEADS)
    np.testing.assert_allclose(logp, permuted_logp, rtol=1e-9, atol=1e-12)
    low = treeformer.encode(p, ids, HEADS, 1, variant)
    assert (low == encoded).all()


@given(seed=seeds, variant=variants, s=st.integers(1, 5), height=heights)
def test_classes_of_the_top_row(seed: int, variant: str, s: int, height: int | None) -> None:
    """TF-2 L1 and L2."""
    p = random_parameters(seed, "none") | {f"chart.{k}": x for k, x in drawn_parameters(seed, variant).items()}
    ids = np.random.default_rng(seed).integers(0, 5, s)
    logp = treeformer.classify(p, ids, HEADS, height, variant)
    assert np.exp(logp).sum() == pytest.approx(1)
    memory = treeformer.encode(p, ids, HEADS, height, variant)
    top = memory[-1] if (height or s) >= s else memory[-(s - height + 1) :].mean(axis=0)
    logits = p["classes"] @ (memory[0] + top) + p["classes_bias"]
    np.testing.assert_allclose(logp, logits - np.log(np.exp(logits).sum()), rtol=1e-9, atol=1e-12)


def exact_gradients(arguments: list[np.ndarray], lengths: list[int], height: int | None, d_out: np.ndarray) -> list:
    """Return the gradients of <d_out, nodes> by complex steps through the reference, which lose no precision."""
    tokens, matrix, direction = (x.astype(complex) for x in arguments)
    d, bounds, gradients = len(direction), offsets_of(lengths), []
    one, root = np.eye(d, dtype=complex), math.sqrt(d)
    for x in (tokens, matrix, direction):
        gradient = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            x[index] += 1e-30j
            p = {"compose": matrix, "key": one, "query": one, "w": direction * root}
            charts = [cky_pool(tokens[a:b], p, height) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
            nodes = np.array([r for pooled in charts for r in pooled.vectors.values()])
            gradient[index] = (nodes * d_out).sum().imag / 1e-30
            x[index] = x[index].real
        gradients.append(gradient)
    return gradients


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize("height", [1, 2, 3, 10, None])
@pytest.mark.parametrize("lengths", [[1], [2], [1, 2, 1], [3, 5], [4, 1, 6, 2, 6]], ids=str)
def test_gradients_in_corners(backend: ModuleType, lengths: list[int], height: int | None, sharpness: float) -> None:
    """CKY-3: every element agrees to 1e-7 in float64, for one and two tokens, H = 1, H > n and sharp weights.

    If the weights are 1 and 0, the gradient of the direction is only the rounding error of the others.
    """
    for d, seed in ((1, 0), (3, 1), (5, 2)):
        draw = np.random.default_rng([seed, *lengths])
        tokens, matrix = draw.standard_normal((sum(lengths), d)), draw.standard_normal((2 * d, d)) / math.sqrt(2 * d)
        assert_exact(backend, [tokens, matrix, sharpness * draw.standard_normal(d)], lengths, height, seed)


@pytest.mark.parametrize("n", [3, 4, 7])
def test_gradients_of_sharp_ties(backend: ModuleType, n: int) -> None:
    """CKY-3: all splits have equal, huge scores and different vectors, so every weight counts."""
    tokens = np.random.default_rng(n).standard_normal((n, 2))
    matrix = np.array([[1.0, 0.3], [0.0, 0.8], [1.0, -0.2], [0.0, 0.4]])  # feature 0 sums up the phrase's tokens
    parameters = {"compose": matrix, "key": np.eye(2), "query": np.eye(2), "w": np.array([3e3, 0])}
    weights = cky_pool(tokens, parameters).weights
    assert all(np.abs(of_cell - 1 / len(of_cell)).max() < 1e-9 for of_cell in weights.values())
    assert_exact(backend, [tokens, matrix, np.array([3e3, 0.0])], [n], None, n)


def assert_exact(
    backend: ModuleType, arguments: list[np.ndarray], lengths: list[int], height: int | None, seed: int
) -> None:
    if backend.name == "ref":  # its gradients are differences
        return
    d_out = np.random.default_rng(seed).standard_normal((sum(n_nodes(n, height) for n in lengths), len(arguments[2])))
    positional = [backend.xp.asarray(x) for x in (*arguments, offsets_of(lengths))]
    outputs = backend.cky_pool(*positional, max_height=height)
    gradients = backend.cky_pool_vjp(backend.xp.asarray(d_out), outputs, *positional, max_height=height)
    expected = exact_gradients(arguments, lengths, height, d_out)
    largest = max(np.abs(x).max() for x in expected)
    for name, x, exact in zip(("tokens", "compose", "direction"), gradients, expected, strict=True):
        bound = 1e-7 * np.abs(exact).max() + 1e-14 * largest
        worst = np.abs(to_numpy(x) - exact).max()
        assert worst <= bound, f"{name}: off by {worst:.3g}, bound {bound:.3g}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": np.zeros((0, D))}, "an empty sentence"),
        ({"tokens": np.zeros(D)}, r"tokens: shape \(4,\)"),
        ({"tokens": np.zeros((2, 0))}, "tokens: shape"),
        ({"tokens": np.array([[0.0] * D, [np.nan] * D])}, "NaN or infinity in row 1"),
        ({"tokens": np.full((2, D), -np.inf)}, "NaN or infinity in row 0"),
        ({"tokens": np.zeros((2, D), np.float32)}, "of float32"),
        ({"tokens": np.zeros((2, 3))}, "parameters"),
        ({"max_height": 0}, "max_height: 0 is below 1"),
        ({"max_height": -3}, "max_height: -3 is below 1"),
        ({"variant": "printed"}, "variant: 'printed'"),
        ({"variant": "released"}, "parameters"),
        ({"variant": "released", "parameters": drawn_parameters(0, "released"), "n_heads": 3}, "n_heads: 3"),
        ({"variant": "released", "parameters": drawn_parameters(0, "released"), "n_heads": 0}, "n_heads: 0"),
    ],
)
def test_bad_input(change: dict, words: str) -> None:
    """CKY-3, CKY-5: every error message is one line."""
    arguments = {"tokens": np.zeros((2, D)), "parameters": drawn_parameters(0)}
    with pytest.raises(ValueError, match=words) as caught:
        cky_pool(**(arguments | change))
    assert "\n" not in str(caught.value)


def test_no_parse_above_the_chart() -> None:
    """CKY-4: for a chart that ends below the sentence the error names both lengths; a full chart parses."""
    parameters, tokens = drawn_parameters(0), floats("unit", 0, 6, D)
    with pytest.raises(ValueError, match="6 tokens, but the chart ends at height 5: no root"):
        chart_trees(cky_pool(tokens, parameters, 5))
    assert str(chart_trees(cky_pool(tokens, parameters, 6))) == str(chart_trees(cky_pool(tokens, parameters)))
    with pytest.raises(ValueError, match="2 for a chart of 1"):
        chart_trees(Chart(1, {}, {}), ["a", "b"])
