"""The batched Transformer Grammar against the reference: all variants, ragged batches, memory, gradients."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from math import prod
from types import ModuleType

import numpy as np
import pytest

from accel import cpu
from accel.autodiff.arrays import host
from accel.data.batches.trees import Batches
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.models.transformer_grammars import model as fast
from accel.tasks.trees import CONFIGURATIONS
from refimpl.transformer_grammars import model as exact
from refimpl.trees import ActionType, actions, words
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gradient_checks import Named, along, derivative, unit_direction
from tests.fixtures.transformer_grammar_models import BASE, CORPUS, TREES, VARIANTS, VOCABULARY, parameters_of

WHOLE = 40  # no tree is longer
variants = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


def batches_of(ops: ModuleType, config: fast.Config) -> Batches:
    return Batches(CORPUS, VOCABULARY, config, batch_size=3, ops=ops, epochs=1, prefetch=0)


def reference_config(config: fast.Config) -> exact.Config:
    fields = {name: value for name, value in asdict(config).items() if not name.endswith("_dropout")}
    return exact.Config(**fields)


def reference_logps(config: fast.Config, parameters: Named, tree: int) -> np.ndarray:
    """Return the reference's log-probabilities for one tree, read from the tree itself."""
    symbols = list(VOCABULARY.symbols)
    if config.model == "txl_terminals":
        ids = [START_ID, *(symbols.index(word) for word in words(TREES[tree]))]
        labels = [*ids[1:], END_ID]
    else:
        ids = [START_ID, *(symbols.index(action) for action in actions(TREES[tree]))]
        labels = [*ids[1:], -1]
    types = [int(VOCABULARY.type_of[i]) for i in ids]
    if config.model == "tg":
        doubled = [
            (i, kind, label if kind != ActionType.CNT1 else -1)
            for i, first, label in zip(ids, types, labels, strict=True)
            for kind in ([ActionType.CNT1, ActionType.CNT2] if first == ActionType.CNT1 else [first])
        ]
        ids, types, labels = (list(column) for column in zip(*doubled, strict=True))
    return exact.token_logps(reference_config(config), parameters, np.array(ids), np.array(types), np.array(labels))


@variants
def test_token_logps_match_the_reference(backend: ModuleType, config: fast.Config) -> None:
    """A batch of trees of all lengths, read by segments with memory, gives the results of each tree alone."""
    parameters = parameters_of(config)
    on_it, memory = on_device(backend, parameters), None
    parts_of: dict[int, list[np.ndarray]] = {}
    longest = 0
    for batch in batches_of(backend, config):
        logp, memory = fast.token_logps(backend, config, on_it, batch, memory)
        cuts = host(batch.query_offsets)[1:-1]
        for tree, part in zip(batch.trees, np.split(host(logp), cuts), strict=True):
            parts_of.setdefault(int(tree), []).append(part)
        longest = max(longest, int(batch.segment.max()))
    assert longest >= (1 if config.model == "txl_terminals" else 2)
    assert sorted(parts_of) == list(range(len(TREES)))
    for tree, parts in parts_of.items():
        np.testing.assert_allclose(np.concatenate(parts), reference_logps(config, parameters, tree), atol=1e-10, rtol=0)


@cache
def reference_derivative(config: fast.Config, seed: int) -> float:
    """Return the derivative of the reference's loss over all trees, along the direction of this seed."""
    parameters = parameters_of(config)

    def loss(at: Named) -> float:
        return -sum(float(reference_logps(config, at, tree).sum()) for tree in range(len(TREES)))

    return derivative(loss, parameters, unit_direction(parameters, seed))


@variants
def test_gradient_matches_the_derivative_of_the_reference(backend: ModuleType, config: fast.Config) -> None:
    """It agrees to 1e-7 along random directions, for whole trees of one segment each."""
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    config = replace(config, segment_length=WHOLE)
    parameters = parameters_of(config)
    total = {name: np.zeros_like(x) for name, x in parameters.items()}
    for batch in batches_of(backend, config):
        _, gradients, _ = fast.loss_and_grad(backend, config, on_device(backend, parameters), batch)
        for name, gradient in gradients.items():
            total[name] += host(gradient)

    for seed in (0, 1):
        slope = along(unit_direction(parameters, seed), total)
        assert slope == pytest.approx(reference_derivative(config, seed), rel=1e-7)


