"""The kernels that check input find bad input beyond their first block. These tests put NumPy in the place of CuPy."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from accel.cuda import device, forms
from accel.cuda.support import check
from accel.verify.cuda_host import launcher
from accel.verify.sizes import sizes_around
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

SIZES = sizes_around((check.THREADS,))


@pytest.mark.parametrize("size", SIZES)
def test_the_last_index_is_checked(host_backend: ModuleType, size: int) -> None:
    index = np.zeros(size, np.int32)
    for outside in (-1, 3):
        index[-1] = outside
        with pytest.raises(ValueError, match=r"ids: outside 0\.\.2"):
            check.indices({"ids": (index, 0, 3)})
    index[-1] = 2
    check.indices({"ids": (index, 0, 3)})


@pytest.mark.parametrize("size", SIZES)
def test_the_last_offset_is_checked(host_backend: ModuleType, size: int) -> None:
    offsets = np.arange(size, dtype=np.int64)
    for last in (size, size - 3):
        offsets[-1] = last
        with pytest.raises(ValueError, match=f"offsets: does not rise from 0 to {size - 1}"):
            check.indices({}, {"offsets": (offsets, size - 1)})
    offsets[-1] = size - 1
    check.indices({}, {"offsets": (offsets, size - 1)})


@pytest.mark.parametrize("size", SIZES)
def test_the_last_number_is_checked(host_backend: ModuleType, size: int) -> None:
    x = np.zeros((size, 1))
    check.finite(x=x)
    for filling in (np.nan, np.inf):
        x[-1] = filling
        with pytest.raises(ValueError, match=f"x: NaN or infinity in row {size - 1}"):
            check.finite(x=x)


def test_rows_of_another_width_than_the_table_are_named(host_backend: ModuleType) -> None:
    table, bias, labels = np.ones((4, 3)), np.ones(4), np.zeros(2, np.int32)
    for h in (np.ones((2, 5)), np.ones((2, 3, 1)), np.ones(3)):
        with pytest.raises(ValueError, match="^h: shape"):
            host_backend.cross_entropy(h, table, bias, labels)


def test_a_rate_that_drops_nothing_is_none(host_backend: ModuleType) -> None:
    """A rate below 2^-32 drops nothing: both inputs then get the same gradient, as without dropout."""
    draw = np.random.default_rng(0)
    x, y, d_out, (bias, scale, shift) = (draw.standard_normal((3, 5)) for _ in range(4))
    for rate in (0.0, 1e-10):
        outputs = host_backend.residual_layer_norm(x, y, bias, scale, shift, rate, 7)
        d_x, d_y, *_ = host_backend.residual_layer_norm_vjp(d_out, outputs, x, y, bias, scale, shift, rate, 7)
        np.testing.assert_array_equal(d_x, d_y)
        outputs = host_backend.residual_norm(x, y, bias, rate, 7)
        d_x, d_y, _ = host_backend.residual_norm_vjp(d_out, outputs, x, y, bias, rate, 7)
        np.testing.assert_array_equal(d_x, d_y)
        outputs = host_backend.residual_sums.sum_layer_norm(x, y, bias, scale, shift, rate, 7)
        d_x, d_y, *_ = host_backend.residual_sums.sum_layer_norm_vjp(d_out, d_out, outputs, scale, rate, 7)
        np.testing.assert_array_equal(d_x, d_y)


def test_rows_without_a_label_gain_nothing_where_a_graph_reads_them(host_backend: ModuleType) -> None:
    draw, labels = np.random.default_rng(0), np.array([1, -1, 2, 3, 0, 5, 4, 2, -1], np.int32)
    h, table, bias = draw.standard_normal((9, 4)), draw.standard_normal((6, 4)), draw.standard_normal(6)
    results = []
    for form in (forms.Forms("fast"), forms.Forms("fast", graphs=True)):
        with forms.use(form):
            device_labels = host_backend.from_host({"labels": labels}, labels=["labels"])["labels"]
            outputs = host_backend.smoothed_cross_entropy(h, table, bias, device_labels, 0.1)
            gradients = host_backend.smoothed_cross_entropy_vjp(np.ones(9), outputs, h, table, bias, device_labels, 0.1)
        results.append([outputs[0], *gradients])
    assert (results[1][0][labels < 0] == 0).all()
    for plain, of_graph in zip(*results, strict=True):
        np.testing.assert_allclose(of_graph, plain, rtol=1e-12, atol=1e-12)


def test_states_with_gaps_are_read_as_they_are(host_backend: ModuleType) -> None:
    draw, offsets = np.random.default_rng(0), np.array([0, 3, 5])
    gates, weight, bias = draw.standard_normal((5, 16)), draw.standard_normal((16, 4)), draw.standard_normal(16)
    h0, c0 = draw.standard_normal((2, 2, 8))[..., ::2]
    with forms.use(forms.Forms("fast")):
        results = []
        for states in ((h0, c0), (h0.copy(), c0.copy())):
            outputs = host_backend.recurrence(gates, weight, bias, *states, offsets, kind="lstm")
            results.append(
                host_backend.recurrence_vjp(outputs[0], outputs, gates, weight, bias, *states, offsets, kind="lstm")
            )
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("name", "rows"), [("causal_attention", 193), ("dot_product_attention", 128)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_head_too_wide_for_the_gradient_is_refused_at_once(
    host_backend: ModuleType, name: str, rows: int, dtype: type
) -> None:
    """Forward and backward run at the widest head that the message allows; the forward pass refuses one wider."""
    limit = (rows * 8 + 32 * 33) * np.dtype(dtype).itemsize
    device.use(device.Device(np, launcher.launch, launcher.each, limit))

    def arguments(width: int) -> list[np.ndarray]:
        x, bias, offsets = np.ones((3, 1, width), dtype), np.ones((1, width), dtype), np.array([0, 3])
        return [*[x] * (4 if rows == 193 else 3), *([bias, bias] if rows == 193 else []), offsets, offsets]

    with pytest.raises(ValueError, match="q: the gradient for heads of 8 in .* use heads of at most 7( or float32)?$"):
        getattr(host_backend, name)(*arguments(8))
    outputs = getattr(host_backend, name)(*arguments(7))
    getattr(host_backend, f"{name}_vjp")(outputs[0], outputs, *arguments(7))


def test_a_kernel_that_needs_more_shared_memory_than_there_is_says_so(host_backend: ModuleType) -> None:
    device.use(device.Device(np, launcher.launch, launcher.each, 100))
    with pytest.raises(ValueError, match="tree_gate_forward: needs .* bytes of shared memory a block, but this GPU"):
        host_backend.tree_gate(*[np.ones((2, 8))] * 4)
