"""Classes and scores of contexts are predicted from the state before the last word; their loss joins the others."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host
from accel.data.batches.sentences import ContextsBatch, Example, SentenceBatches, encode_examples
from accel.models.gpst import model as gpst
from accel.models.gpst.config import parameter_shapes
from refimpl.gpst.generator import step_logps
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gpst_batches import LENGTHS, V, batch_of, config_of, parameters_of, reference_config, sentences_of
from tests.fixtures.gradient_checks import difference

CONTEXTS = (2, 5)
N_CLASSES = 3


def classes_of(ops: ModuleType = CPU) -> ContextsBatch:
    """Return three contexts, of 6, 10 and 3 words, and their classes."""
    batch, labels = batch_of(LENGTHS, CONTEXTS, ops), ops.xp.asarray(np.array([2, 0, 1], np.int32))
    return ContextsBatch(batch.ids, batch.offsets, batch.contexts, labels, 3)


@pytest.mark.parametrize("surrogate", [True, False])
def test_classes_are_the_reference_s(backend: ModuleType, surrogate: bool) -> None:
    """The reference has classes as extra words, and reads them directly from the state.

    The last sentence of a context has one word.
    """
    config = config_of(n_classes=N_CLASSES, surrogate=surrogate)
    parameters, lengths = parameters_of(config), [5, 1, 2, 7, 1]
    batch = batch_of(lengths, (2,), backend)
    labelled = ContextsBatch(batch.ids, batch.offsets, batch.contexts, backend.xp.asarray(np.array([1, 2], "i4")), 2)
    device_parameters = on_device(backend, parameters)
    d, parts = config.d_model, sentences_of(batch)
    plain = parameters | {"embedding": np.concatenate([parameters["embedding"], parameters["classes"]])}
    for name, shape, bias in (("in", (d, 4 * d), 50.0), ("out", (4 * d, d), -50.0)):  # GELU far from 0: the identity
        plain |= {f"word.{name}": np.eye(*shape), f"word.{name}_bias": np.full(shape[1], bias)}
    choices, contexts = reference_config(config), (parts[:1], parts[2:4])
    expected = [step_logps(choices, plain, (), context)[2][V:] for context in contexts]
    logps = np.array([x - np.logaddexp.reduce(x) for x in expected])
    of_labels, right, memory = gpst.scores(backend, config, device_parameters, labelled)
    close(of_labels, logps[[0, 1], [1, 2]])
    assert host(right).tolist() == (logps.argmax(axis=1) == [1, 2]).tolist() and memory == []
    close(gpst.losses(backend, config, device_parameters, labelled)["class"], -logps[[0, 1], [1, 2]].mean())


@pytest.mark.parametrize("model", ["gpst", "gpt2"])
def test_other_losses_do_not_change(backend: ModuleType, model: str) -> None:
    config, without = (config_of(model=model, n_classes=n) for n in (N_CLASSES, 0))
    parameters = parameters_of(config)
    device_parameters = on_device(backend, parameters)
    losses = gpst.losses(backend, config, device_parameters, classes_of(backend), 5)
    assert 0 < losses.pop("class") < 10
    shapes = parameter_shapes(without)
    assert set(device_parameters) - set(shapes) == {"classes"}
    batch = batch_of(LENGTHS, CONTEXTS, backend)
    assert losses == gpst.losses(backend, without, {name: device_parameters[name] for name in shapes}, batch, 5)
    logps = gpst.token_logps(backend, config, device_parameters, batch)[0]  # of a text without classes
    assert len(logps) == sum(LENGTHS)


@pytest.mark.parametrize(
    "changes", [{}, {"model": "gpt2"}, {"surrogate": False}, {"dropout": 0.2}, {"n_classes": 1}], ids=str
)
def test_gradients(changes: dict[str, object]) -> None:
    """The gradient of the whole loss, of classes or scores, agrees with differences to 1e-7, in float64."""
    config = config_of(**({"gradient_stop": False, "n_classes": N_CLASSES} | changes))
    parameters, batch = parameters_of(config), classes_of()
    draw = np.random.default_rng(1)
    along = {name: draw.standard_normal(x.shape) for name, x in parameters.items()}

    def total(there: dict[str, np.ndarray]) -> float:
        return gpst.loss_and_grad(CPU, config, there, batch, dropout_seed=4)[0]

    loss, gradients, _ = gpst.loss_and_grad(CPU, config, parameters, batch, dropout_seed=4)
    slope = sum((gradients[name] * along[name]).sum() for name in parameters)
    size = sum(abs(gradients[name] * along[name]).sum() for name in parameters)
    assert abs(slope - difference(parameters, along, total)) <= 1e-7 * size
    assert np.abs(gradients["classes"]).max() > 0
    if "dropout" not in changes:
        noise = accel.autodiff.layers.mix(4, 0)
        assert loss == pytest.approx(3 * sum(gpst.losses(CPU, config, parameters, batch, noise).values()))


def test_gradients_are_those_of_the_cpu(backend: ModuleType) -> None:
    config = config_of(n_classes=N_CLASSES)
    parameters = parameters_of(config)
    if backend.name == "ref":
        pytest.skip("the reference has no gradients but differences, of every number one")
    device_parameters = on_device(backend, parameters)
    loss, gradients, _ = gpst.loss_and_grad(backend, config, device_parameters, classes_of(backend), dropout_seed=1)
    expected = gpst.loss_and_grad(CPU, config, parameters, classes_of(), dropout_seed=1)
    close(loss, expected[0])
    for name, gradient in gradients.items():
        np.testing.assert_allclose(host(gradient), expected[1][name], rtol=1e-7, atol=1e-9, err_msg=name)


def test_the_stop_holds_for_classes() -> None:
    """Only without the gradient stop does the loss of classes reach the parameters that score splits."""
    largest = {}
    for stop in (True, False):
        with_classes, without = (config_of(gradient_stop=stop, n_classes=n) for n in (N_CLASSES, 0))
        parameters = parameters_of(with_classes)
        shapes = parameter_shapes(without)
        batch, plain = classes_of(), batch_of(LENGTHS, CONTEXTS)
        _, one, _ = gpst.loss_and_grad(CPU, with_classes, parameters, batch)
        _, other, _ = gpst.loss_and_grad(CPU, without, {name: parameters[name] for name in shapes}, plain)
        scoring = [name for name in shapes if name.startswith("composition.inside.")]
        differ = [np.abs(one[name] / 3 - other[name] / sum(LENGTHS)).max() for name in scoring]
        largest[stop] = max(differ)
        assert np.abs(one["composition.compose.0.role"] / 3 - other["composition.compose.0.role"] / 19).max() > 1e-6
        for name in shapes:  # the parser has its own loss only
            if name.startswith("parser."):
                np.testing.assert_allclose(one[name] / 3, other[name] / 19, atol=1e-14)
    assert largest[True] < 1e-15 and largest[False] > 1e-6


def test_batches_of_sentences_and_pairs() -> None:
    sets = {
        1: [Example("no", (["a", "b"],), 1), Example("yes", (["c"],), 2)],
        2: [Example("yes", (["a"], ["b", "c"]), 1), Example("no", (["c"], ["a"]), 2)],
    }
    ids = {"a": 5, "b": 6, "c": 7}
    batch_by_width = {}
    for width, examples in sets.items():
        encoded = encode_examples("file", examples, lambda words: [ids[word] for word in words], ("no", "yes"), width)
        (batch_by_width[width],) = SentenceBatches(encoded, 4, ops=CPU, in_contexts=True)
    one, pair = batch_by_width[1], batch_by_width[2]
    assert one.ids.tolist() == [5, 6, 1, 0, 7, 1, 0] and one.offsets.tolist() == [0, 2, 3, 4, 5, 6, 7]
    assert one.contexts.tolist() == [0, 3, 6] and one.labels.tolist() == [0, 1] and one.n_labels == 2
    assert pair.ids.tolist() == [5, 0, 6, 7, 1, 0, 7, 0, 5, 1, 0] and pair.contexts.tolist() == [0, 5, 10]
    assert pair.offsets.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11] and pair.labels.tolist() == [1, 0]
    none = next(SentenceBatches(encoded, 1, ops=CPU, rank=1, ranks=2, in_contexts=True))
    assert len(none.ids) == none.n_labels == 0 and none.contexts.tolist() == [0]
    config = config_of(n_classes=2)
    loss, gradients, _ = gpst.loss_and_grad(CPU, config, parameters_of(config), none)
    assert loss == 0 and not any(g.any() for g in gradients.values())
    assert [len(x) for x in gpst.scores(CPU, config, parameters_of(config), none)[:2]] == [0, 0]


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="n_classes: -1, but the least whole number is 0"):
        config_of(n_classes=-1)
    config, batch = config_of(n_classes=2), batch_of([2, 1], (1, 1))
    labelled = ContextsBatch(batch.ids, batch.offsets, batch.contexts, np.array([0, 1, 0], np.int32), 3)
    with pytest.raises(ValueError, match="contexts: number 1 is empty, and has no class"):
        gpst.scores(CPU, config, parameters_of(config), labelled)


@pytest.mark.parametrize("model", ["gpst", "gpt2"])
def test_one_class_is_a_score(backend: ModuleType, model: str) -> None:
    """The loss is the mean squared error, and no answer counts as right.

    With several classes an answer is right if its logit is the largest.
    """
    config = config_of(model=model, n_classes=1)
    parameters, plain = parameters_of(config), classes_of(backend)
    device_parameters, scores = on_device(backend, parameters), np.array([2.0, 0.5, -1.0], np.float32)
    batch = ContextsBatch(plain.ids, plain.offsets, plain.contexts, backend.xp.asarray(scores), 3)
    answers = host(gpst.class_logits(backend, config, device_parameters, batch))
    assert answers.shape == (3, 1) and len(set(answers[:, 0].tolist())) == 3
    squares, right, _ = gpst.scores(backend, config, device_parameters, batch)
    close(squares, -((answers[:, 0] - scores) ** 2))
    assert not host(right).any()
    close(gpst.losses(backend, config, device_parameters, batch)["class"], np.mean((answers[:, 0] - scores) ** 2))
    of_classes = config_of(model=model, n_classes=N_CLASSES)
    device_parameters = on_device(backend, parameters_of(of_classes))
    best = host(gpst.class_logits(backend, of_classes, device_parameters, plain)).argmax(axis=1)
    assert (
        host(gpst.scores(backend, of_classes, device_parameters, plain)[1]).tolist()
        == (best == host(plain.labels)).tolist()
    )
