"""FastTrees' language model and classifier: against the reference, in chunks, one sentence alone, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.autodiff.tape import Array, Tape
from accel.autodiff.variables import constant
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.fasttrees.stack import KINDS
from refimpl.fasttrees import stack as exact
from refimpl.layers import cross_entropy
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gradient_checks import along, derivative, unit_direction
from tests.fixtures.toy_text import LENGTHS, PAIRS, SATURATED, TEXTS, VOCABULARY, parameters_of, toy

every_kind = pytest.mark.parametrize("kind", KINDS)
Named = dict[str, np.ndarray]


@every_kind
def test_a_language_model_is_the_reference_s(backend: ModuleType, kind: str) -> None:
    config = TEXTS[kind]
    p, batch = parameters_of(language_model, config), toy(backend, LENGTHS, 5)
    logp, _ = language_model.token_logps(backend, config, on_device(backend, p), batch)
    cells = {name: x * (0.55 if name.endswith("hh.weight") else 1.0) for name, x in p.items() if "cells" in name}
    ids, labels, offsets = (host(x) for x in (batch.ids, batch.labels, batch.offsets))
    distances = host(language_model.distances(backend, config, on_device(backend, p), batch.ids, batch.offsets))
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        h, _, far = exact.stack(kind, cells, p["embedding"][ids[start:stop]], chunk_size=2, dilation=2)
        expected = cross_entropy(h, p["embedding"], p["output_bias"], labels[start:stop])
        np.testing.assert_allclose(host(logp)[start:stop], expected, atol=1e-11, rtol=0)
        np.testing.assert_allclose(distances[:, start:stop], far, atol=1e-11, rtol=0)


@every_kind
def test_chunks_equal_the_whole_text(backend: ModuleType, kind: str) -> None:
    config = TEXTS[kind]
    p = on_device(backend, parameters_of(language_model, config))
    whole = toy(backend, [7, 7], 6)
    logp = host(language_model.token_logps(backend, config, p, whole)[0]).reshape(2, 7)
    of_chunks, state = [], None
    for start, stop in ((0, 1), (1, 4), (4, 7)):
        ids, labels = (x.reshape(2, 7)[:, start:stop].ravel() for x in (whole.ids, whole.labels))
        part = toy(backend, [stop - start] * 2, 0)._replace(ids=ids, labels=labels)
        logps, state = language_model.token_logps(backend, config, p, part, state)
        of_chunks.append(host(logps).reshape(2, -1))
    np.testing.assert_allclose(np.concatenate(of_chunks, axis=1), logp, atol=1e-11, rtol=0)


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "released"])
def test_a_batch_of_pairs_equals_each_pair_alone(backend: ModuleType, name: str) -> None:
    config = PAIRS[name]
    p, width = on_device(backend, parameters_of(sentence_classifier, config)), 1 + config.pair
    batch = toy(backend, LENGTHS, 7, width)
    logp, right, _ = sentence_classifier.scores(backend, config, p, batch)
    for i in range(batch.n_labels):
        sides = [i + side * batch.n_labels for side in range(width)]
        words = [batch.ids[int(batch.offsets[s]) : int(batch.offsets[s + 1])] for s in sides]
        alone = toy(backend, [len(w) for w in words], 0, width)
        alone = alone._replace(ids=backend.xp.concatenate(words), labels=batch.labels[i : i + 1])
        one, sure, _ = sentence_classifier.scores(backend, config, p, alone)
        assert float(one[0]) == pytest.approx(float(logp[i]), abs=1e-11) and bool(sure[0]) == bool(right[i])


def test_every_class_is_counted_right_where_it_is_the_most_probable(backend: ModuleType) -> None:
    config = PAIRS["fasttrees"]
    p, batch = on_device(backend, parameters_of(sentence_classifier, config)), toy(backend, LENGTHS, 8, 2)
    logps, hits = [], []
    for label in range(3):
        relabelled = batch._replace(labels=backend.xp.full_like(batch.labels, label))
        logp, right, _ = sentence_classifier.scores(backend, config, p, relabelled)
        logps.append(host(logp))
        hits.append(host(right))
    np.testing.assert_allclose(np.exp(logps).sum(axis=0), 1.0)
    assert (np.argmax(logps, axis=0) == np.argmax(hits, axis=0)).all() and (np.sum(hits, axis=0) == 1).all()


def assert_gradient(loss: Callable[[Named], float], parameters: Named, gradients: dict[str, Array]) -> None:
    for seed in (0, 1):
        direction = unit_direction(parameters, seed)
        expected = derivative(loss, parameters, direction, h=2e-4)
        assert along(direction, gradients) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("gates", [1.0, SATURATED])
@pytest.mark.parametrize("name", PAIRS)
def test_gradient_of_a_classifier(backend: ModuleType, name: str, gates: float) -> None:
    """All dropouts are on; gates are near 0 and 1 if their weights are multiplied by 20."""
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    config = PAIRS[name]
    p, batch = parameters_of(sentence_classifier, config, gates), toy(backend, LENGTHS, 9, 1 + config.pair)

    def loss(at: Named, seed: int = 2**63 + 1) -> Any:
        return sentence_classifier.loss_and_grad(backend, config, on_device(backend, at), batch, None, seed)

    value, gradients, _ = loss(p)
    assert value == loss(p)[0] and value != loss(p, 3)[0]
    assert_gradient(lambda at: loss(at)[0], p, gradients)


@pytest.mark.parametrize("gates", [1.0, SATURATED])
@every_kind
def test_gradient_of_a_language_model(backend: ModuleType, kind: str, gates: float) -> None:
    """It covers loss and penalties, with all dropouts, and with the state of the batch before as a constant."""
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    config = TEXTS[kind]
    p, first, second = parameters_of(language_model, config, gates), toy(backend, [3] * 3, 1), toy(backend, [5] * 3, 2)
    _, _, state = language_model.loss_and_grad(backend, config, on_device(backend, p), first, None, 5)

    def loss(at: Named) -> float:
        arguments = (backend, config, on_device(backend, at), second, state, 2**63 + 7)
        return language_model.loss_and_grad(*arguments)[0] + second.n_labels * language_model.penalty(*arguments)

    _, gradients, _ = language_model.loss_and_grad(backend, config, on_device(backend, p), second, state, 2**63 + 7)
    assert_gradient(loss, p, gradients)


def test_tables_without_a_gradient_are_constants(backend: ModuleType) -> None:
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    config = PAIRS["tables"]
    p, batch = on_device(backend, parameters_of(sentence_classifier, config)), toy(backend, LENGTHS, 9, 2)
    assert set(p) == {*sentence_classifier.parameter_shapes(config), "tables.0", "tables.1"}
    loss, expected, _ = sentence_classifier.loss_and_grad(backend, config, p, batch)
    learned = {name: backend.xp.full_like(p[name], 7.0) for name in sentence_classifier.parameter_shapes(config)}
    assert sentence_classifier.loss_and_grad(backend, config, p, batch, gradients=learned)[0] == loss
    assert all((host(learned[name]) == host(expected[name])).all() for name in learned) and len(learned) < len(expected)


def test_the_greatest_values_of_a_sentence(backend: ModuleType) -> None:
    tape, h = Tape(backend, recording=False), np.array([[1.0, 5], [3, 2], [3, 4], [-1, -2], [0, 9]])
    offsets = backend.xp.asarray(np.array([0, 3, 4, 5]))
    pooled = sentence_classifier._largest(tape, constant(backend.xp.asarray(h)), offsets)
    assert host(pooled.value).tolist() == [[3, 5], [-1, -2], [0, 9]]


def test_penalties_are_the_reference_s(backend: ModuleType) -> None:
    config = TEXTS["lstm"]
    p, batch = parameters_of(language_model, config), toy(backend, [4], 3)
    cells = {name: x * (0.55 if name.endswith("hh.weight") else 1.0) for name, x in p.items() if "cells" in name}
    h = exact.stack("lstm", cells, p["embedding"][host(batch.ids)])[0]
    expected = exact.activation_regularisation(h, 2.0) + exact.temporal_activation_regularisation(h, 1.0)
    assert language_model.penalty(backend, config, on_device(backend, p), batch) == pytest.approx(expected, rel=1e-12)
    one = toy(backend, [1, 1], 3)
    assert np.isfinite(language_model.penalty(backend, config, on_device(backend, p), one))


def test_penalties_do_not_cross_the_borders_of_columns(backend: ModuleType) -> None:
    """The penalties are means over all steps, and over changes between neighbouring steps of one column."""
    config = TEXTS["lstm"]
    p, batch = parameters_of(language_model, config), toy(backend, LENGTHS, 3)
    cells = {name: x * (0.55 if name.endswith("hh.weight") else 1.0) for name, x in p.items() if "cells" in name}
    columns = np.split(host(batch.ids), np.cumsum(LENGTHS)[:-1])
    outputs = [exact.stack("lstm", cells, p["embedding"][ids])[0] for ids in columns]
    changes = np.concatenate([h[1:] - h[:-1] for h in outputs])
    expected = config.alpha * np.mean(np.concatenate(outputs) ** 2) + config.beta * np.mean(changes**2)
    assert language_model.penalty(backend, config, on_device(backend, p), batch) == pytest.approx(expected, rel=1e-12)


@every_kind
def test_an_epoch_begins_with_an_empty_state(backend: ModuleType, kind: str) -> None:
    """With a fresh batch, the old state changes neither the loss, nor the gradient, nor the penalties."""
    config = TEXTS[kind]
    p, batch = on_device(backend, parameters_of(language_model, config)), toy(backend, LENGTHS, 5)
    state = language_model.token_logps(backend, config, p, batch)[1]
    fresh = batch._replace(fresh=True)
    results = [language_model.token_logps(backend, config, p, x, memory)[0] for x, memory in (
        (batch, None), (fresh, state), (batch, state)
    )]  # fmt: skip
    np.testing.assert_array_equal(host(results[0]), host(results[1]))
    assert not np.array_equal(host(results[0]), host(results[2]))
    penalties = [language_model.penalty(backend, config, p, x, state) for x in (fresh, batch)]
    assert penalties[0] == language_model.penalty(backend, config, p, batch) != penalties[1]
    if backend.name != "ref":
        gradients = [language_model.loss_and_grad(backend, config, p, batch, None)[1]]
        gradients.append(language_model.loss_and_grad(backend, config, p, fresh, state)[1])
        for name, gradient in gradients[0].items():
            np.testing.assert_array_equal(host(gradient), host(gradients[1][name]))


def test_nothing_to_read_costs_nothing(backend: ModuleType) -> None:
    """A process without rows of a batch has loss 0 and gradient 0."""
    for model, config, per_label in ((language_model, TEXTS["on_lstm"], 0), (sentence_classifier, PAIRS["lstm"], 2)):
        p, empty = on_device(backend, parameters_of(model, config)), toy(backend, [], 0, per_label)
        loss, gradients, _ = model.loss_and_grad(backend, config, p, empty)
        assert loss == 0.0 and not any(host(g).any() for g in gradients.values())
        score = getattr(model, "scores", language_model.token_logps)
        assert len(score(backend, config, p, empty)[0]) == 0


def test_a_state_of_other_sequences_is_refused(backend: ModuleType) -> None:
    config = TEXTS["fasttrees"]
    p = on_device(backend, parameters_of(language_model, config))
    _, state = language_model.token_logps(backend, config, p, toy(backend, [2, 2], 0))
    with pytest.raises(ValueError, match=r"^state: shapes \[.*\], but 3 sequences in this stack need \["):
        language_model.token_logps(backend, config, p, toy(backend, [2, 2, 2], 0), state)


def test_initial_parameters_are_within_their_limits() -> None:
    p = language_model.initialise(replace(TEXTS["conv_fasttrees"], vocabulary_size=500), 0)
    assert np.abs(p["embedding"]).max() == pytest.approx(0.1, rel=0.01) and not p["output_bias"].any()
    for name, fan_in in (("ih", 6), ("hh", 8), ("conv", 12)):
        for part in ("weight", "bias"):
            assert 0.6 * fan_in**-0.5 < np.abs(p[f"cells.0.{name}.{part}"]).max() <= fan_in**-0.5
    p = sentence_classifier.initialise(replace(PAIRS["released"], vocabulary_size=500), 0)
    assert np.abs(p["embedding"]).max() == pytest.approx(0.1, rel=0.01) and p["cells.0.conv.weight"].std() < 0.02
    assert list(p) == list(sentence_classifier.parameter_shapes(PAIRS["released"]))
    assert p["mlp.hidden.weight"].shape == (5, 32) and np.abs(p["mlp.hidden.bias"]).max() <= 32**-0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "gru"}, "kind: 'gru', but there is no such choice; use lstm, on_lstm, "),
        ({"chunk_size": 3}, "chunk_size: 3, but it does not divide 8, the size of layer 0; use 2"),
        ({"variant": "published"}, "variant: 'published', but there is no such choice; use paper or released"),
        (
            {"kind": "conv_fasttrees", "variant": "released", "chunk_size": 1},
            "needs 16 inputs, and layer 0 has 6; use paper",
        ),
        (
            {"kind": "conv_fasttrees", "convolved": "gates", "chunk_size": 2},
            "convolved: 'gates', but its convolution needs 8 inputs, and layer 0 has 6; use inputs, or a larger chunk",
        ),
        ({"hidden_size": 0}, "hidden_size: 0, but the least whole number is 1"),
        ({"vocabulary_size": 0}, "vocabulary_size: 0, but"),
        ({"weight_drop": 1.0}, "weight_drop: 1.0, but a rate is"),
        ({"input_dropout": -0.1}, "input_dropout: -0.1, but a rate is"),
        ({"alpha": -1.0}, "alpha: -1.0, but it must be at least 0 and finite"),
    ],
)
def test_contradictory_configurations_are_refused(change: dict[str, object], words: str) -> None:
    assert VOCABULARY == TEXTS["on_lstm"].vocabulary_size
    with pytest.raises(ValueError, match=words):
        replace(TEXTS["on_lstm"], **change)
