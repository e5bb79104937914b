"""The batched ALBERT, with and without a chart: against the reference; gradients, neighbours, sizes, bad input."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.batches.sentences import SentenceBatch
from accel.models import passes
from accel.models.albert import model as albert
from accel.models.albert.config import SIZES, Config
from refimpl.layers import erf_gelu, gelu, log_softmax
from refimpl.treeformer import albert as reference
from refimpl.treeformer.model import summary
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gradient_checks import difference
from tests.fixtures.right_labels import assert_right_labels

V = 11
SINGLES, PAIRS = [[3], [1], [6], [2]], [[3, 4], [2, 1], [5, 6]]


def config_of(**changes: Any) -> Config:
    tiny = {"d_embedding": 6, "d_model": 8, "d_ff": 10, "n_layers": 3, "n_heads": 2, "n_positions": 12}
    return Config(V, **(tiny | {"max_height": 3, "class_dropout": 0.0} | changes))


def parameters_of(config: Config) -> dict[str, np.ndarray]:
    """Return random float64 parameters, none of them 0 or 1."""
    draw = np.random.default_rng(3)
    initial_parameters = albert.initialise(config, 7)
    return {name: x.astype(np.float64) + 0.3 * draw.standard_normal(x.shape) for name, x in initial_parameters.items()}


def batch_of(config: Config, lengths: list[list[int]], seed: int = 5) -> SentenceBatch:
    """Return a batch of sentences or pairs of these lengths; without classes every other token is masked."""
    draw = np.random.default_rng(seed)
    in_order = [row[side] for side in range(len(lengths[0])) for row in lengths]
    offsets = np.cumsum([0, *in_order], dtype=np.int64)
    ids = draw.integers(0, V, offsets[-1]).astype(np.int32)
    if config.n_classes == 1:
        labels: np.ndarray = draw.random(len(lengths)).astype(np.float32)
    elif config.n_classes:
        labels = draw.integers(0, config.n_classes, len(lengths)).astype(np.int32)
    else:
        labels = np.where(np.arange(len(ids)) % 2, -1, draw.integers(0, V, len(ids))).astype(np.int32)
    return SentenceBatch(ids, offsets, labels, int((labels >= 0).sum()))


def sequences_of(batch: SentenceBatch, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the ids and the token types of every sequence."""
    sentences = np.split(batch.ids, batch.offsets[1:-1])
    count = len(sentences) // width
    rows = [[sentences[side * count + b] for side in range(width)] for b in range(count)]
    return [(np.concatenate(row), np.repeat(np.arange(width), [len(x) for x in row])) for row in rows]


def encoded(config: Config, p: dict[str, np.ndarray], ids: np.ndarray, types: np.ndarray) -> np.ndarray:
    activation = gelu if config.activation == "gelu_new" else erf_gelu
    return reference.encode(p, ids, types, config.n_heads, config.n_layers, activation, config.norm_epsilon)


def outputs_of(config: Config, p: dict[str, np.ndarray], ids: np.ndarray, types: np.ndarray) -> np.ndarray:
    h = encoded(config, p, ids, types)
    if config.chart == "none":
        return reference.outputs(p, h[0])
    parts = [h] if config.across else [h[types == kind] for kind in np.unique(types)]
    return reference.outputs(p, summary(p, parts, config.n_heads, config.max_height or None, config.chart))


