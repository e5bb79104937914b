"""The parser against plain equations, its gradient against differences, and a sentence beside others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host
from accel.data.batches.constituents import Encoded, ParserBatch, assemble, span_number
from accel.data.vocabularies.affixes import AFFIXES
from accel.models.passes import scoring
from accel.models.transformer_grammars import span_parser
from accel.models.transformer_grammars.span_parser import Config
from refimpl import layers
from refimpl.attention import dot_product_attention
from refimpl.transformer_grammars import span_parser as exact
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gradient_checks import difference

SIZES: dict[str, Any] = {
    "vocabulary_size": 15, "n_labels": 3, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 10, "d_span": 6,
    "max_words": 6, "max_places": 2, "dropout": 0.0,
}  # fmt: skip
SENTENCES = [  # ids of the pieces of every word; (first word, last word, label) of every constituent
    ([[3], [4, 5, 6], [7]], [(0, 2, 1), (1, 2, 0)]),
    ([[8]], [(0, 0, 2)]),
    ([[3], [3], [2], [5, 2], [6]], [(0, 4, 0), (0, 1, 2), (1, 1, 1), (3, 4, 0), (4, 4, 0)]),
    ([[4], [5]], [(0, 1, 1)]),
]


def config_of(**changes: Any) -> Config:
    return Config(**(SIZES | changes))


def parameters_of(config: Config) -> dict[str, np.ndarray]:
    """Return random parameters, none of them 0 or 1."""
    draw = np.random.default_rng(3)
    return {name: x + 0.3 * draw.standard_normal(x.shape) for name, x in span_parser.initialise(config, 7).items()}


def batch_of(*numbers: int, ops: ModuleType = CPU, n_tags: int = 0) -> ParserBatch:
    """Return a batch of sentences; with tags, the tag of each first word is unknown."""
    encoded = []
    for pieces, tree in (SENTENCES[number] for number in numbers):
        spans = np.array([span_number(len(pieces), i, j) for i, j, _ in tree], np.int32)
        labels = np.array([label for *_, label in tree], np.int32)
        tags = [number % n_tags - (not number) for number in range(len(pieces))] if n_tags else None
        encoded.append(Encoded(pieces, np.zeros((len(pieces), AFFIXES), np.int32), spans, labels, tags))
    return assemble(encoded, ops)


def expected_scores(config: Config, p: dict[str, np.ndarray], words: list[list[int]]) -> np.ndarray:
    """Return the scores of all labels for every span of a sentence [n, n, labels]."""
    rows = [
        p["embedding"][piece] + p["word"][number] + p["place"][min(place, config.max_places - 1)]
        for number, pieces in enumerate([[0], *words, [1]])
        for place, piece in enumerate(pieces)
    ]
    x, d = np.array(rows), config.d_model

    def normal(name: str, x: np.ndarray) -> np.ndarray:
        return layers.layer_norm(x, p[f"{name}.scale"], p[f"{name}.bias"])

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return layers.linear(x, p[name], p[f"{name}_bias"])

    for layer in (f"layer.{k}" for k in range(config.n_layers)):
        h = normal(f"{layer}.attention_norm", x)
        q, k, v = (linear(f"{layer}.attention.{name}", h) for name in ("query", "key", "value"))
        heads = (part.reshape(len(x), config.n_heads, -1) for part in (q, k, v))
        x = x + linear(f"{layer}.attention.output", dot_product_attention(*heads)[0].reshape(x.shape))
        x = x + layers.mlp(normal(f"{layer}.feed_forward_norm", x), p, f"{layer}.feed_forward", layers.gelu)
    x, n = normal("norm", x), len(words)
    starts = np.cumsum([0, 1, *map(len, words)])  # of every word, the start symbol first
    between = [np.concatenate([x[starts[t + 1] - 1, : d // 2], x[starts[t + 1], d // 2 :]]) for t in range(n + 1)]
    scores = np.full((n, n, config.n_labels), np.nan)
    for i in range(n):
        for j in range(i, n):
            h = normal("span.norm", linear("span.in", (between[j + 1] - between[i])[None]))
            scores[i, j] = linear("span.out", np.maximum(h, 0.0))[0]
    return scores


def test_scores_and_probabilities_are_the_equations(backend: ModuleType) -> None:
    config = config_of()
    p, numbers = parameters_of(config), (0, 1, 2, 3)
    device_parameters = on_device(backend, p)
    batch = batch_of(*numbers, ops=backend)
    computed = host(span_parser.span_scores(backend, config, device_parameters, batch))
    logqs, right, _ = span_parser.scores(backend, config, device_parameters, batch)
    begin = 0
    for b, (words, tree) in enumerate(SENTENCES):
        n, scores = len(words), expected_scores(config, p, words)
        order = [(i, i + more) for more in range(n) for i in range(n - more)]
        close(computed[begin : begin + len(order)], np.array([scores[i, j] for i, j in order]))
        begin += len(order)
        close(host(logqs)[b], exact.tree_score(scores, tree) - exact.span_logz(scores))
        assert bool(right[b]) == (set(exact.best_trees(scores, 1)[0][1]) == set(tree))
    assert begin == len(computed)


def test_the_best_tree_is_recognised() -> None:
    """A best tree with one more constituent, or with a wrong label, counts as wrong."""
    config, batch = config_of(), batch_of(0, 2, 3)
    scores = np.full((len(batch.begins), 3), -5.0)
    scores[batch.spans, batch.labels] = 5.0
    assert span_parser._are_best(CPU, scores, batch).tolist() == [True, True, True]
    first = 6  # of the spans of the second sentence
    scores[first + span_number(5, 0, 0), 1] = 1.0
    assert span_parser._are_best(CPU, scores, batch).tolist() == [True, False, True]
    scores[first + span_number(5, 0, 0), 1] = -1.0
    scores[first + span_number(5, 0, 1), :] = [6.0, -5.0, 5.0]
    assert span_parser._are_best(CPU, scores, batch).tolist() == [True, False, True]
    assert config.n_labels == 3


@pytest.mark.parametrize(("rate", "n_tags"), [(0.0, 0), (0.3, 0), (0.3, 4)])
def test_gradients(rate: float, n_tags: int) -> None:
    """The gradient along one direction agrees with differences to 1e-7, in float64; all parameters are used."""
    config = config_of(dropout=rate, n_tags=n_tags)
    parameters, batch = parameters_of(config), batch_of(0, 1, 2, 3, n_tags=n_tags)
    along = {name: np.random.default_rng(len(name)).standard_normal(x.shape) for name, x in parameters.items()}
    expected = difference(
        parameters, along, lambda there: span_parser.loss_and_grad(CPU, config, there, batch, None, 4)[0]
    )
    loss, gradients, _ = span_parser.loss_and_grad(CPU, config, parameters, batch, dropout_seed=4)
    slope = sum((gradients[name] * along[name]).sum() for name in parameters)
    size = sum(abs(gradients[name] * along[name]).sum() for name in parameters)
    assert abs(slope - expected) <= 1e-7 * size
    unused = {name for name, g in gradients.items() if not np.abs(g).max() > 0}
    assert unused <= {f"layer.{k}.attention.key_bias" for k in range(2)}  # added to all keys of a query
    if not rate:
        close(loss, -span_parser.scores(CPU, config, parameters, batch)[0].sum())


def test_tags_are_learned_beside_the_trees() -> None:
    """The loss also has -log p of each known tag, from the last piece of its word; log q does not change."""
    config, batch = config_of(n_tags=4), batch_of(0, 1, 2, 3, n_tags=4)
    p = parameters_of(config)
    x = span_parser._vectors(scoring(CPU, config, p), batch).value
    logits = x @ p["tag"].T + p["tag_bias"]
    logps = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows = np.flatnonzero(batch.tags >= 0)
    assert len(rows) == sum(len(words) - 1 for words, _ in SENTENCES)
    of_trees = span_parser.scores(CPU, config, p, batch)[0]
    loss = span_parser.loss_and_grad(CPU, config, p, batch)[0]
    close(loss, -of_trees.sum() - logps[rows, batch.tags[rows]].sum())
    close(of_trees, span_parser.scores(CPU, config_of(), p, batch_of(0, 1, 2, 3))[0])


@pytest.mark.parametrize("n_tags", [0, 2])
def test_gradients_of_all_backends(backend: ModuleType, n_tags: int) -> None:
    config = config_of(n_layers=1, n_tags=n_tags)
    parameters, numbers = parameters_of(config), (0, 3)
    expected = span_parser.loss_and_grad(CPU, config, parameters, batch_of(*numbers, n_tags=n_tags))
    device_parameters = on_device(backend, parameters)
    batch = batch_of(*numbers, ops=backend, n_tags=n_tags)
    loss, gradients, _ = span_parser.loss_and_grad(backend, config, device_parameters, batch)
    close(loss, expected[0])
    for name, gradient in gradients.items():
        np.testing.assert_allclose(host(gradient), expected[1][name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_sentence_does_not_see_those_beside_it() -> None:
    config = config_of()
    parameters = parameters_of(config)
    together = span_parser.scores(CPU, config, parameters, batch_of(2, 0, 1, 3))[0]
    alone = [span_parser.scores(CPU, config, parameters, batch_of(b))[0][0] for b in (2, 0, 1, 3)]
    close(together, alone)


def test_no_sentences_no_loss() -> None:
    config = config_of()
    parameters, batch = parameters_of(config), batch_of()
    loss, gradients, _ = span_parser.loss_and_grad(CPU, config, parameters, batch)
    assert loss == 0.0 and not any(np.abs(g).max() for g in gradients.values())
    assert [len(x) for x in span_parser.scores(CPU, config, parameters, batch)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 9}, "d_model: 9, but it is odd; use 8 or 10"),
        ({"n_layers": 0}, "n_layers: 0, but the least whole number is 1"),
        ({"dropout": 1.0}, "dropout: 1.0, but a rate is at least 0 and below 1"),
        ({"vocabulary_size": 8}, "vocabulary_size: 8, but no id is left for words beside 3 labels; use 9 or more"),
    ],
)
def test_impossible_configurations(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_of(**changes)


def test_parameters_fill_their_shapes() -> None:
    config = config_of()
    parameters = span_parser.initialise(config, 0)
    assert {name: x.shape for name, x in parameters.items()} == span_parser.parameter_shapes(config)
    assert all(x.dtype == np.float32 for x in parameters.values()) and parameters["embedding"].shape == (9, 8)
    again = span_parser.initialise(config, 0)
    assert all((parameters[name] == again[name]).all() for name in parameters) and accel.load("cpu") is CPU
