"""FastTrees' convolutions, stacks and Transformer gate in the reference, against their laws and equations."""

from __future__ import annotations

import numpy as np
import pytest

from refimpl.fasttrees import cells, stack
from refimpl.fasttrees.cumax import cumax, master_gates, structured_gates
from refimpl.fasttrees.released import released_convolution
from refimpl.fasttrees.transformer_gate import transformer_gate, tree_gate
from tests.fixtures.fasttrees_stacks import Parameters, assert_same, drawn, inputs, one_layer


def test_convolution_that_passes_on() -> None:
    """FT-5 L2; with only the earlier tap, the master gates are those of the step before."""
    parameters, x = one_layer("conv_fasttrees"), np.abs(inputs(4))
    plain = {name: value for name, value in parameters.items() if not name.startswith("conv.")}
    start = np.zeros(4), np.zeros(4)
    distances = stack.layer("fasttrees", plain, x, (*start, np.zeros((0, 3))))[2]
    for tap, expected in ((1, distances), (0, np.append(distance_of_zeros(plain), distances[:-1]))):
        weight = np.zeros((3, 3, 2))
        weight[:, :, tap] = np.eye(3)
        passing = parameters | {"conv.weight": weight, "conv.bias": np.zeros(3)}
        result = stack.layer("conv_fasttrees", passing, x, (*start, np.zeros((1, 3))))[2]
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_convolution_of_the_gate_features_alone() -> None:
    """FT-5 L3: it equals a convolution of all inputs that copies the others; L4: with one tap, F has two layers."""
    x, parameters = inputs(5, width=6), drawn("conv_fasttrees", sizes=(6, 4), convolved="gates")
    small, bias = parameters["cells.0.conv.weight"], np.append(parameters["cells.0.conv.bias"], np.zeros(2))
    whole = np.zeros((6, 6, 2))
    whole[:4, :4], whole[4:, 4:, 1] = small, np.eye(2)
    x[:, 4:] = np.abs(x[:, 4:])  # the ReLU leaves them as they are
    wide = parameters | {"cells.0.conv.weight": whole, "cells.0.conv.bias": bias}
    outputs = [stack.stack("conv_fasttrees", p, x, chunk_size=2) for p in (parameters, wide)]
    np.testing.assert_allclose(outputs[0][0], outputs[1][0], rtol=1e-12)
    one = wide | {"cells.0.conv.weight": whole[:, :, :1]}
    distances = stack.stack("conv_fasttrees", one, x, chunk_size=2)[2][0]
    weight, rows = parameters["cells.0.ih.weight"][2:4], np.maximum(x @ whole[:, :, 0].T + bias, 0)
    logits = rows @ weight.T + parameters["cells.0.ih.bias"][2:4]
    np.testing.assert_allclose(distances, [1 - cumax(z).mean() for z in logits], rtol=1e-12)


def distance_of_zeros(parameters: Parameters) -> float:
    distance = cells.fasttrees(parameters, np.zeros(3), np.zeros(4), np.zeros(4))[2]
    assert distance is not None
    return distance


def test_released_convolution_mixes_neighbours() -> None:
    """FT-12 L1: a change at step 3 of sentence 2 reaches sentences 1 and 3.

    Through a FastTrees layer it changes them from step 3 on.
    """
    draw = np.random.default_rng(5)
    x, weight, bias = draw.standard_normal((5, 4, 6)), draw.standard_normal((4, 4, 2)), np.full(4, 9.0)
    other_x = x.copy()
    other_x[3, 2, :4] += 1
    before, after = (released_convolution(y, weight, bias) for y in (x, other_x))
    assert {(t, b) for t, b, feature in np.argwhere(before != after) if feature < 4} == {(3, 1), (3, 3)}
    parameters = {name: draw.standard_normal(s) for name, s in cells.parameter_shapes("fasttrees", 6, 4, 2).items()}
    start = np.zeros(4), np.zeros(4), np.zeros((0, 6))
    hidden = [[stack.layer("fasttrees", parameters, y[:, b], start)[0] for b in range(4)] for y in (before, after)]
    is_changed = (np.array(hidden[0]) != np.array(hidden[1])).any(axis=2)  # [B, T]
    assert is_changed.tolist() == [[False] * 5, [False] * 3 + [True] * 2, [False] * 5, [False] * 3 + [True] * 2]


