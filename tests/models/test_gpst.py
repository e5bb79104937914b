"""The batched GPST against the reference: losses, words, several sentences, pieces of a word, GPT-2."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.models import passes
from accel.models.gpst import model as gpst
from refimpl import layers
from refimpl.attention import multi_head_attention
from refimpl.checks import part
from refimpl.gpst import inside_outside
from refimpl.gpst import losses as reference
from refimpl.gpst.parser import split_scores
from refimpl.gpst.pruned_chart import merge_order, pruned_chart
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gpst_batches import (
    ATOMS,
    LENGTHS,
    VARIANTS,
    V,
    batch_of,
    batch_with,
    config_of,
    in_pieces,
    parameters_of,
    reference_config,
    sentences_of,
)
from tests.fixtures.gpst_models import composition_parameters
from tests.fixtures.right_labels import assert_right_labels


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", [None, 3])
def test_losses_are_the_reference(backend: ModuleType, changes: dict[str, Any], seed: int | None) -> None:
    config = config_of(**changes)
    parameters, batch = parameters_of(config), in_pieces(batch_of(LENGTHS, ops=backend), backend)
    device_parameters, atoms = on_device(backend, parameters), ATOMS if config.whole_words else None
    losses = gpst.losses(backend, config, device_parameters, batch, seed)
    expected = reference.losses(reference_config(config), parameters, sentences_of(batch), seed, atoms=atoms)
    close([losses[name] for name in ("ae", "height", "parser", "ar")],
          [expected.ae, expected.height, expected.parser, expected.ar])  # fmt: skip
    if seed is None:
        words = batch.begins_word if config.whole_words else None
        spans, bounds, _ = gpst.induced_trees(backend, config, device_parameters, batch.ids, batch.offsets, words)
        trees = [list(map(tuple, spans[a:b].tolist())) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        assert trees == [inside_outside.post_order(tree) for tree in expected.trees]
        for function in (gpst.token_logps, gpst.scores):
            logp = host(function(backend, config, device_parameters, batch)[0])
            assert logp.shape == (sum(LENGTHS),)
            close(-logp.sum() / (2 * sum(LENGTHS) - len(LENGTHS)), expected.ar)


def test_losses_of_several_contexts() -> None:
    """Numerators and denominators add up; no context depends on another one, or on an empty one."""
    config = config_of()
    parameters = parameters_of(config)
    batch, bounds = batch_of(LENGTHS, (2, 2, 3)), [0, 2, 2, 3, len(LENGTHS)]
    losses, parts = gpst.losses(CPU, config, parameters, batch), sentences_of(batch)
    contexts = [parts[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True) if a < b]
    each = [reference.losses(reference_config(config), parameters, context) for context in contexts]
    actions = np.array([sum(2 * len(ids) - 1 for ids in context) for context in contexts])
    words = np.array([sum(map(len, context)) for context in contexts])
    close(losses["ar"], sum(actions * [x.ar for x in each]) / actions.sum())
    close(losses["ae"], sum(words * [x.ae for x in each]) / words.sum())
    together, _ = gpst.token_logps(CPU, config, parameters, batch)
    alone = []
    for context in contexts:
        one = batch_with(np.concatenate(context), [len(ids) for ids in context])
        alone.append(gpst.token_logps(CPU, config, parameters, one)[0])
    close(together, np.concatenate(alone))


def test_the_most_probable_words() -> None:
    """A word is right in `scores` if no other choice has a higher log-probability in `token_logps`."""
    config = config_of()
    parameters, batch = parameters_of(config), batch_of([1, 1, 1, 1], (1, 2, 3))
    _, right, _ = gpst.scores(CPU, config, parameters, batch)
    per_word = []
    for word in range(V):
        other = batch_with(np.full(4, word, np.int32), [1, 1, 1, 1], (1, 2, 3))
        per_word.append(gpst.token_logps(CPU, config, parameters, other)[0])
    assert right.tolist() == (np.argmax(per_word, axis=0) == batch.ids).tolist()
    np.testing.assert_allclose(np.exp(per_word).sum(axis=0), np.exp(per_word).sum(axis=0)[0])


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_the_most_probable_words_are_right(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the number of rows that are judged at a time."""
    config, n = config_of(), 9
    monkeypatch.setattr(passes, "LOGITS", rows * V)
    parameters, first = parameters_of(config), np.arange(n, dtype=np.int32)

    def scores(second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        batch = batch_with(np.stack([first, second], axis=1).ravel(), [2] * n, tuple(range(1, n)))
        logp, right, _ = gpst.scores(CPU, config, parameters, batch)
        return logp[1::2], right[1::2]

    assert_right_labels(scores, V, n)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1]])
