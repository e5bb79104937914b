"""Gradients of the batched GPST, with and without the gradient stop, against differences; and ten steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accel.autodiff.seeds import mix
from accel.models.gpst import model as gpst
from accel.models.gpst.config import initialise
from refimpl.gpst import losses as reference
from refimpl.gpst.parser import encode
from refimpl.randomness import gumbel
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import (
    ATOMS,
    LENGTHS,
    VARIANTS,
    batch_of,
    config_of,
    in_pieces,
    parameters_of,
    reference_config,
    sentences_of,
)
from tests.fixtures.gradient_checks import check_steps, difference

SMOOTH = 5
"""With this seed no induced tree, and so no loss, jumps between the points of a difference; with seed 4 one does."""
GRADIENTS = [*VARIANTS, {"model": "gpt2"}, {"dropout": 0.2, "network_dropout": 0.3}]


@pytest.mark.parametrize("changes", GRADIENTS, ids=str)
def test_gradients_without_the_stop(changes: dict[str, Any]) -> None:
    """The gradient of the whole loss along one direction agrees with differences to 1e-7, in float64."""
    config = config_of(gradient_stop=False, **changes)
    parameters, batch = parameters_of(config), batch_of(LENGTHS, (2,))
    along = {name: np.random.default_rng(len(name)).standard_normal(x.shape) for name, x in parameters.items()}
    expected = difference(
        parameters, along, lambda there: gpst.loss_and_grad(CPU, config, there, batch, dropout_seed=SMOOTH)[0]
    )
    _, gradients, _ = gpst.loss_and_grad(CPU, config, parameters, batch, dropout_seed=SMOOTH)
    slope = sum((gradients[name] * along[name]).sum() for name in parameters)
    size = sum(abs(gradients[name] * along[name]).sum() for name in parameters)
    assert abs(slope - expected) <= 1e-7 * size
    unused = {name for name, g in gradients.items() if not np.abs(g).max() > 0}
    exceptions = {name for name in parameters if "side." in name} if changes.get("window") == 1 else set()
    exceptions |= {name for name in parameters if name.startswith("up")} if not config.surrogate else set()
    unmoved = {name for name in parameters if name.startswith("composition.") and name.endswith("key_bias")}
    unmoved.add("parser.split.out_bias")  # shared by all splits, as the others by both keys of a pair: 0, or rounding
    assert unused - unmoved == exceptions


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_gradients_under_the_stop(changes: dict[str, Any]) -> None:
    """They are those of the structure losses, plus L_ar with constant split weights, to 1e-7."""
    config = config_of(**changes)
    parameters, batch = parameters_of(config), in_pieces(batch_of(LENGTHS))
    along = {name: np.random.default_rng(len(name)).standard_normal(x.shape) for name, x in parameters.items()}
    of_reference, parts, seed = reference_config(config), sentences_of(batch), mix(4, 0)
    weights, first, atoms = [], 0, ATOMS if config.whole_words else [[] for _ in parts]
    for ids, whole in zip(parts, atoms, strict=True):
        noise = gumbel(np.arange(first, first + len(ids) - 1), seed)
        weights.append(encode(of_reference, parameters, ids, noise, whole)[2].weights)
        first += len(ids)

    def stopped(there: dict[str, np.ndarray]) -> float:
        losses = reference.losses(of_reference, there, parts, seed, weights, atoms)
        return sum(map(len, parts)) * (losses.ae + losses.height + losses.parser + losses.ar)

    _, gradients, _ = gpst.loss_and_grad(CPU, config, parameters, batch, dropout_seed=4)
    slope = sum((gradients[name] * along[name]).sum() for name in parameters)
    size = sum(abs(gradients[name] * along[name]).sum() for name in parameters)
    assert abs(slope - difference(parameters, along, stopped)) <= 1e-7 * size


def test_the_law_of_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters that score splits get gradients from the structure losses only; without the stop, from all."""
    config = config_of()
    parameters, batch = parameters_of(config), batch_of(LENGTHS)
    scoring = [name for name in parameters if name.startswith("composition.inside.")]
    with_stop = gpst.loss_and_grad(CPU, config, parameters, batch)[1]
    without = gpst.loss_and_grad(CPU, config_of(gradient_stop=False), parameters, batch)[1]
    plain = gpst._values
    monkeypatch.setattr(gpst, "_values", lambda *outputs: plain(*outputs) | {"ar": (0.0, np.inf)})  # slope 0
    structure = gpst.loss_and_grad(CPU, config, parameters, batch)[1]
    for name in scoring:
        np.testing.assert_array_equal(with_stop[name], structure[name])
        assert np.abs(without[name] - structure[name]).max() > 1e-6
    others = set(parameters) - set(scoring)
    assert any(np.abs(with_stop[name] - structure[name]).max() > 1e-6 for name in others if "compose" in name)


@pytest.mark.parametrize("model", ["gpst", "gpt2"])
def test_ten_steps_in_which_the_loss_falls(model: str) -> None:
    """In float32, with noise and dropout, the loss falls by a tenth or more."""
    config = config_of(model=model, dropout=0.1, network_dropout=0.1)
    parameters, batch = initialise(config, 0), batch_of(LENGTHS, (3,))
    losses, moments = [], {name: np.zeros_like(x) for name, x in parameters.items()}
    for step in range(10):
        loss, gradients, _ = gpst.loss_and_grad(CPU, config, parameters, batch, dropout_seed=step)
        losses.append(loss)
        for name, g in gradients.items():
            assert g.dtype == np.float32
            moments[name] = 0.9 * moments[name] + 0.1 * g * g
            parameters[name] = parameters[name] - np.float32(0.01) * g / (np.sqrt(moments[name]) + np.float32(1e-6))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(("head", "count"), [("mlp", 10), ("dot", 2)])
def test_steps_side_by_side(head: str, count: int) -> None:
    """The CPU backend has the losses of the reference, whose gradients are differences."""
    small = {"d_model": 2, "n_heads": 1, "token_layers": 1, "d_compose": 2, "compose_heads": 1, "compose_layers": 1,
             "d_score": 1, "d_parser": 2, "parser_heads": 1, "parser_layers": 1, "parser_feed_forward": 1,
             "n_positions": 4}  # fmt: skip
    config = config_of(head=head, **small)
    check_steps(gpst, config, parameters_of(config), batch_of([3]), count)