@pytest.mark.parametrize(("cell_type", "dilation"), [*((name, 1) for name in cells.CELLS), ("conv_fasttrees", 2)])
def test_parts_of_a_sentence_give_the_whole(cell_type: str, dilation: int) -> None:
    """FT-7 L1: it may be cut anywhere, into single steps, too, with locked dropout between layers."""
    parameters, x, keep = drawn(cell_type), inputs(6), [np.array([2.0, 0.0, 2.0, 1.0])]
    whole = stack.stack(cell_type, parameters, x, chunk_size=2, dilation=dilation, keep=keep)
    for cuts in ([1], [2, 3], [4, 5], [1, 2, 3, 4, 5]):
        state, outputs, distances = None, [], []
        for part in np.split(x, cuts):
            out, state, distance = stack.stack(
                cell_type, parameters, part, state, chunk_size=2, dilation=dilation, keep=keep
            )
            outputs.append(out)
            distances.append(distance)
        assert_same(whole, (np.concatenate(outputs), state, np.concatenate(distances, axis=1)))


@pytest.mark.parametrize("network", [*cells.CELLS, "gate", "causal gate"])
def test_no_step_sees_later_ones(network: str) -> None:
    """FT-3 L5, FT-5 L1, FT-7 L2, FT-11 L4."""

    def run(x: np.ndarray) -> np.ndarray:
        if "gate" in network:
            return transformer_gate(gate_parameters(4, causal="causal" in network), x)
        return stack.stack(network, drawn(network), x, chunk_size=2)[0]

    x = inputs(5, width=4 if "gate" in network else 3)
    for t in range(5):
        other_x = x.copy()
        other_x[t] += 1
        is_changed = (run(x) != run(other_x)).any(axis=1).tolist()
        assert is_changed[: t + 1] == [False] * t + [True]
        if network == "gate":
            assert not any(is_changed[t + 1 :])
        if network == "causal gate":
            assert is_changed[t + 1 :] == [True, False, False, False][: 4 - t]


def test_float32_stays_float32() -> None:
    for cell_type in cells.CELLS:
        parameters = {name: value.astype(np.float32) for name, value in drawn(cell_type).items()}
        outputs, state, distances = stack.stack(cell_type, parameters, inputs(3).astype(np.float32), chunk_size=2)
        assert {a.dtype for a in (outputs, distances, *state[0])} == {np.dtype(np.float32)}, cell_type


def gate_parameters(d: int, n: int | None = None, seed: int = 1, causal: bool = False) -> Parameters:
    draw, rows = np.random.default_rng(seed), {"a": n or d, "b": n or d, "f": d}
    parameters = {f"{name}.weight": draw.standard_normal((size, d)) for name, size in rows.items()}
    parameters |= {f"{name}.bias": draw.standard_normal(size) for name, size in rows.items()}
    convolution = {"conv.weight": draw.standard_normal((d, d, 2)), "conv.bias": np.full(d, 5.0)}
    return parameters | (convolution if causal else {})


def test_gate_is_the_structured_forget_gate() -> None:
    """FT-11 L2 and L3, in chunks of two; the printed equations agree."""
    parameters, x = gate_parameters(6, n=3), inputs(4, width=6)
    y = transformer_gate(parameters, x)
    for t in range(4):
        a, b, f = (parameters[f"{name}.weight"] @ x[t] + parameters[f"{name}.bias"] for name in "abf")
        forget = 1 / (1 + np.exp(-f))
        rise, fall = np.repeat(cumax(a), 2), np.repeat(1 - cumax(b), 2)
        np.testing.assert_allclose(y[t], (forget * (rise * fall) + (rise - rise * fall)) * x[t], rtol=1e-12)
        np.testing.assert_allclose(y[t], structured_gates(forget, forget, *master_gates(a, b))[0] * x[t], rtol=1e-12)
    np.testing.assert_allclose(y[:, 4:], x[:, 4:], rtol=1e-12)


