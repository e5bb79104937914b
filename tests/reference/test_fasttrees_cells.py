"""The reference's FastTrees cells agree with the printed equations written out, and with one another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import floats, regimes, seeds
from refimpl.fasttrees import cells, stack
from refimpl.fasttrees.cumax import cumax
from tests.fixtures.fasttrees_stacks import assert_same, drawn, inputs, one_layer

STRUCTURED = tuple(name for name in cells.CELLS if name != "lstm")


def test_lstm_as_printed() -> None:
    """FT-3: the six equations of the LSTM, element by element, over three steps."""
    parameters, x = one_layer("lstm"), inputs(3)
    names = ("o", "c", "i", "f")
    w = dict(zip(names, np.split(parameters["ih.weight"], 4), strict=True))
    u = dict(zip(names, np.split(parameters["hh.weight"], 4), strict=True))
    b = dict(zip(names, np.split(parameters["ih.bias"] + parameters["hh.bias"], 4), strict=True))
    h, c = [0.0] * 4, [0.0] * 4
    for t in range(3):
        z = {
            gate: [
                sum(w[gate][j, d] * x[t, d] for d in range(3))
                + sum(u[gate][j, m] * h[m] for m in range(4))
                + b[gate][j]
                for j in range(4)
            ]
            for gate in names
        }
        for j in range(4):
            f, i, o = (1 / (1 + math.exp(-z[gate][j])) for gate in "fio")
            c[j] = f * c[j] + i * math.tanh(z["c"][j])
            h[j] = o * math.tanh(c[j])
    outputs, [(last, c_last, _)], distances = stack.stack("lstm", drawn("lstm", 0, (3, 4)), x)
    np.testing.assert_allclose([outputs[-1], last, c_last], [h, h, c], rtol=1e-12)
    assert distances.shape == (0, 3)


@given(regime=regimes, seed=seeds, n=st.integers(1, 4), chunk=st.integers(1, 3))
def test_structured_update_unit_by_unit(regime: str, seed: int, n: int, chunk: int) -> None:
    """FT-2 and FT-3: it is computed for every unit separately, with sums written out."""
    logits, c = floats(regime, seed, 2 * n + 4 * n * chunk), floats("unit", seed, n * chunk)
    h, c_new, distance = cells.structured_update(logits, c)
    exponentials = [[math.exp(z - max(part)) for z in part] for part in np.split(logits[: 2 * n], 2)]
    out, cell, i_unit, f_unit = np.split(logits[2 * n :], 4)
    total = 0.0
    for k in range(n):
        input_cumax, forget = (sum(part[: k + 1]) / sum(part) for part in exponentials)
        total += forget / n
        for unit in range(k * chunk, (k + 1) * chunk):
            f, i, o = (1 / (1 + np.exp(-z[unit])) for z in (f_unit, i_unit, out))
            overlap = forget * (1 - input_cumax)
            new = (f * overlap + forget - overlap) * c[unit] + (i * overlap + 1 - input_cumax - overlap) * math.tanh(
                cell[unit]
            )
            assert c_new[unit] == pytest.approx(new, rel=1e-10, abs=1e-12)
            assert h[unit] == pytest.approx(o * math.tanh(new), rel=1e-10, abs=1e-12)
    assert distance == pytest.approx(1 - total, abs=1e-12)


@given(regime=regimes, seed=seeds, n=st.integers(1, 9))
def test_cumax_of_shifted_logits(regime: str, seed: int, n: int) -> None:
    """FT-1 L3."""
    z = floats(regime, seed, n)
    np.testing.assert_allclose(cumax(z + 5), cumax(z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cell_type", STRUCTURED)
def test_the_last_chunk_is_never_written(cell_type: str) -> None:
    """FT-2 L4: its cell and hidden states stay 0; all other states change."""
    outputs, [(_, c, _)], _ = stack.stack(cell_type, drawn(cell_type, 0, (3, 6)), inputs(5), chunk_size=2)
    assert np.abs(outputs[:, 4:]).max() < 1e-14 and np.abs(c[4:]).max() < 1e-14
    assert (outputs[:, :4] != 0).all()


def test_fasttrees_is_on_lstm_without_hidden_master_rows() -> None:
    """FT-3 L3."""
    parameters = drawn("fasttrees")
    padded = dict(parameters)
    for k, n_master in enumerate((4, 6)):
        for name in (f"cells.{k}.hh.weight", f"cells.{k}.hh.bias"):
            padded[name] = np.concatenate([np.zeros((n_master, *padded[name].shape[1:])), padded[name]])
    assert_same(
        stack.stack("fasttrees", parameters, inputs(5), chunk_size=2),
        stack.stack("on_lstm", padded, inputs(5), chunk_size=2),
    )


def test_faster_fasttrees_is_fasttrees_without_hidden_weights() -> None:
    """FT-6 L1."""
    parameters = drawn("fasttrees")
    silent = {name: value * (".hh." not in name) for name, value in parameters.items()}
    fewer = {name: value for name, value in parameters.items() if ".hh." not in name}
    assert_same(
        stack.stack("fasttrees", silent, inputs(5), chunk_size=2),
        stack.stack("faster_fasttrees", fewer, inputs(5), chunk_size=2),
    )


def test_two_biases_count_as_one() -> None:
    """FT-3 L4."""
    parameters = one_layer("on_lstm")
    joint = parameters | {
        "ih.bias": parameters["ih.bias"] + parameters["hh.bias"],
        "hh.bias": 0 * parameters["hh.bias"],
    }
    h, c = inputs(2, 3, 4)
    for a, b in zip(*(cells.on_lstm(p, inputs(1)[0], h, c) for p in (parameters, joint)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
