"""CPU operations give the same results for arrays with gaps, in column order or read-only, by the same kernels.

The last tests are of dropout rates too small to drop anything, and of a gradient that gets wrong indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core import event

from accel import cpu
from accel.verify.expected import cast
from accel.verify.op import Op
from accel.verify.ops.table import OPS


def with_gaps(x: Any) -> Any:
    """Return an equal array that is every second column of another array."""
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        return x
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), 7, x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def by_columns(x: Any) -> Any:
    return np.asfortranarray(x) if isinstance(x, np.ndarray) else x


def read_only(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        x = x.copy()
        x.flags.writeable = False
    return x


LAYOUTS = [with_gaps, by_columns, read_only]


def results(op: Op, arguments: dict[str, Any], change: Callable[[Any], Any]) -> list[np.ndarray]:
    """Return the outputs and the gradients; `change` changes the layout of all arrays that both functions get.

    The outputs that a gradient gets are changed, too.
    """
    options = {name: arguments[name] for name in op.options}
    arrays = [change(value) for name, value in arguments.items() if name not in op.options]
    outputs = getattr(cpu, op.name)(*arrays, **options)
    if not op.diff:
        return list(outputs)
    d_out = np.random.default_rng(0).standard_normal(outputs[0].shape).astype(outputs[0].dtype)
    return [*outputs, *getattr(cpu, f"{op.name}_vjp")(change(d_out), tuple(map(change, outputs)), *arrays, **options)]


@pytest.mark.parametrize("change", LAYOUTS)
@pytest.mark.parametrize("operation", [op for op in OPS if op.sized], ids=lambda op: op.name)
def test_layouts_change_nothing(operation: Op, change: Callable[[Any], Any]) -> None:
    for sized in operation.sized:
        arguments = cast(operation.batched(sized()), np.float64)
        all_expected = results(operation, arguments, lambda x: x)
        with event.install_recorder("numba:compile") as compilations:
            all_actual = results(operation, arguments, change)
        assert not compilations.buffer
        for actual, expected in zip(all_actual, all_expected, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_every_operation_takes_all_layouts() -> None:
    names = [name for op in OPS for name in (op.name, f"{op.name}_vjp") if hasattr(cpu, name)]
    assert len(names) > 40 and [name for name in names if not hasattr(getattr(cpu, name), "__wrapped__")] == []


@pytest.mark.parametrize("change", LAYOUTS)
def test_biases_of_several_heads(change: Callable[[Any], Any]) -> None:
    draw, n = np.random.default_rng(0), 5
    q, k, v, r = (draw.standard_normal((n, 3, 8)) for _ in range(4))
    biases = draw.standard_normal((2, 3, 8))
    offsets, keys = np.arange(0, 2 * n + 1, 2), draw.integers(0, n, 2 * n, dtype=np.int32)
    structure = (offsets, keys, np.zeros(2 * n, np.int32))
    expected = cpu.sparse_attention(q, k, v, r, *biases, *structure)
    actual = cpu.sparse_attention(q, k, v, r, *map(change, biases), *structure)
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-12)
    gradients = (
        cpu.sparse_attention_vjp(q, expected, q, k, v, r, *b, *structure) for b in (biases, map(change, biases))
    )
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_rate_that_drops_nothing_is_none() -> None:
    draw = np.random.default_rng(0)
    x, y, d_out, (bias, scale, shift) = (draw.standard_normal((3, 5)) for _ in range(4))
    for rate in (0.0, 1e-10):
        outputs = cpu.residual_layer_norm(x, y, bias, scale, shift, rate, 7)
        d_x, d_y, d_bias, *_ = cpu.residual_layer_norm_vjp(d_out, outputs, x, y, bias, scale, shift, rate, 7)
        np.testing.assert_array_equal(d_x, d_y)
        np.testing.assert_allclose(d_bias, d_x.sum(axis=0), rtol=1e-12)
        normal = cpu.residual_norm(x, y, bias, rate, 7)
        d_x, d_y, d_bias = cpu.residual_norm_vjp(d_out, normal, x, y, bias, rate, 7)
        np.testing.assert_array_equal(d_x, d_y)
        np.testing.assert_allclose(d_bias, d_x.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("ids", [[0, 4], [-1, 0], [0, 1, 2]])
def test_sums_of_rows_refuse_indices_outside(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=r"^ids: "):
        cpu.embedding_vjp(np.ones((2, 3)), (), np.ones((4, 3)), np.array(ids, np.int32))
