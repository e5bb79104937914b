"""A GPU does in one kernel what the models do in several operations, with the same results.

These tests put NumPy in the place of CuPy.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel import cpu
from accel.autodiff import layers
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.cuda import activation_penalties
from accel.cuda.locked_dropout import THREADS as LOCKED_THREADS
from accel.cuda.sublayers import COLUMN_THREADS, ROWS, THREADS
from accel.models.fasttrees import language_model, stack
from accel.models.treeformer import chart
from accel.verify.sizes import sizes_around
from tests.fixtures.comparisons import same
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

COLUMNS = sizes_around((COLUMN_THREADS, THREADS))
BLOCKS = sizes_around((ROWS,))


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [5, 1, 3, 2], [2, 140]])
@pytest.mark.parametrize("width", sizes_around((activation_penalties.THREADS,)))
def test_penalties_on_hidden_states(host_backend: ModuleType, lengths: list[int], width: int) -> None:
    """The gradients of the penalties have the bits of separate operations, in float32 and float64."""
    config, offsets = SimpleNamespace(alpha=2.0, beta=1.5), np.cumsum([0, *lengths])
    for dtype in (np.float32, np.float64):
        h = draw((sum(lengths), width))[0].astype(dtype)
        whole = {"steps": 2 * len(h), "columns": 2 * len(lengths)}
        fused, plain = (
            language_model._penalty_gradients(ops, config, h, offsets, whole) for ops in (host_backend, cpu)
        )
        assert fused.dtype == dtype and np.array_equal(fused, plain)
    with pytest.raises(ValueError, match="^offsets: does not rise from 0 to"):
        host_backend.penalty_gradients(h, offsets[1:], 1.0, 1.0, 1.0)


@pytest.mark.parametrize("n_words", [1, 2, 33, 700])
@pytest.mark.parametrize("logits_at_once", [1 << 25, 1400])
def test_smoothed_labels(
    host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch, n_words: int, logits_at_once: int
) -> None:
    """Values and gradients are those of separate operations, with all logits at once or in parts."""
    monkeypatch.setattr("accel.cuda.layers.LOGITS_AT_ONCE", logits_at_once)
    arrays, labels = draw((5, 4), (n_words, 4), (n_words,), (5,)), np.array([0, 3, 1, 0, 2], np.int32) % n_words
    *inputs, gradients = arrays

    def results(ops: Any, smoothing: float) -> list[np.ndarray]:
        tape, variables = Tape(ops), [Variable(x) for x in inputs]
        gains = layers.smoothed_cross_entropy(tape, *variables, labels.astype(np.int32), smoothing)
        tape.backward(gains, gradients)
        return [gains.value, *(x.gradient for x in variables)]

    for smoothing in (0.1, 0.6, 0.0):
        same(results(host_backend, smoothing), results(cpu, smoothing))


def test_a_row_without_a_label_gains_nothing(host_backend: ModuleType) -> None:
    arrays, labels = draw((3, 4), (6, 4), (6,)), np.array([5, -1, 0], np.int32)
    for ops in (host_backend, cpu):
        tape, variables = Tape(ops), [Variable(x) for x in arrays]
        gains = layers.smoothed_cross_entropy(tape, *variables, labels, 0.1)
        assert gains.value[1] == 0 and (gains.value[[0, 2]] < 0).all()
        tape.backward(gains, np.ones(3))
        assert not variables[0].gradient[1].any() and variables[0].gradient[0].any()


@pytest.mark.parametrize("max_height", [1, 2, 4, None])
@pytest.mark.parametrize("lengths", [[3], [1, 6, 2, 4]])
def test_the_longest_phrases_of_charts(host_backend: ModuleType, lengths: list[int], max_height: int | None) -> None:
    offsets, width = np.cumsum([0, *lengths]), 2 - len(lengths) % 2
    nodes = constant(draw((int(chart.node_offsets(np, offsets, max_height)[-1]), 3))[0])
    fused, plain = (
        chart.top_row_means(Tape(ops), nodes, offsets, max_height, width).value for ops in (host_backend, cpu)
    )
    np.testing.assert_allclose(fused, plain, rtol=1e-14)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize(("n", "width"), [(1, 1), *((3, x) for x in COLUMNS), *((x, 5) for x in BLOCKS)])
def test_parts_of_sublayers(host_backend: ModuleType, n: int, width: int, rate: float) -> None:
    """Values and gradients are those of separate operations, for few rows and for more than one block sums."""
    x, y, weight, bias, gradients = draw((n, width), (n, 4), (4, width), (width,), (n, width))

    def results(ops: Any, part: Any, *inputs: np.ndarray) -> list[np.ndarray]:
        tape, variables = Tape(ops), [Variable(x) for x in inputs]
        out = part(tape, *variables, rate, layers.DropoutSites(5))
        tape.backward(out, gradients)
        return [out.value, *(x.gradient for x in variables)]

    for part, inputs in (
        (layers.linear_relu, (y, weight, bias)),
        (layers.residual_sum, (x, np.tanh(x))),
        (layers.residual_linear, (x, y, weight, bias)),
    ):
        fused, plain = results(host_backend, part, *inputs), results(cpu, part, *inputs)
        np.testing.assert_allclose(fused[0], plain[0], rtol=1e-13, atol=1e-15)
        same(fused, plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_a_number_stays_so(host_backend: ModuleType, dtype: type) -> None:
    """A parameter that is NaN must not look like a unit that is always below zero."""
    x = np.array([[np.nan, 1.0, -1.0, np.inf, -np.inf]], dtype)
    (y,) = host_backend.dropped_bias_relu(x, np.zeros(5, dtype), 0.0, 0)
    np.testing.assert_array_equal(y, [[np.nan, 1.0, 0.0, np.inf, 0.0]])


@pytest.mark.parametrize("width", sizes_around((LOCKED_THREADS,)))
def test_words_and_last_states(host_backend: ModuleType, width: int) -> None:
    """The bits are those of separate operations, in both float types; some words are repeated."""
    offsets, ids = np.array([0, 2, 3, 7]), np.array([4, 0, 4, 1, 2, 2, 9], np.int32)
    for dtype in (np.float32, np.float64):
        x, gradients, other = (y.astype(dtype) for y in draw(*[(7, width)] * 3))

        def results(ops: Any, x: np.ndarray = x, gradients: np.ndarray = gradients) -> list[np.ndarray]:
            tape, variable = Tape(ops), Variable(x)
            out = layers.word_dropout(tape, variable, ids, 10, 0.9, layers.DropoutSites(3))
            tape.backward(out, gradients)
            return [out.value, variable.gradient]

        pairs = [*zip(results(host_backend), results(cpu), strict=True)]
        for arrays in ([x], [x, other]):
            pairs += zip(*(stack._last_rows(Tape(ops), arrays, offsets) for ops in (host_backend, cpu)), strict=True)
        assert all(np.array_equal(fused, plain) and fused.dtype == dtype for fused, plain in pairs)
        assert not results(host_backend)[0].all()
