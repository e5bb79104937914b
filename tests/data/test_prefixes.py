"""Trees that share the rows of a common prefix have the same log-probabilities as alone."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.batches.prefixes import read_prefixes
from accel.models.transformer_grammars import model as fast
from accel.scoring import trees as score
from accel.trained.ensembles import ENSEMBLES
from tests.fixtures.proposed_trees import CORPUS, GROUPS, TREES_OF, VOCABULARY, model_of


@pytest.mark.parametrize("config", TREES_OF.values(), ids=TREES_OF)
def test_shared_rows_change_no_log_probability(backend: ModuleType, config: fast.Config) -> None:
    """All sentences are in one batch, or batches end within sentences; `cpu` is tested with several sizes of memory."""
    sizes = ((7, 5, 8192), (7, 5, 1), (3, 9, 1), (200, 4, 1), (4, 0, 1))
    for length, memory, n_actions in sizes if backend.name == "cpu" else ((7, 5, 1),):
        model = model_of(backend, replace(config, segment_length=length, memory_length=memory))
        logps_of, n_batches = {}, 0
        for batch in read_prefixes(CORPUS, VOCABULARY, model.config, backend, GROUPS, n_actions=n_actions):
            logps = host(fast.prefix_logps(backend, model.config, model.parameters, batch))
            parts = np.split(logps[batch.action_of], batch.offsets[1:-1])
            logps_of |= zip(batch.trees.tolist(), parts, strict=True)
            n_batches += 1
        assert sorted(logps_of) == list(range(len(CORPUS))) and (n_batches > 1) == (n_actions == 1)
        for tree, events in enumerate(score.event_logps(backend, [model], CORPUS)):
            np.testing.assert_allclose(logps_of[tree], events, rtol=0, atol=1e-10)


def test_every_prefix_is_one_row(backend: ModuleType) -> None:
    config = model_of(backend, TREES_OF["txl_cc"]).config
    [batch] = read_prefixes(CORPUS, VOCABULARY, config, backend, GROUPS)
    sentence = np.repeat(np.arange(len(GROUPS)), GROUPS)
    whole = [CORPUS[tree].tolist() for tree in range(len(CORPUS))]
    followed = {(s, *ids[:n]) for s, ids in zip(sentence.tolist(), whole, strict=True) for n in range(len(ids))}
    actions = {(s, *ids[:n]) for s, ids in zip(sentence.tolist(), whole, strict=True) for n in range(1, len(ids) + 1)}
    assert len(batch.ids) == len(followed) < sum(map(len, whole))
    assert len(batch.labels) == len(actions) == 1 + batch.action_of.max()


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_ensembles_of_proposals(backend: ModuleType, ensemble: str) -> None:
    models = [model_of(backend, TREES_OF[name], seed) for seed, name in enumerate(("tg", "txl_cc", "heads"))]
    alone = list(score.tree_logps(backend, models, CORPUS, ensemble=ensemble))
    logps = list(score.tree_logps(backend, models, CORPUS, ensemble=ensemble, groups=GROUPS, batch_size=1))
    np.testing.assert_allclose(logps, alone, rtol=1e-10)


def test_groups_must_fill_the_corpus(backend: ModuleType) -> None:
    model = model_of(backend, TREES_OF["tg"])
    with pytest.raises(ValueError, match=r"^groups of 3 trees, but the corpus has [0-9]+$"):
        list(score.event_logps(backend, [model], CORPUS, groups=[2, 1]))
