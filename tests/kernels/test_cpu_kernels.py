"""The CPU backend beyond the table of operations: numbers of threads, repeated runs, extreme inputs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from accel import cpu
from accel.cpu.support.kernels import kernel, sigmoid, tanh

SHAPES = ((8, 24), (3, 5))
"""Pairs of heads and head width: a width of whole vector registers, and one with elements left over."""


def edges(n: int, n_keys: int, n_relative: int, draw: np.random.Generator) -> tuple[np.ndarray, ...]:
    counts = draw.integers(0, 14, n)
    row_offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    keys = [np.sort(draw.choice(n_keys, count, replace=False)) for count in counts]
    relative = draw.integers(0, n_relative, row_offsets[-1], dtype=np.int32)
    return row_offsets, np.concatenate(keys).astype(np.int32), relative


def results(dtype: type = np.float32) -> list[np.ndarray]:
    """Run every operation with enough rows for several threads."""
    draw = np.random.default_rng(0)

    def x(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape).astype(dtype)

    out: list[np.ndarray] = []
    n, d, v = 300, 40, 90
    ids, labels = draw.integers(0, v, n, dtype=np.int32), draw.integers(-1, v, n, dtype=np.int32)
    for name, inputs in {
        "layer_norm": (x(n, d), x(d), x(d)),
        "bias_gelu": (x(n, d), x(d)),
        "dropout": (x(n, d), 0.3, 7),
        "embedding": (x(v, d), ids),
        "cross_entropy": (x(n, d), x(v, d), x(v), labels),
    }.items():
        outputs = getattr(cpu, name)(*inputs)
        out += [*outputs, *getattr(cpu, f"{name}_vjp")(np.cos(outputs[0]), outputs, *inputs)]
    for h, d in SHAPES:
        tables = (x(n, h, d), x(n, h, d), x(n, h, d), x(n, h, d), x(h, d), x(h, d))
        for name, structure in {
            "sparse_attention": edges(n, n, n, draw),
            "causal_attention": (np.array([0, 100, n]), np.array([0, 100, n])),
        }.items():
            inputs = (*tables, *structure)
            outputs = getattr(cpu, name)(*inputs, rate=0.1, seed=3)
            vjp = getattr(cpu, f"{name}_vjp")(np.cos(outputs[0]), outputs, *inputs, rate=0.1, seed=3)
            out += [*outputs, *vjp]
        inputs = (*tables[:3], np.array([0, 3, 100, n]), np.array([0, 200, 200, n]))
        outputs = cpu.dot_product_attention(*inputs, rate=0.1, seed=3)
        out += [*outputs, *cpu.dot_product_attention_vjp(np.cos(outputs[0]), outputs, *inputs, rate=0.1, seed=3)]
    inputs = (x(n, d), x(2 * d, d) / d, x(d), np.array([0, 5, 6, 70, 101, n]))
    outputs = cpu.cky_pool(*inputs, max_height=9)
    out += [*outputs, *cpu.cky_pool_vjp(np.cos(outputs[0]), outputs, *inputs, max_height=9)]
    h, c = 60, 5
    offsets = np.array([0, 5, 6, 70, 101, n])  # six steps of five sequences, then ever fewer
    state = (np.zeros((5, h), dtype), x(5, h))
    cell_types = ("lstm", 0, 0), ("on_lstm", 2 * h // c, 2 * h // c), ("fasttrees", 2 * h // c, 0)
    for kind, n_masters, n_master_rows in cell_types:
        inputs = (x(n, n_masters + 4 * h), x(n_master_rows + 4 * h, h), x(n_master_rows + 4 * h), *state, offsets)
        outputs = cpu.recurrence(*inputs, kind=kind)
        out += [*outputs, *cpu.recurrence_vjp(np.cos(outputs[0]), outputs, *inputs, kind=kind)]
    for name, inputs in {
        "linear_recurrence": (x(n, 2 * h // c + 4 * h), state[1], offsets),
        "cumax": (x(n, h),),
        "tree_gate": (x(n, h // c), x(n, h // c), x(n, h), x(n, h)),
    }.items():
        outputs = getattr(cpu, name)(*inputs)
        out += [*outputs, *getattr(cpu, f"{name}_vjp")(np.cos(outputs[0]), outputs, *inputs)]
    shapes = ((3, 48), (16, 48), (16, 16), (16,), (16, 72), (72,), (72, 16), (16,))
    weights = [x(2, *shape) for shape in shapes]
    roles = np.tile(np.arange(2, dtype=np.int32), n)
    inputs = (x(2 * n, 16), x(2 * n, 48), *weights, roles, 2, 0.1, tuple(range(8)))
    outputs = cpu.pair_layers(*inputs)
    out += [*outputs, *cpu.pair_layers_vjp(np.cos(outputs[0]), outputs, *inputs)]
    out += cpu.distance_trees(x(n), offsets)
    out += cpu.pruned_chart(x(n - 5), offsets, window=2)
    moments = [x(50_000), x(50_000), x(50_000), x(50_000) ** 2]
    cpu.adam(*moments, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, step=2, scale=0.5)
    return out + moments


def digest() -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in results())).hexdigest()


def test_threads_do_not_change_a_bit() -> None:
    """One, two and five threads of the kernels give the same bits, and so does another run."""
    digests = set()
    for count in (1, 2, 5, 5):
        environment = os.environ | {"NUMBA_NUM_THREADS": str(count), "OPENBLAS_NUM_THREADS": "1"}
        program = "from tests.kernels.test_cpu_kernels import digest; print(digest())"
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_scores(dtype: type) -> None:
    """Scores of 1e4 give one-hot weights and finite gradients; a query without keys gives 0, -inf and no gradient."""
    h, d = 8, 24
    q, k = np.ones((2, h, d), dtype), np.stack([np.full((h, d), 1e4 * (1 + j)) for j in range(3)]).astype(dtype)
    v = np.arange(3 * h * d, dtype=dtype).reshape(3, h, d)
    zero = np.zeros((1, h, d), dtype)
    structure = (np.array([0, 3, 3]), np.arange(3, dtype=np.int32), np.zeros(3, np.int32))
    inputs = (q, k, v, zero, zero[0], zero[0], *structure)
    out, lse = cpu.sparse_attention(*inputs)
    np.testing.assert_array_equal(out[0], v[2])
    np.testing.assert_array_equal(out[1], 0)
    assert np.isfinite(lse[0]).all() and np.isneginf(lse[1]).all()
    gradients = cpu.sparse_attention_vjp(np.ones_like(out), (out, lse), *inputs)
    assert all(np.isfinite(g).all() for g in gradients)
    np.testing.assert_array_equal(gradients[0][1], 0)
    np.testing.assert_array_equal(gradients[2], np.stack([0 * v[0], 0 * v[0], np.ones_like(v[0])]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_entropy_of_huge_logits(dtype: type) -> None:
    """Logits of 1e5 neither overflow nor give NaN; the chunks of rows do not change the answer."""
    h, table, bias = np.full((3, 1), 1e5, dtype), np.array([[1], [-1], [0]], dtype), np.zeros(3, dtype)
    labels = np.array([0, 1, -1], np.int32)
    outputs = cpu.cross_entropy(h, table, bias, labels)
    np.testing.assert_array_equal(outputs[0], np.array([0, -2e5, 0], dtype))
    assert all(np.isfinite(g).all() for g in cpu.cross_entropy_vjp(np.ones(3, dtype), outputs, h, table, bias, labels))


def test_cross_entropy_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cross-entropy is the same whether the logits are computed in small chunks or all at once."""
    draw = np.random.default_rng(1)
    h, table, bias = draw.standard_normal((50, 8)), draw.standard_normal((30, 8)), draw.standard_normal(30)
    labels = draw.integers(-1, 30, 50, dtype=np.int32)

    def run() -> tuple[np.ndarray, ...]:
        outputs = cpu.cross_entropy(h, table, bias, labels)
        return outputs[:1] + cpu.cross_entropy_vjp(np.cos(outputs[0]), outputs, h, table, bias, labels)

    whole = run()
    monkeypatch.setattr(sys.modules["accel.cpu.layers"], "LOGITS", 200)
    for x, y in zip(run(), whole, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_nan_is_not_hidden() -> None:
    """A NaN in the input gives a NaN in the output: nothing clips it away."""
    x, bias = np.array([[np.nan, 1.0]], np.float32), np.zeros(2, np.float32)
    assert np.isnan(cpu.bias_gelu(x, bias)[0][0, 0])
    logp, *_ = cpu.cross_entropy(x, np.ones((3, 2), np.float32), np.zeros(3, np.float32), np.zeros(1, np.int32))
    assert np.isnan(logp[0])


@kernel()
def activations(x, squashed, opened):
    for a in range(x.size):
        squashed[a], opened[a] = tanh(x[a]), sigmoid(x[a])


def test_tanh_and_sigmoid_over_the_float32_range() -> None:
    """Both have an error below 4 roundings, also near 0 and where tanh changes its formula; NaN stays NaN.

    e^x is off by 1.5 roundings, and a sum and a quotient follow: 3.5 for the sigmoid. Where tanh is 1 - 2 / (e^2x + 1),
    from 0.625 on, the quotient, at most 0.45, is off by 3.2 and the difference, at least 0.55, is rounded: 3.6.
    """
    sizes = np.concatenate([np.geomspace(1e-38, 3e38, 200_000), np.linspace(0.5, 0.75, 100_000), np.linspace(0, 90)])
    x = np.concatenate([sizes, -sizes, [np.inf, -np.inf]]).astype(np.float32)
    tanhs, sigmoids = np.empty_like(x), np.empty_like(x)
    activations(x, tanhs, sigmoids)
    np.testing.assert_allclose(tanhs, np.tanh(np.float64(x)), rtol=4 * 2.0**-24, atol=0)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(sigmoids, 1 / (1 + np.exp(-np.float64(x))), rtol=4 * 2.0**-24, atol=1e-37)
    nan = np.full(1, np.nan, np.float32)
    activations(nan, *(results_of_nan := np.zeros((2, 1), np.float32)))
    assert np.isnan(results_of_nan).all()


def test_segments_say_which_type_they_do_not_know() -> None:
    """For a sequence without types, the error says that the first type is missing."""
    for types, offsets, message in (
        ([0, 9], [0, 2], "^types: sequence 0, position 1: unknown type 9$"),
        ([0, 0, 1, 2, 3], [0, 5, 5], "^types: sequence 1, position 0: the first type is not ONT$"),
    ):
        with pytest.raises(ValueError, match=message):
            cpu.segments(np.array(types, np.int8), np.array(offsets), 4, 4)


def test_arrays_of_other_numbers_are_refused() -> None:
    scale = np.ones(3)
    for x, kind in ((np.ones((2, 3), np.int64), "int64"), ([[1.0] * 3], "<class 'list'>")):
        with pytest.raises(ValueError, match=f"^x: expected a float32 or float64 array, not {kind}$"):
            cpu.layer_norm(x, scale, scale)


def test_gradients_of_another_shape_are_refused() -> None:
    x, row = np.ones((4, 3)), np.ones(3)
    outputs = cpu.residual_norm(x, x, row, 0.0, 0)
    for d_out, reason in (
        (np.ones((4, 2)), "d_out"),
        (np.ones((4, 3), np.float32), "d_out: float32, but x is float64"),
    ):
        with pytest.raises(ValueError, match=reason):
            cpu.residual_norm_vjp(d_out, outputs, x, x, row, 0.0, 0)


def test_a_row_that_is_named_twice_is_added_to_twice() -> None:
    draw = np.random.default_rng(0)
    table, rows, x = draw.standard_normal((7, 21)), draw.integers(0, 7, 50), draw.standard_normal((50, 21))
    expected = table.copy()
    np.add.at(expected, rows, x)
    cpu.add_rows(table, rows, x)
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_of_dropout_have_64_bits(seed: int) -> None:
    with pytest.raises(ValueError, match=f"^seed: {seed} is not in 0..2"):
        cpu.dropout(np.ones((2, 3)), 0.5, seed)
