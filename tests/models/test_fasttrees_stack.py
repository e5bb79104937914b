"""The batched stack of FastTrees against the reference: ragged sequences, the released convolution, dropout, shapes."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.autodiff.layers import DropoutSites
from accel.autodiff.seeds import mix
from accel.autodiff.tape import Array, Tape
from accel.autodiff.variables import constant
from accel.models.fasttrees import stack as fasttrees
from accel.models.fasttrees.stack import StackConfig
from refimpl.fasttrees import stack as exact
from refimpl.fasttrees.cells import parameter_shapes as exact_shapes
from refimpl.fasttrees.released import released_convolution
from refimpl.randomness import keep_mask
from tests.fixtures.device_parameters import on_device
from tests.fixtures.toy_text import LENGTHS, STACKS

Named = dict[str, np.ndarray]


def stack_parameters(config: StackConfig, seed: int = 1) -> Named:
    random = np.random.default_rng(seed)
    return {name: x.astype(np.float64) for name, x in fasttrees.initialise(config, random).items()}


def stacked(
    ops: ModuleType,
    config: StackConfig,
    p: Named,
    x: np.ndarray,
    lengths: list[int],
    state: Any = None,
    seed: Any = None,
) -> tuple[np.ndarray, list[Array], np.ndarray]:
    """Return outputs, state and distances of a stack without gradients."""
    variables = {name: constant(value) for name, value in on_device(ops, p).items()}
    offsets = ops.xp.asarray(np.cumsum([0, *lengths]).astype(np.int64))
    tape = Tape(ops, recording=False)
    x = constant(ops.xp.asarray(x))
    h, state, distances = fasttrees.run_stack(tape, config, variables, x, offsets, state, DropoutSites(seed))
    return host(h.value), state, host(distances)


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_is_the_reference_s_sentence_by_sentence(backend: ModuleType, name: str) -> None:
    """It holds for ragged sequences, and for a second part that starts from their states."""
    config, kind = STACKS[name], STACKS[name].kind
    p, random = stack_parameters(config), np.random.default_rng(2)
    x, more = (random.standard_normal((sum(LENGTHS), config.input_size)) for _ in range(2))
    h, state, distances = stacked(backend, config, p, x, LENGTHS)
    assert [s.shape[1] for s in state] == config.state_widths()
    again, _, _ = stacked(backend, config, p, more, LENGTHS, state)
    for b, (start, stop) in enumerate(zip(np.cumsum([0, *LENGTHS[:-1]]), np.cumsum(LENGTHS), strict=True)):
        expected, carried, far = exact.stack(kind, p, x[start:stop], chunk_size=2, dilation=2)
        np.testing.assert_allclose(h[start:stop], expected, atol=1e-12, rtol=0)
        np.testing.assert_allclose(distances[:, start:stop], far, atol=1e-12, rtol=0)
        width = config.state_widths().index(8) if kind == "faster_fasttrees" else 1
        np.testing.assert_allclose(host(state[width])[b], carried[0][1], atol=1e-12, rtol=0)
        expected = exact.stack(kind, p, more[start:stop], carried, dilation=2)[0]
        np.testing.assert_allclose(again[start:stop], expected, atol=1e-12, rtol=0)


def test_the_released_convolution_slides_over_the_batch(backend: ModuleType) -> None:
    config = StackConfig("conv_fasttrees", 8, (8, 8), chunk_size=2, variant="released")
    p, x = stack_parameters(config), np.random.default_rng(3).standard_normal((sum(LENGTHS), 8))
    h, _, _ = stacked(backend, config, p, x, LENGTHS)
    inside = np.arange(max(LENGTHS))[:, None] < np.array(LENGTHS)  # [T, B]
    padded = np.zeros((*inside.shape, 8))
    padded.transpose(1, 0, 2)[inside.T] = x
    for layer in range(2):
        cell = {name[8:]: value for name, value in p.items() if name.startswith(f"cells.{layer}.")}
        features = released_convolution(padded, cell.pop("conv.weight"), cell.pop("conv.bias"))
        padded = np.zeros_like(padded)
        for b, length in enumerate(LENGTHS):
            start = np.zeros(8), np.zeros(8), np.zeros((0, 8))
            padded[:length, b] = exact.layer("fasttrees", cell, features[:length, b], start)[0]
    np.testing.assert_allclose(h, padded.transpose(1, 0, 2)[inside.T], atol=1e-12, rtol=0)


@pytest.mark.parametrize("seed", [None, 5])
def test_dropped_weights_and_features_are_the_reference_s(backend: ModuleType, seed: int | None) -> None:
    config = replace(STACKS["on_lstm"], weight_drop=0.4, layer_dropout=0.3)
    p, x = stack_parameters(config), np.random.default_rng(4).standard_normal((5, 6))
    h, _, _ = stacked(backend, config, p, x, [5], seed=seed)
    seeds = [None if seed is None else mix(seed, site) for site in range(3)]  # weights, features, weights
    for layer, layer_seed in ((0, seeds[0]), (1, seeds[2])):
        name = f"cells.{layer}.hh.weight"
        p[name] = exact.weight_drop(p[name], 0.4, layer_seed)
    keep = None if seed is None else [keep_mask(8, 0.3, seeds[1])]
    np.testing.assert_allclose(h, exact.stack("on_lstm", p, x, chunk_size=2, keep=keep)[0], atol=1e-12, rtol=0)


def test_parameters_are_the_reference_s() -> None:
    for config in STACKS.values():
        expected = exact_shapes(config.kind, config.input_size, 8, 2, 2, config.convolved)
        shapes = fasttrees.parameter_shapes(config)
        assert {name[8:]: shape for name, shape in shapes.items() if name.startswith("cells.0.")} == expected
