"""Ensembles of TG and TXL one action after another, against the log-probabilities of whole trees and the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.vocabulary import START_ID, Vocabulary
from accel.scoring.surprisals import bits_of_tokens, bits_of_words, check_others
from accel.scoring.trees import event_logps
from accel.search.ensemble_steps import EnsembleSteps
from accel.search.pools import Limits
from accel.search.word_level import surprisals, word_level_search
from accel.trained.opening import Model
from refimpl import word_level_search as reference
from refimpl.transformer_grammars.marginal import mixture_logp, product_logp
from refimpl.trees import ActionType
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.searched_models import model_of, reference_limits, reference_model
from tests.fixtures.toy_run import TREES, VOCABULARY

REFERENCE = {"mixture": mixture_logp, "product": product_logp}


def members() -> list[Model]:
    """Return two TGs and a TXL (CC), with different segment and memory lengths."""
    models = [model_of(), model_of(segment_length=5, memory_length=4), model_of(model="txl_cc")]
    models[1].parameters["embedding"] += 0.3 * np.random.default_rng(1).standard_normal(
        models[1].parameters["embedding"].shape
    )
    return models


@pytest.mark.parametrize("ensemble", ["mixture", "product"])
def test_steps_are_the_events_of_trees(backend: ModuleType, ensemble: str) -> None:
    """Log-probabilities step by step are those of the whole tree, and the reference's ensemble of the members."""
    models, tree = members(), TREES[8]
    [expected] = event_logps(CPU, models, encode_trees([tree], VOCABULARY), ensemble=ensemble)
    copies = [replace(model, parameters=on_device(backend, model.parameters)) for model in models]
    steps, alone = EnsembleSteps(backend, copies, ensemble), [EnsembleSteps(backend, [model]) for model in copies]
    states, states_alone = steps.begin(1), [one.begin(1) for one in alone]
    for last, action, logp in zip(
        [START_ID, *VOCABULARY.encode(tree)], VOCABULARY.encode(tree), expected, strict=False
    ):
        states, hidden = steps.read(states, np.array([last]))
        logps = host(steps.logps(hidden))
        np.testing.assert_allclose(steps.logps_of(hidden, np.array([[action, 0]])), logps[:, [action, 0]], rtol=1e-12)
        of_members = []
        for k, one in enumerate(alone):
            states_alone[k], hidden_alone = one.read(states_alone[k], np.array([last]))
            of_members.append(host(one.logps(hidden_alone)))
        np.testing.assert_allclose(logps, REFERENCE[ensemble](np.stack(of_members)), rtol=1e-10, atol=1e-10)
        assert logps[0, action] == pytest.approx(logp, rel=1e-7)
        states = steps.keep(states)
    assert steps.size > 0 and steps.keep(steps.begin(0)) and steps.size == 0


@pytest.mark.parametrize("ensemble", ["mixture", "product"])
def test_a_search_is_the_reference_with_an_ensemble(ensemble: str) -> None:
    models = members()
    logps = [reference_model(model) for model in models]

    def together(actions: Sequence[str]) -> np.ndarray:
        return REFERENCE[ensemble](np.stack([one(actions) for one in logps]))

    limits = Limits(6, 3, 1, max_open=3, max_opens=2)
    tokens = [i for i in VOCABULARY.encode(TREES[8]) if VOCABULARY.type_of[i] == ActionType.T]
    words = [VOCABULARY.symbols[i] for i in tokens]
    model = reference.tree_actions(together, VOCABULARY.symbols, reference_limits(limits), words)
    expected = reference.surprisals(model, reference_limits(limits), len(words))
    bits = next(surprisals(CPU, models[0], [tokens], limits, others=models[1:], ensemble=ensemble))
    assert bits == pytest.approx(expected, rel=1e-8)


def test_models_that_make_no_ensemble_are_named() -> None:
    tg, words = model_of(), model_of(model="txl_terminals")
    with pytest.raises(ValueError, match="a txl_terminals and a tg make no ensemble"):
        list(bits_of_words(CPU, tg, [["the"]], others=[words]))
    other = replace(tg, path=Path("other"), vocabulary=Vocabulary("words", ("the",), VOCABULARY.labels))
    for wrong, reason in ((words, "a txl_terminals and a tg make no"), (other, "^other: its vocabulary differs")):
        with pytest.raises(ValueError, match=reason):
            word_level_search(CPU, tg, [[2]], Limits(3), others=[wrong])
    with pytest.raises(ValueError, match="^unknown ensemble 'mixtur': choose one of mixture, product"):
        word_level_search(CPU, tg, [[2]], Limits(3), others=[tg], ensemble="mixtur")
    for bits in (bits_of_words, bits_of_tokens):
        with pytest.raises(ValueError, match="^unknown ensemble 'mixtur': choose one of mixture, product"):
            list(bits(CPU, tg, [["the"]], ensemble="mixtur"))
        with pytest.raises(ValueError, match="^other: its vocabulary differs from that of run"):
            list(bits(CPU, tg, [["the"]], others=[other]))
    check_others(tg, [], "mixture")
    check_others(tg, [model_of(model="txl_cc")], "product")
