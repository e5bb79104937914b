"""TG and TXL read actions one by one, for hypotheses that branch, wait and end; the oracle is teacher forcing."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.scoring.trees import event_logps
from accel.search.lists import taken
from accel.search.transformer_grammar_steps import no_actions
from accel.trained.opening import Model
from refimpl.trees import Tree
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.searched_models import model_of, steps_of
from tests.fixtures.toy_run import TREES, VOCABULARY
from tests.fixtures.transformer_grammar_models import CHANGES

LENGTHS = [(3, 5), (1, 1), (4, 0), (64, 16)]
CHOSEN = [TREES[i] for i in (3, 8, 17, 29)]


def events_of(model: Model, tree: Tree) -> list[int]:
    ids = VOCABULARY.encode(tree)
    if model.config.model != "txl_terminals":
        return ids
    return [*(i for i in ids if VOCABULARY.type_of[i] == 1), END_ID]


@pytest.mark.parametrize("variant", CHANGES)
@pytest.mark.parametrize(("length", "depth"), LENGTHS)
def test_steps_are_teacher_forcing(backend: ModuleType, variant: str, length: int, depth: int) -> None:
    """TG-6 for trees in one batch, over segments; common beginnings are read once, and finished trees are dropped."""
    model = model_of(**CHANGES[variant] | {"segment_length": length, "memory_length": depth})
    expected = list(event_logps(CPU, [model], encode_trees(CHOSEN, VOCABULARY)))
    texts = [tuple(events_of(model, tree)) for tree in CHOSEN]
    assert max(map(len, texts)) > length or length == 64
    steps, states, branches = steps_of(backend, model), no_actions(1), [()]
    for t in range(max(map(len, texts))):
        last = [actions[-1] if actions else START_ID for actions in branches]
        states, hidden = steps.read(states, np.array(last))
        logps, several = steps.logps(hidden), np.arange(2, 6) + np.arange(len(branches))[:, None]
        close(steps.logps_of(hidden, several), np.take_along_axis(host(logps), several, axis=1))
        for text, logps_of_tokens in zip(texts, expected, strict=True):
            if t < len(text):
                logp = float(logps[branches.index(text[:t]), text[t]])
                assert logp == pytest.approx(logps_of_tokens[t], rel=1e-9), (text, t)
        number = {actions: i for i, actions in enumerate(branches)}
        branches = sorted({text[: t + 1] for text in texts if len(text) > t + 1})
        states = steps.keep(taken(states, np.array([number[actions[:-1]] for actions in branches], int)))
    assert steps.size == 0


def test_keys_in_memory_are_few() -> None:
    """A TG stores the keys of its stack, however long the text; a TXL (CC) those of the memory and the segment."""
    for fields, most in (({"memory_length": 64}, 12), ({"model": "txl_cc"}, 14)):
        model = model_of(**fields)
        steps, state = steps_of(CPU, model), no_actions(1)
        for action in (START_ID, *VOCABULARY.encode(max(TREES, key=lambda tree: len(str(tree))))[:-1]):
            state, _ = steps.read(state, np.array([action]))
            state = steps.keep(state)
            assert steps.size <= most


def test_nothing_is_closed_that_is_not_open() -> None:
    steps = steps_of(CPU, model_of())
    closing = VOCABULARY.symbols.index(f"{VOCABULARY.labels[0]})")
    states, _ = steps.read(no_actions(1), np.array([START_ID]))
    with pytest.raises(ValueError, match="position 1: CNT1 closes no open non-terminal"):
        steps.read(states, np.array([closing]))