def test_bad_input() -> None:
    """FT-3, FT-4, FT-7, FT-11: every error is a ValueError of one line."""
    parameters, zero = one_layer("on_lstm"), np.zeros(4)
    x, start = inputs(2), (zero, zero, np.zeros((0, 3)))
    stacked, of_convolution = drawn("on_lstm"), one_layer("conv_fasttrees")
    refused = [
        ("cell_type", lambda: cells.parameter_shapes("gru", 3, 4)),
        ("input_size: 0 is below 1", lambda: cells.parameter_shapes("lstm", 0, 4)),
        ("convolved", lambda: cells.parameter_shapes("conv_fasttrees", 3, 4, 2, convolved="gate")),
        ("hidden_size: 4 is not divisible by chunk_size 3", lambda: cells.parameter_shapes("on_lstm", 3, 4, 3)),
        ("cell_type", lambda: stack.layer("gru", parameters, x, start)),
        ("empty sequence", lambda: stack.layer("on_lstm", parameters, x[:0], start)),
        ("NaN", lambda: stack.layer("on_lstm", parameters, np.full((2, 3), np.nan), start)),
        ("NaN", lambda: cells.on_lstm(parameters, x[0] * np.inf, zero, zero)),
        ("NaN", lambda: stack.stack("on_lstm", stacked, np.full((2, 3), 1e308) * 10, chunk_size=2)),
        ("parameters", lambda: cells.lstm(parameters, x[0], zero, zero)),
        ("parameters", lambda: cells.on_lstm(parameters | {"more": zero}, x[0], zero, zero)),
        ("parameters", lambda: cells.on_lstm(parameters | {"hh.bias": zero}, x[0], zero, zero)),
        ("input_size: 0 is below 1", lambda: cells.on_lstm({}, x[0], zero, zero)),
        ("chunk_size 10", lambda: stack.stack("on_lstm", stacked, x)),
        ("parameters", lambda: stack.stack("on_lstm", stacked | {"decoder": zero}, x, chunk_size=2)),
        ("parameters", lambda: stack.stack("on_lstm", {}, x, chunk_size=2)),
        ("conv.weight", lambda: stack.layer("conv_fasttrees", of_convolution, x, (zero, zero, x[:0]))),
        ("parameters", lambda: stack.stack("conv_fasttrees", stacked, x, chunk_size=2)),
        ("conv.weight", lambda: cells.conv_fasttrees(of_convolution, x[:1], zero, zero)),
        ("window: shape (0, ", lambda: cells.conv_fasttrees(of_convolution, x[:0], zero, zero)),
        ("f: shape (2, 1)", lambda: structured_gates(zero[:2, None], zero[:2], zero[:2], zero[:2])),
        ("tilde_f: shape (2, 1)", lambda: structured_gates(zero[:2], zero[:2], zero[:2, None], zero[:2])),
        ("f: shape (2,)", lambda: tree_gate(zero[:2], zero[:2], zero[:2], zero[:1])),
        ("bias: shape (1,)", lambda: transformer_gate(gate_parameters(3) | {"f.bias": zero[:1]}, x)),
        ("f: NaN", lambda: tree_gate(zero, zero, zero * np.nan, zero)),
        ("z: NaN", lambda: tree_gate(zero * np.nan, zero, zero, zero)),
        ("do not fit", lambda: tree_gate(zero[:3], zero[:3], zero, zero)),
        ("empty sequence", lambda: transformer_gate(gate_parameters(3), x[:0])),
    ]
    for words, call in refused:
        with pytest.raises(ValueError) as caught, np.errstate(all="ignore"):
            call()
        assert words in str(caught.value) and "\n" not in str(caught.value), f"{caught.value} lacks {words}"


@pytest.mark.parametrize("name", cells.CELLS)
def test_a_state_of_another_shape(name: str) -> None:
    """FT-3, FT-5, FT-6: it is refused, where NumPy would broadcast; Faster FastTrees reads no hidden state."""
    x, zero = inputs(2), np.zeros(4)
    step_input = x if name == "conv_fasttrees" else x[0]
    hidden = [] if name == "faster_fasttrees" else [("h", zero[:1], zero), ("h", zero[:, None], zero)]
    for argument, h, c in (*hidden, ("c", zero, zero[:, None])):
        with pytest.raises(ValueError, match=f"^{argument}: shape "):
            cells.CELLS[name](one_layer(name), step_input, h, c)


def test_a_longer_past_changes_nothing() -> None:
    """FT-7: a convolution of two taps, two steps apart, reads two earlier inputs of the state and no more."""
    parameters, x, zero = one_layer("conv_fasttrees"), inputs(6), np.zeros(4)
    short, long = (stack.layer("conv_fasttrees", parameters, x[3:], (zero, zero, x[k:3]), dilation=2) for k in (1, 0))
    assert np.array_equal(short[0], long[0]) and np.array_equal(short[2], long[2])
