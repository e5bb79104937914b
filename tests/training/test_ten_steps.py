"""Ten optimizer steps with the losses of every backend side by side: tests of single operations miss the glue."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import named_views
from accel.data.batches.trees import Batches
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.building import build
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.fasttrees.stack import KINDS
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import optimizer
from accel.training.settings import TrainingConfig
from accel.verify.strategies import make_tree
from tests.fixtures.toy_text import toy

TREES = [make_tree(shape, 2, seed) for seed, shape in enumerate(("random", "chain", "flat", "left"))]
VOCABULARY = build(TREES)
CORPUS = encode_trees(TREES, VOCABULARY)
RATE = 1e-2


def losses(ops: ModuleType, model: str) -> list[float]:
    """Return the loss per label before each of ten updates, in float64."""
    config = transformer_grammar.Config(
        model=model, vocabulary_size=len(VOCABULARY), d_model=4, d_ff=3, n_layers=1, n_heads=2, segment_length=6,
        memory_length=4, embedding_dropout=0.1, core_dropout=0.2, output_dropout=0.1,
    )  # fmt: skip
    shapes = transformer_grammar.parameter_shapes(config)
    initial = transformer_grammar.initialise(config, 3)
    vector = ops.xp.asarray(np.concatenate([initial[name].ravel() for name in shapes]).astype(np.float64))
    gradient = ops.xp.zeros_like(vector)
    parameters, gradients = named_views(vector, shapes), named_views(gradient, shapes)
    state, memory, per_word = optimizer.start(ops, TrainingConfig(), vector), None, []
    with Batches(CORPUS, VOCABULARY, config, 1, ops=ops, seed=5, epochs=None, prefetch=0) as batches:
        for step, batch in zip(range(10), batches, strict=False):
            loss, _, memory = transformer_grammar.loss_and_grad(
                ops, config, parameters, batch, memory, dropout_seed=step, gradients=gradients
            )
            per_word.append(loss / max(batch.n_labels, 1))
            optimizer.update(ops, state, vector, gradient, RATE, 1 / max(batch.n_labels, 1))
    return per_word


@cache
def oracle_losses(model: str) -> list[float]:
    return losses(accel.load("ref"), model)


@pytest.mark.parametrize("model", ["tg", "txl_cc", "txl_terminals"])
def test_ten_steps(backend: ModuleType, model: str) -> None:
    expected = oracle_losses(model)
    assert len(set(expected)) == 10 and min(expected[5:]) < max(expected[:2])
    assert losses(backend, model) == pytest.approx(expected, rel=1e-7)


def stack_losses(ops: ModuleType, kind: str, pairs: bool) -> list[float]:
    """Return the losses of a FastTrees stack in the same way: of sentence pairs with Adam, or of a text with SGD."""
    common = {"kind": kind, "embedding_size": 4 if pairs else 2, "hidden_size": 2, "n_layers": 1, "chunk_size": 1}
    if pairs:
        model, settings = sentence_classifier, TrainingConfig(weight_decay=1e-3)
        config = sentence_classifier.Config(9, 3, pair=True, mlp_size=3, **common)
    else:
        model, settings, config = language_model, TrainingConfig(optimizer="sgd"), language_model.Config(9, **common)
    shapes, initial = model.parameter_shapes(config), model.initialise(config, 3)
    vector = ops.xp.asarray(np.concatenate([initial[name].ravel() for name in shapes]).astype(np.float64))
    gradient = ops.xp.zeros_like(vector)
    parameters, gradients = named_views(vector, shapes), named_views(gradient, shapes)
    state, memory, per_word = optimizer.start(ops, settings, vector), None, []
    for step in range(10):
        batch = toy(ops, [2, 1, 1, 2] if pairs else [2, 2], step % 3, 2 * pairs)
        loss, _, memory = model.loss_and_grad(
            ops, config, parameters, batch, memory, dropout_seed=step, gradients=gradients
        )
        per_word.append(loss / batch.n_labels)
        optimizer.update(ops, state, vector, gradient, RATE if pairs else 1.0, 1 / batch.n_labels)
    return per_word


@cache
def oracle_stack_losses(kind: str, pairs: bool) -> list[float]:
    return stack_losses(accel.load("ref"), kind, pairs)


@pytest.mark.parametrize(
    ("kind", "pairs"), [*((kind, True) for kind in KINDS), ("on_lstm", False), ("faster_fasttrees", False)]
)
def test_ten_steps_of_a_stack(backend: ModuleType, kind: str, pairs: bool) -> None:
    if backend.name == "ref":
        pytest.skip("the reference is what the others are compared with")
    expected = oracle_stack_losses(kind, pairs)
    assert len(set(expected)) == 10 and min(expected[5:]) < max(expected[:2])
    assert stack_losses(backend, kind, pairs) == pytest.approx(expected, rel=1e-7)