@variants
def test_gradient_with_memory_and_dropout(backend: ModuleType, config: fast.Config) -> None:
    """The memory is a constant; with all dropouts on, the loss is still a smooth function of the parameters."""
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    config = replace(config, segment_length=3, embedding_dropout=0.1, core_dropout=0.2, output_dropout=0.3)
    parameters = parameters_of(config)
    batches = batches_of(backend, config)
    first, second = next(batches), next(batches)
    assert second.key_order is not None or config.memory_length == 0
    on_it = on_device(backend, parameters)
    _, _, memory = fast.loss_and_grad(backend, config, on_it, first, dropout_seed=5)
    loss, gradients, _ = fast.loss_and_grad(backend, config, on_it, second, memory, dropout_seed=2**63 + 7)

    def again(at: Named) -> float:
        return fast.loss_and_grad(backend, config, on_device(backend, at), second, memory, dropout_seed=2**63 + 7)[0]

    assert loss == again(parameters)
    direction = unit_direction(parameters, 2)
    assert along(direction, gradients) == pytest.approx(derivative(again, parameters, direction), rel=1e-7)


@variants
def test_dropout_draws_what_the_cpu_draws(backend: ModuleType, config: fast.Config) -> None:
    """Loss and gradients with memory agree to float64 rounding, also if layers are computed again."""
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    config = replace(config, segment_length=3, embedding_dropout=0.1, core_dropout=0.2, output_dropout=0.3)
    parameters, results = parameters_of(config), []
    for ops, options in ((cpu, {}), (backend, {}), (backend, {"recompute": True})):
        batches, on_it = batches_of(ops, config), on_device(ops, parameters)
        _, _, memory = fast.loss_and_grad(ops, config, on_it, next(batches), dropout_seed=5, **options)
        results.append(fast.loss_and_grad(ops, config, on_it, next(batches), memory, dropout_seed=6, **options)[:2])
    (loss, gradients), *others = results
    for other, of_other in others:
        assert other == pytest.approx(loss, rel=1e-12)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(host(of_other[name]), gradient, rtol=0, atol=1e-10, err_msg=name)


def test_dropout_follows_from_the_seed(backend: ModuleType) -> None:
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    for name in ("embedding_dropout", "core_dropout", "output_dropout"):
        config = replace(BASE, **{name: 0.5})
        parameters, batch = on_device(backend, parameters_of(config)), next(batches_of(backend, config))
        loss = [fast.loss_and_grad(backend, config, parameters, batch, None, seed)[0] for seed in (1, 1, 2, None)]
        assert loss[0] == loss[1] and len(set(loss)) == 3
        plain = -float(fast.token_logps(backend, config, parameters, batch)[0].sum())
        assert loss[3] == pytest.approx(plain, rel=1e-12)


def test_nothing_to_predict_costs_nothing(backend: ModuleType) -> None:
    """A batch without labels has loss 0 and gradient 0; so has a batch of no rows."""
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    parameters = on_device(backend, parameters_of(BASE))
    batch = next(batches_of(backend, BASE))
    silent = replace(batch, labels=backend.xp.full_like(batch.labels, -1), n_labels=0)
    loss, gradients, _ = fast.loss_and_grad(backend, BASE, parameters, silent)
    assert loss == 0.0 and not any(host(g).any() for g in gradients.values())
    empty = Batches(CORPUS, VOCABULARY, BASE, 1, ops=backend, rank=1, ranks=2, prefetch=0)
    for batch in empty:
        loss, gradients, memory = fast.loss_and_grad(backend, BASE, parameters, batch)
        assert loss == 0.0 and not any(host(g).any() for g in gradients.values())
        assert [len(rows) for rows in memory] == [0] * BASE.n_layers
        break


def test_a_memory_of_the_wrong_size_is_refused(backend: ModuleType) -> None:
    batches = batches_of(backend, BASE)
    parameters = on_device(backend, parameters_of(BASE))
    _, memory = fast.token_logps(backend, BASE, parameters, next(batches))
    batch = next(batches)
    for wrong in (None, memory[:-1], [rows[1:] for rows in memory]):
        with pytest.raises(ValueError, match="^memory: the batch continues sequences and needs [0-9]+ rows a layer$"):
            fast.token_logps(backend, BASE, parameters, batch, wrong)


