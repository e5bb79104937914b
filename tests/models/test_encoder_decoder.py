"""The batched encoder-decoder: against the reference; gradients, ragged batches, one token at a time, ten steps."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.batches.sequence_pairs import PairBatch, assemble_pairs
from accel.models import passes
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.encoder_decoder.model import Config, Past
from refimpl import transformer as reference
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.encoder_decoder_models import (
    GATES,
    LENGTHS,
    SIZES,
    V,
    batch_of,
    checked_gradients,
    config_of,
    pairs_of,
    parameters_of,
    sentences_of,
)
from tests.fixtures.gradient_checks import check_steps
from tests.fixtures.right_labels import assert_right_labels


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("source_size", [0, V])
def test_batched_is_the_reference(backend: ModuleType, gate: str, source_size: int) -> None:
    """The log-probability of every label is the reference's for that pair alone."""
    config = config_of(gate, source_vocabulary_size=source_size)
    parameters, batch = parameters_of(config), batch_of(LENGTHS)
    arrays = [backend.xp.asarray(x) for x in vars(batch).values() if isinstance(x, np.ndarray)]
    device_parameters = on_device(backend, parameters)
    logp = encoder_decoder.scores(backend, config, device_parameters, PairBatch(*arrays, batch.n_labels))[0]
    expected = []
    for b in range(len(LENGTHS)):
        source = batch.source_ids[batch.source_offsets[b] : batch.source_offsets[b + 1]]
        target = slice(batch.target_offsets[b], batch.target_offsets[b + 1])
        encoded = reference.encode(parameters, source, config.n_heads)
        rows = reference.decode(parameters, encoded, batch.ids[target], config.n_heads)
        expected += [row[label] for row, label in zip(rows, batch.labels[target], strict=True)]
    np.testing.assert_allclose(host(logp), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("gate", GATES)
def test_classes_are_the_reference(gate: str) -> None:
    config = config_of(gate, n_classes=3)
    parameters, batch = parameters_of(config), sentences_of([3, 1, 5], 3)
    logp, right, _ = encoder_decoder.scores(CPU, config, parameters, batch)
    for b, label in enumerate(batch.labels):
        ids = batch.ids[batch.offsets[b] : batch.offsets[b + 1]]
        expected = reference.classify(parameters, ids, config.n_heads)
        np.testing.assert_allclose(logp[b], expected[label], rtol=1e-9)
        assert right[b] == (expected.argmax() == label)


@pytest.mark.parametrize("rows", [1, 4, 1000])
@pytest.mark.parametrize("n_classes", [0, 3])
def test_the_most_probable_labels_are_right(n_classes: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the number of rows that are judged at a time."""
    config = config_of("none", n_classes=n_classes)
    batch = sentences_of([3, 1, 5, 2, 4, 1, 2], 3) if n_classes else batch_of(LENGTHS)
    n = n_classes or config.vocabulary_size
    monkeypatch.setattr(passes, "LOGITS", rows * n)
    parameters = parameters_of(config)

    def scores(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return encoder_decoder.scores(CPU, config, parameters, replace(batch, labels=labels))[:2]

    assert_right_labels(scores, n, len(batch.labels))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("seed", [None, 4])
def test_gradients(gate: str, n_classes: int, seed: int | None) -> None:
    """The gradient along one direction agrees with differences to 1e-7, in float64.

    With a seed, dropout and label smoothing are on.
    """
    config = config_of(gate, n_classes=n_classes)
    batch = sentences_of([3, 1, 5], 3) if n_classes else batch_of(LENGTHS)
    step = 1e-6 if gate == "own" else 1e-5  # a ReLU of the six convolutions turns within the longer one
    gradients = checked_gradients(config, parameters_of(config), batch, seed, step)
    assert all(np.abs(g).max() > 0 for g in gradients.values())


def test_smoothed_labels() -> None:
    """The loss is the cross-entropy with 1 - s on the label, and s divided equally among the other tokens."""
    config = config_of("none", label_smoothing=0.3, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
    parameters, batch = parameters_of(config), batch_of([(3, 4)])
    encoded = reference.encode(parameters, batch.source_ids, config.n_heads)
    rows = reference.decode(parameters, encoded, batch.ids, config.n_heads)
    targets = np.full(rows.shape, 0.3 / (V - 1))
    targets[np.arange(len(rows)), batch.labels] = 0.7
    loss, _, _ = encoder_decoder.loss_and_grad(CPU, config, parameters, batch, dropout_seed=1)
    assert loss == pytest.approx(-(targets * rows).sum(), rel=1e-10)


@pytest.mark.parametrize("gate", GATES)
def test_ragged_is_one_by_one(gate: str) -> None:
    config = config_of(gate)
    parameters = parameters_of(config)
    together = encoder_decoder.scores(CPU, config, parameters, batch_of(LENGTHS))[0]
    singles = [assemble_pairs([pair], CPU) for pair in pairs_of(LENGTHS)]
    alone = [encoder_decoder.scores(CPU, config, parameters, single)[0] for single in singles]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-10)


@pytest.mark.parametrize("gate", GATES)
def test_one_token_at_a_time(gate: str) -> None:
    """ED-4 L3: continuing from the stored state gives the same values as reading all tokens again."""
    config = config_of(gate)
    parameters, draw = parameters_of(config), np.random.default_rng(1)
    sources = [draw.integers(3, V, n).astype(np.int32) for n in (3, 5)]
    ids, offsets = np.concatenate(sources), np.array([0, 3, 8])
    past = Past(*encoder_decoder.encode(CPU, config, parameters, ids, offsets))
    hypotheses = [[0, [2]], [1, [2]]]  # source and tokens of every hypothesis
    parents = np.zeros(2, np.int64)
    for step in range(5):
        owners = [source for source, _ in hypotheses]
        bounds = np.searchsorted(owners, np.arange(3)).astype(np.int64)
        last = np.array([tokens[-1] for _, tokens in hypotheses], np.int32)
        logp = encoder_decoder.continue_sequences(CPU, config, parameters, past, parents, last, bounds)
        for (source, tokens), row in zip(hypotheses, logp, strict=True):
            encoded = reference.encode(parameters, sources[source], config.n_heads)
            expected = reference.decode(parameters, encoded, np.array(tokens), config.n_heads)[-1]
            np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-11)
        parents = np.array([0, 0, 1] if step == 0 else [1, 2] if step == 1 else [0, 1])
        hypotheses = [[hypotheses[i][0], [*hypotheses[i][1], int(draw.integers(3, V))]] for i in parents]


@pytest.mark.parametrize("gate", GATES)
def test_ten_steps_side_by_side(gate: str) -> None:
    """The CPU backend has the losses of the reference, whose gradients are differences."""
    config = config_of(gate, d_model=4, d_ff=3, n_layers=1, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
    check_steps(encoder_decoder, config, parameters_of(config), batch_of([(2, 1)]))


def test_empty_batch() -> None:
    config = config_of("none")
    parameters, batch = parameters_of(config), assemble_pairs([], CPU)
    loss, gradients, _ = encoder_decoder.loss_and_grad(CPU, config, parameters, batch)
    assert loss == 0 and not any(g.any() for g in gradients.values())
    assert not len(encoder_decoder.scores(CPU, config, parameters, batch)[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gate": "open"}, "gate"),
        ({"n_heads": 3}, "d_model"),
        ({"chunk_size": 3}, "chunk_size: 3, but it does not divide d_model"),
        ({"dropout": 1.0}, "dropout"),
        ({"label_smoothing": -0.1}, "label_smoothing"),
        ({"n_classes": 2, "source_vocabulary_size": 5}, "source_vocabulary_size"),
        ({"d_ff": 0}, "d_ff"),
    ],
)
def test_configurations_that_cannot_be(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Config(V, **(SIZES | change))