@pytest.mark.parametrize(
    ("lengths", "changes"),
    [
        (SINGLES, {"chart": "none"}),
        (PAIRS, {"chart": "none", "activation": "gelu", "norm_epsilon": 1e-5}),
        (SINGLES, {"chart": "paper", "max_height": 0}),
        (PAIRS, {"chart": "paper"}),
        (PAIRS, {"chart": "paper", "across": True}),
        (PAIRS, {"chart": "released", "max_height": 2}),
    ],
)
def test_batched_is_the_reference(backend: ModuleType, lengths: list[list[int]], changes: dict[str, Any]) -> None:
    config = config_of(n_classes=3, **changes)
    p, batch = parameters_of(config), batch_of(config, lengths)
    there, of_batch = (
        on_device(backend, p),
        SentenceBatch(*map(backend.xp.asarray, (batch.ids, batch.offsets, batch.labels)), batch.n_labels),
    )
    logits = host(albert.class_logits(backend, config, there, of_batch))
    logp, right, _ = albert.scores(backend, config, there, of_batch)
    for b, (ids, types) in enumerate(sequences_of(batch, len(lengths[0]))):
        expected = outputs_of(config, p, ids, types)
        np.testing.assert_allclose(logits[b], expected, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(host(logp)[b], log_softmax(expected)[batch.labels[b]], rtol=1e-9, atol=1e-11)
        assert host(right)[b] == (expected.argmax() == batch.labels[b])


@pytest.mark.parametrize("activation", ["gelu_new", "gelu"])
def test_masked_tokens_are_the_reference(monkeypatch: pytest.MonkeyPatch, activation: str) -> None:
    config = config_of(activation=activation)
    p, batch = parameters_of(config), batch_of(config, SINGLES)
    form = gelu if activation == "gelu_new" else erf_gelu
    rows = [
        reference.word_logps(p, encoded(config, p, ids, types), form, config.norm_epsilon)
        for ids, types in sequences_of(batch, 1)
    ]
    masked = batch.labels >= 0
    expected = np.concatenate(rows)[masked, batch.labels[masked]]
    np.testing.assert_allclose(albert.scores(CPU, config, p, batch)[0], expected, rtol=1e-9, atol=1e-11)
    best = np.concatenate(rows)[masked].argmax(axis=1)
    for logits in (passes.LOGITS, 1, 2 * V):  # few at a time give the same
        monkeypatch.setattr(passes, "LOGITS", logits)
        np.testing.assert_array_equal(albert.scores(CPU, config, p, batch)[1], best == batch.labels[masked])


@pytest.mark.parametrize("rows", [1, 4, 1000])
@pytest.mark.parametrize("n_classes", [0, 3])
def test_the_most_probable_labels_are_right(n_classes: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the number of rows that are judged at a time."""
    config = config_of(n_classes=n_classes)
    p, batch, n = parameters_of(config), batch_of(config, [*SINGLES, [4], [2], [5]]), n_classes or V
    monkeypatch.setattr(passes, "LOGITS", rows * n)

    def scores(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        all_labels = batch.labels.copy()
        all_labels[batch.labels >= 0] = labels
        return albert.scores(CPU, config, p, replace(batch, labels=all_labels))[:2]

    assert_right_labels(scores, n, batch.n_labels)


@pytest.mark.parametrize(
    ("lengths", "seed", "changes"),
    [
        (SINGLES, None, {"n_classes": 0}),
        (SINGLES, 4, {"n_classes": 0, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.1}),
        (PAIRS, 4, {"n_classes": 3, "chart": "paper", "class_dropout": 0.2}),
        (PAIRS, None, {"n_classes": 1, "chart": "paper", "across": True}),
        (SINGLES, None, {"n_classes": 2, "chart": "released"}),
        (PAIRS, None, {"n_classes": 2}),
    ],
)
def test_gradients(lengths: list[list[int]], seed: int | None, changes: dict[str, Any]) -> None:
    """The gradient along one direction agrees with differences to 1e-7, in float64."""
    config = config_of(**changes)
    p, batch, draw = parameters_of(config), batch_of(config, lengths), np.random.default_rng(0)
    along = {name: draw.standard_normal(x.shape) for name, x in p.items()}

    def loss(there: dict[str, np.ndarray]) -> float:
        return albert.loss_and_grad(CPU, config, there, batch, dropout_seed=seed)[0]

    _, gradients, _ = albert.loss_and_grad(CPU, config, p, batch, dropout_seed=seed)
    slope = sum((gradients[name] * along[name]).sum() for name in p)
    size = sum(abs(gradients[name] * along[name]).sum() for name in p)
    assert abs(slope - difference(p, along, loss)) <= 1e-7 * size
    unused = {name for name, g in gradients.items() if not np.abs(g).max() > 0}
    assert unused == (set() if config.n_classes else {"pooler", "pooler_bias"})


def test_score_is_compared_with_the_label() -> None:
    config = config_of(n_classes=1)
    p, batch = parameters_of(config), batch_of(config, PAIRS)
    answers = albert.class_logits(CPU, config, p, batch)[:, 0]
    loss, _, _ = albert.loss_and_grad(CPU, config, p, batch)
    assert loss == pytest.approx(((answers - batch.labels) ** 2).sum())
    assert not albert.scores(CPU, config, p, batch)[1].any()


@pytest.mark.parametrize("across", [False, True])
def test_phrases_across_a_pair(across: bool) -> None:
    """AL point C: with `across`, phrases may span both sentences: where a pair is cut then only changes the types."""
    config = config_of(n_classes=2, chart="paper", across=across)
    p = parameters_of(config)
    p["type"][:] = 0
    ids = np.array([1, 2, 3, 4, 5, 6], np.int32)
    cuts = [SentenceBatch(ids, np.array([0, k, 6]), np.zeros(1, np.int32), 1) for k in (2, 3)]
    first, second = (albert.class_logits(CPU, config, p, batch) for batch in cuts)
    assert np.allclose(first, second, rtol=1e-12) == across


def test_parameters_of_albert_base() -> None:
    """albert-base-v2 has 11,683,584 numbers; the paper's chart adds 4 d^2 + d, the released one 8,270,592."""
    counts = {}
    for chart in ("none", "paper", "released"):
        shapes = albert.parameter_shapes(Config(30_000, n_classes=2, chart=chart, **SIZES["base"]))
        counts[chart] = sum(prod(shape) for name, shape in shapes.items() if not name.startswith("classes"))
    assert counts["none"] == 11_683_584
    assert counts["paper"] - counts["none"] == 4 * 768**2 + 768
    assert counts["released"] - counts["none"] == 8_270_592


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_heads": 3}, "d_model"),
        ({"activation": "relu"}, "activation"),
        ({"chart": "cky"}, "chart"),
        ({"norm_epsilon": 0.0}, "norm_epsilon"),
        ({"max_height": -1}, "max_height"),
    ],
)
def test_configurations_that_cannot_be(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config_of(**change)


def test_too_long() -> None:
    config = config_of()
    with pytest.raises(ValueError, match="13 tokens, more than the model reads, 12"):
        albert.scores(CPU, config, parameters_of(config), batch_of(config, [[2], [13]]))


@pytest.mark.parametrize("chart", ["paper", "released"])
def test_initial_parameters_have_the_stated_sizes(chart: str) -> None:
    """Weights have a standard deviation of 0.02; those of the chart are uniform.

    The limit of a chart's matrix is the root of 6 / (rows + columns). Scales are 1, biases 0.
    """
    config = config_of(chart=chart, d_model=48, d_ff=64, d_embedding=32, n_classes=3)
    for name, x in albert.initialise(config, 1).items():
        if x.ndim == 2 and name.startswith("chart.") and name != "chart.w":
            limit = (6 / sum(x.shape)) ** 0.5
            assert 0.97 * limit < abs(x).max() <= limit, name
        elif x.ndim > 1 and name != "chart.w":
            assert x.std() == pytest.approx(0.02, rel=6 / x.size**0.5), name
        elif name != "chart.w":
            assert set(x.tolist()) == {float(name.endswith(".scale"))}, name
