"""Attention weights to draw: a Transformer Grammar's obey its rules, an encoder-decoder's are the reference's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host
from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.drawing.attention import attention_weights, cross_attention
from accel.models.transformer_grammars import model as transformer_grammar
from accel.trained.opening import Model
from refimpl import attention as reference
from refimpl import transformer
from refimpl.transformer_grammars.stack_compose import attention_mask
from refimpl.treeformer import model as treeformer
from tests.fixtures.device_parameters import model_on
from tests.fixtures.toy_run import SURE, TREES
from tests.fixtures.toy_run import VOCABULARY as TOY_VOCABULARY
from tests.fixtures.treeformer_runs import model_of


def test_cross_attention_is_the_reference(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are means over targets, heads and layers of the reference, which reads the whole target at once."""
    model, source, target = model_of(), [2, 5, 3, 4], [4, 2, 2]
    means: list[np.ndarray] = []
    attention = reference.dot_product_attention

    def noting(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False, keep: Any = None) -> Any:
        if not causal:
            scores = np.exp(np.einsum("ihd,jhd->ihj", q, k) / q.shape[2] ** 0.5)
            means.append((scores / scores.sum(axis=2, keepdims=True)).mean(axis=(0, 1)))
        return attention(q, k, v, causal, keep)

    memory = treeformer.encode(model.parameters, np.array([*source, END_ID]), 2, 3)
    with monkeypatch.context() as patched:
        patched.setattr(reference, "dot_product_attention", noting)
        transformer.decode(model.parameters, memory, np.array([START_ID, *target]), 2)
    assert len(means) == 2
    weights = host(cross_attention(backend, model_on(backend, model), source, target))
    np.testing.assert_allclose(weights, np.mean(means, axis=0), rtol=1e-9)
    assert weights.shape == (5 + 4 + 3,) and weights.sum() == pytest.approx(1)


VARIANTS = {
    "tg": SURE,
    "shifted": replace(SURE, memory="shift", positions="linear"),
    "distinct": replace(SURE, distinct_attention=True),
    "heads": replace(SURE, unrestricted_heads=1),
    "layers": replace(SURE, unrestricted_layers=1),
    "txl_cc": replace(SURE, model="txl_cc"),
    "txl_terminals": replace(SURE, model="txl_terminals"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_weights(variant: str) -> None:
    ops, config = accel.load("cpu"), VARIANTS[variant]
    parameters = transformer_grammar.initialise(config, 0)
    attention = attention_weights(ops, Model(Path(), config, parameters, TOY_VOCABULARY, Reading()), TREES[5])
    n = len(attention.tokens)
    assert attention.weights.shape == (config.n_layers, config.n_heads, n, n)
    np.testing.assert_allclose(attention.weights.sum(-1), 1.0, rtol=1e-5)
    causal = np.tri(n, dtype=bool)
    rules = attention_mask(attention.types) if config.model == "tg" else causal
    for layer, of_heads in enumerate(attention.weights):
        restricted = config.restricted_heads(layer)
        for head, weights in enumerate(of_heads):
            np.testing.assert_array_equal(weights > 0, rules if head < restricted else causal)