@pytest.mark.parametrize("model", ["gpst", "gpt2"])
def test_one_word_sentences_only(lengths: list[int], model: str, backend: ModuleType) -> None:
    """Nothing is NaN: the losses of parser and height are 0, the others equal the reference's."""
    config = config_of(model=model, height_threshold=0.0)
    parameters, batch = parameters_of(config), batch_of(lengths, ops=backend)
    device_parameters = on_device(backend, parameters)
    if model == "gpst":
        losses = gpst.losses(backend, config, device_parameters, batch)
        expected = reference.losses(reference_config(config), parameters, sentences_of(batch))
        close([losses["ae"], losses["ar"]], [expected.ae, expected.ar])
        assert losses["parser"] == losses["height"] == 0.0
    if backend.name != "ref":
        loss, gradients, _ = gpst.loss_and_grad(backend, config, device_parameters, batch, dropout_seed=1)
        assert np.isfinite(loss) and all(np.isfinite(host(g)).all() for g in gradients.values())


def test_a_sentence_does_not_depend_on_its_batch() -> None:
    config = config_of()
    parameters, batch = parameters_of(config), batch_of(LENGTHS, tuple(range(1, len(LENGTHS))))
    together, _ = gpst.token_logps(CPU, config, parameters, batch)
    spans, bounds, _ = gpst.induced_trees(CPU, config, parameters, batch.ids, batch.offsets)
    for b, ids in enumerate(sentences_of(batch)):
        one = batch_with(ids, [len(ids)])
        alone, _ = gpst.token_logps(CPU, config, parameters, one)
        np.testing.assert_allclose(together[batch.offsets[b] : batch.offsets[b + 1]], alone, rtol=1e-10)
        spans_alone, *_ = gpst.induced_trees(CPU, config, parameters, one.ids, one.offsets)
        np.testing.assert_array_equal(spans[bounds[b] : bounds[b + 1]], spans_alone)


@pytest.mark.parametrize("window", [1, 2, 9])
def test_pieces_of_a_word_are_a_constituent(backend: ModuleType, window: int) -> None:
    config, atoms = config_of(window=window), ATOMS
    parameters, batch = parameters_of(config), in_pieces(batch_of(LENGTHS, ops=backend), backend)
    device_parameters = on_device(backend, parameters)
    spans, bounds, vectors = gpst.induced_trees(
        backend, config, device_parameters, batch.ids, batch.offsets, batch.begins_word
    )
    for b, ids in enumerate(sentences_of(batch)):
        order = merge_order(split_scores(reference_config(config), parameters, ids), atoms[b])
        chart = pruned_chart(order, len(ids), window)
        leaves = layers.linear(parameters["embedding"][ids], parameters["down"], parameters["down_bias"])
        inside_pass = inside_outside.inside(leaves, chart, composition_parameters(parameters), config.compose_heads)
        tree = inside_outside.induced_tree(chart, inside_pass.scores, atoms[b])
        assert list(map(tuple, spans[bounds[b] : bounds[b + 1]].tolist())) == inside_outside.post_order(tree)
        assert set(atoms[b]) <= set(inside_outside.post_order(tree))
        close(
            host(vectors[bounds[b] : bounds[b + 1]]),
            [inside_pass.vectors[node] for node in inside_outside.post_order(tree)],
        )


def test_gpt2_is_blocks_over_words() -> None:
    """GPT-2 reads words after a start symbol, has LayerNorm before each sublayer, and its output layer is E."""
    config = config_of(model="gpt2")
    p, batch, expected = parameters_of(config), batch_of(LENGTHS, (2,)), []
    for context in (sentences_of(batch)[:2], sentences_of(batch)[2:]):
        ids = np.concatenate(context)
        x = np.concatenate([p["bos"][None], p["embedding"][ids[:-1]]]) + p["position"][: len(ids)]
        for block in (f"token.{k}" for k in range(3)):
            h = layers.layer_norm(x, p[f"{block}.attention_norm.scale"], p[f"{block}.attention_norm.bias"])
            x = x + multi_head_attention(h, h, h, part(p, f"{block}.attention"), config.n_heads, causal=True)
            h = layers.layer_norm(x, p[f"{block}.feed_forward_norm.scale"], p[f"{block}.feed_forward_norm.bias"])
            x = x + layers.mlp(h, p, f"{block}.feed_forward", layers.gelu)
        h = layers.layer_norm(x, p["token_norm.scale"], p["token_norm.bias"])
        expected.append(layers.cross_entropy(h, p["embedding"], np.zeros(V), ids))
    close(gpst.token_logps(CPU, config, p, batch)[0], np.concatenate(expected))
    assert set(gpst.losses(CPU, config, p, batch)) == {"ar"}


@pytest.mark.parametrize(
    ("lengths", "contexts", "words"),
    [([3, 0, 2], (), "sentence 1 is empty"), ([20, 21], (), "41 words.*40 positions"), ([3, 2], (4,), "contexts")],
)
def test_bad_batches(lengths: list[int], contexts: tuple[int, ...], words: str) -> None:
    config = config_of()
    with pytest.raises(ValueError, match=words):
        gpst.loss_and_grad(CPU, config, parameters_of(config), batch_of(lengths, contexts))


def test_an_empty_batch_costs_nothing() -> None:
    config = config_of()
    loss, gradients, _ = gpst.loss_and_grad(CPU, config, parameters_of(config), batch_of([]))
    assert loss == 0.0 and all(not g.any() for g in gradients.values())
    assert gpst.token_logps(CPU, config, parameters_of(config), batch_of([]))[0].shape == (0,)
