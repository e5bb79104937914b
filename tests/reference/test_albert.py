"""ALBERT below the chart: the reference agrees with a form written in loops, and obeys its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from refimpl.layers import erf_gelu, gelu
from refimpl.treeformer.albert import encode, outputs, word_logps
from tests.fixtures.albert_models import parameters_of, types_of

HEADS = 2


def norm(row: list[float], scale: np.ndarray, bias: np.ndarray, epsilon: float = 1e-12) -> list[float]:
    mean = sum(row) / len(row)
    spread = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + epsilon)
    return [s * (x - mean) / spread + b for x, s, b in zip(row, scale, bias, strict=True)]


def times(row: list[float], matrix: np.ndarray, bias: np.ndarray) -> list[float]:
    return [sum(x * matrix[i, j] for i, x in enumerate(row)) + bias[j] for j in range(matrix.shape[1])]


def tanh_gelu(x: float) -> float:
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def exact_gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def attended(p: dict[str, np.ndarray], rows: list[list[float]], i: int) -> list[float]:
    """Return the attention's output for row i, computed head by head."""
    q, k, v = (
        [times(row, p[f"layer.attention.{name}"], p[f"layer.attention.{name}_bias"]) for row in rows]
        for name in ("query", "key", "value")
    )
    width, out = len(rows[0]) // HEADS, list[float]()
    for head in range(HEADS):
        features = range(head * width, (head + 1) * width)
        weights = [math.exp(sum(q[i][a] * row[a] for a in features) / math.sqrt(width)) for row in k]
        out += [sum(w * row[a] for w, row in zip(weights, v, strict=True)) / sum(weights) for a in features]
    return times(out, p["layer.attention.output"], p["layer.attention.output_bias"])


def by_loops(p: dict[str, np.ndarray], ids: np.ndarray, types: np.ndarray, n_layers: int, exact: bool) -> np.ndarray:
    sums = p["embedding"][ids] + p["position"][: len(ids)] + p["type"][types]
    normal = [norm(row.tolist(), p["embedding_norm.scale"], p["embedding_norm.bias"]) for row in sums]
    rows = [times(row, p["widen"], p["widen_bias"]) for row in normal]
    f = exact_gelu if exact else tanh_gelu
    for _ in range(n_layers):
        after = []
        for i, row in enumerate(rows):
            summed = [x + y for x, y in zip(row, attended(p, rows, i), strict=True)]
            x = norm(summed, p["layer.attention_norm.scale"], p["layer.attention_norm.bias"])
            hidden = [f(y) for y in times(x, p["layer.feed_forward.in"], p["layer.feed_forward.in_bias"])]
            output = times(hidden, p["layer.feed_forward.out"], p["layer.feed_forward.out_bias"])
            summed = [a + b for a, b in zip(x, output, strict=True)]
            after.append(norm(summed, p["layer.feed_forward_norm.scale"], p["layer.feed_forward_norm.bias"]))
        rows = after
    return np.array(rows)


@pytest.mark.parametrize(("n", "n_layers", "exact"), [(1, 1, False), (4, 2, False), (5, 3, True)])
def test_rows_by_loops(n: int, n_layers: int, exact: bool) -> None:
    """AL-1."""
    p, ids = parameters_of(), np.arange(n) % 3
    types = types_of(n)
    activation = erf_gelu if exact else gelu
    h = encode(p, ids, types, HEADS, n_layers, activation)
    np.testing.assert_allclose(h, by_loops(p, ids, types, n_layers, exact), rtol=1e-9, atol=1e-11)


def test_words_by_loops() -> None:
    """AL-3."""
    p, h = parameters_of(), np.random.default_rng(0).standard_normal((3, 4))
    logps = word_logps(p, h)
    np.testing.assert_allclose(np.exp(logps).sum(axis=1), 1)
    for row, mine in zip(h.tolist(), logps, strict=True):
        narrow = [tanh_gelu(x) for x in times(row, p["narrow"], p["narrow_bias"])]
        normal = norm(narrow, p["narrow_norm.scale"], p["narrow_norm.bias"])
        logits = times(normal, p["embedding"].T, p["output_bias"])
        total = math.log(sum(map(math.exp, logits)))
        np.testing.assert_allclose(mine, [x - total for x in logits], rtol=1e-9, atol=1e-11)


def test_the_layer_again() -> None:
    """AL-1, L1: three layers equal one layer on the output of two, put in by the bias of the embedding's map."""
    p, ids, types = parameters_of(), np.array([2]), np.array([0])
    after_two = encode(p, ids, types, HEADS, 2)
    put_in = p | {"widen": np.zeros_like(p["widen"]), "widen_bias": after_two[0]}
    np.testing.assert_allclose(encode(p, ids, types, HEADS, 3), encode(put_in, ids, types, HEADS, 1), rtol=1e-9)


def test_permuted_tokens() -> None:
    """AL-1, L2 and L3: order enters only by positions; rows have mean 0 and deviation 1 after the last LayerNorm."""
    p = parameters_of()
    p["position"][:] = p["position"][0]
    ids, types, order = np.array([0, 2, 1, 2]), np.array([0, 0, 1, 1]), np.array([2, 0, 3, 1])
    h = encode(p, ids, types, HEADS, 2)
    np.testing.assert_allclose(encode(p, ids[order], types[order], HEADS, 2), h[order], rtol=1e-9, atol=1e-11)
    normal = (h - p["layer.feed_forward_norm.bias"]) / p["layer.feed_forward_norm.scale"]
    np.testing.assert_allclose(normal.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(normal.std(axis=1), 1, rtol=1e-9)


def test_outputs_are_bounded() -> None:
    """AL-2, L1."""
    p = parameters_of()
    for scale in (1.0, 1e3):
        out = outputs(p, scale * np.random.default_rng(1).standard_normal(4))
        assert (np.abs(out - p["classes_bias"]) <= np.abs(p["classes"]).sum(axis=1)).all()


@pytest.mark.parametrize(
    ("ids", "types", "words"),
    [([], [], "0 tokens"), ([9], [0], "ids: not all"), ([0], [2], r"ids: not all .* in 0\.\.1")],
)
def test_bad_input(ids: list[int], types: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode(parameters_of(), np.array(ids, int), np.array(types, int), HEADS, 1)