def test_parameter_shapes_are_the_reference_s() -> None:
    for config in VARIANTS.values():
        assert fast.parameter_shapes(config) == exact.parameter_shapes(reference_config(config))


def test_parameter_counts_are_the_paper_s() -> None:
    counts = {
        (name, model): sum(prod(shape) for shape in fast.parameter_shapes(config).values())
        for name, models in CONFIGURATIONS.items()
        for model, (config, _) in models.items()
    }
    assert counts["ptb", "tg"] == counts["ptb", "txl_cc"] == 12_314_960
    assert {counts["bllip_sent", model] for model in ("tg", "txl_cc", "txl_terminals")} == {251_887_616}


def test_configurations_are_figure_9_s() -> None:
    config, training = CONFIGURATIONS["ptb"]["txl_terminals"]
    assert (config.segment_length, config.memory_length, config.vocabulary_size) == (80, 80, 23_835)
    assert (config.embedding_dropout, config.core_dropout, config.output_dropout) == (0.25, 0.24, 0.49)
    assert [training.rate(step) for step in (0, 6_000, 49_999)] == pytest.approx([1e-7, 6.4e-4, 3e-7])
    config, training = CONFIGURATIONS["ptb"]["tg"]
    assert (config.segment_length, config.memory_length, training.batch_size) == (192, 192, 64)
    assert (config.embedding_dropout, config.core_dropout, config.output_dropout) == (0.34, 0.19, 0.45)
    assert training.maximum_rate == 7.1e-4 and training.clip_norm == 3.0
    assert CONFIGURATIONS["bllip_sent"]["tg"][1].batch_size == 176
    assert CONFIGURATIONS["bllip_doc"]["tg"][1].batch_size == 64


def test_initial_parameters_have_the_stated_variances() -> None:
    config = replace(BASE, vocabulary_size=500, d_model=64, d_ff=128)
    parameters = fast.initialise(config, 0)
    again, other = fast.initialise(config, 0), fast.initialise(config, 1)
    assert all((parameters[name] == again[name]).all() for name in parameters)
    assert (parameters["embedding"] != other["embedding"]).any()
    variance = 2 / config.n_layers
    assert parameters["layers.0.attention.query"].var() == pytest.approx(variance / 64, rel=0.1)
    assert parameters["layers.1.feed_forward.out"].var() == pytest.approx(variance / 128, rel=0.1)
    assert parameters["layers.1.attention.content_bias"].var() == pytest.approx(1 / 64, rel=0.5)
    assert parameters["embedding"].var() == pytest.approx(1 / 64, rel=0.1)
    assert (parameters["layers.2.feed_forward_norm.scale"] == 1).all() and not parameters["output_bias"].any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "lstm"}, "model: 'lstm', but there is no such choice; use tg, txl_cc or txl_terminals"),
        ({"d_model": 6}, "d_model: 6, but it is no multiple of n_heads, 4; use 4 or 8"),
        ({"d_model": 7}, "d_model: 7, but it is odd; use 4 or 8"),
        ({"n_layers": 0}, "n_layers: 0, but the least whole number is 1; use 1 or more"),
        ({"memory_length": -1}, "memory_length: -1, but the least whole number is 0; use 0 or more"),
        ({"positions": "linear"}, "positions: 'linear', but memory is stack; use memory shift"),
        ({"unrestricted_layers": -4}, "unrestricted_layers: -4, but there are fewer layers"),
        ({"unrestricted_heads": 5}, "unrestricted_heads: 5, but there are fewer heads; use at most 4"),
        (
            {"distinct_attention": True, "unrestricted_heads": 1},
            "distinct_attention: True, but it is not for a hybrid model",
        ),
        ({"model": "txl_cc", "distinct_attention": True}, "model: 'txl_cc', but it has no distinct_attention"),
        (
            {"core_dropout": 1.0},
            "core_dropout: 1.0, but a rate is at least 0 and below 1; use 0 for none, or up to 0.99",
        ),
    ],
)
def test_contradictory_configurations_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(BASE, **change)
