"""Matrix products of the GPU backend, in both forms and every precision, agree with NumPy's; no GPU is needed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import KERNELS, PRECISIONS
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.cuda import device, forms, products
from accel.cuda.products import BIAS_ALIGNED
from accel.cuda.support import cublaslt
from accel.cuda.support.factors import DROPPED, PITCH, THREADS, factor
from accel.verify.cuda_host import cublaslt as stand_in
from accel.verify.cuda_host import cupy_array, launcher
from tests.fixtures.product_checks import assert_is_product, drawn, nearest
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "wide rows": lambda x: np.concatenate([x, np.full_like(x, np.nan)], axis=-1)[..., : x.shape[-1]],
    "wide columns": lambda x: LAYOUTS["wide rows"](x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "gaps": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}
SHAPES = [((5, 3), (3, 4)), ((1, 3), (3, 1)), ((4, 1), (1, 6)), ((2, 5, 3), (2, 3, 7)), ((3, 1, 2), (3, 2, 1))]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_every_layout(host_backend: ModuleType, kernels: str, precision: str, layout: str) -> None:
    """Products also fill an array, add to one, get a bias, and take rounded factors; float64 stays exact."""
    with forms.use(forms.Forms(kernels, precision)):
        for number, (of_a, of_b) in enumerate(SHAPES):
            for dtype in (np.float32, np.float64):
                a, b = (LAYOUTS[layout](drawn(shape, number, dtype)) for shape in (of_a, of_b))
                near = [nearest(x, precision) if dtype == np.float32 else x for x in (a, b)]
                value = host_backend.matmul(a, b)
                assert value.dtype == dtype
                assert_is_product(value, *near)
                out, bias = drawn(value.shape, 7, dtype), drawn(value.shape[-1:], 8, dtype)
                before = out.copy()
                assert host_backend.matmul(factor(a), factor(b), out=out, add=True) is out
                assert_is_product(out, *near, before)
                assert_is_product(host_backend.matmul(a, b, out=out, bias=bias), *near, bias)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_of_several_pairs(host_backend: ModuleType, kernels: str, precision: str) -> None:
    """One factor is shared; the others are parts of a flat vector or separate; some products are empty."""
    flat = drawn((200,), 0)
    parts = [flat[start : start + 12].reshape(3, 4) for start in (0, 64, 128)]
    for weights in (parts, parts[::-1], [parts[0], parts[2], parts[1]], [x.copy() for x in parts], parts[:1]):
        for x in (drawn((5, 3), 1), drawn((3, 5), 2).T, drawn((5, 6), 3)[:, ::2], drawn((0, 3), 4)):
            with forms.use(forms.Forms(kernels, precision)):
                outs = [np.full((len(x), 4), float(i), np.float32) for i in range(len(weights))]
                values = host_backend.matmul_all([x] * len(weights), weights)
                host_backend.matmul_all([x] * len(weights), weights, outs, add=True)
            for number, weight in enumerate(weights):
                near = nearest(x, precision), nearest(weight, precision)
                assert_is_product(values[number], *near)
                assert_is_product(outs[number], *near, float(number))


@pytest.mark.parametrize("kernels", KERNELS)
def test_pairs_at_equal_distances_are_one_product(host_backend: ModuleType, kernels: str) -> None:
    """Matrices at equal distances are one product, also for the gradients, where the shared factor is transposed.

    Matrices in another order are a product each.
    """
    gpu = launcher.host_backend()
    flat, x = gpu.xp.asarray(drawn((200,), 0)), gpu.xp.asarray(drawn((5, 3), 1))
    weights = [flat[start : start + 12].reshape(3, 4) for start in (0, 64, 128)]
    with forms.use(forms.Forms(kernels)), cupy_array.counted() as counts:
        values = gpu.matmul_all([x] * 3, weights)
        gpu.matmul_all([x.T] * 3, values, weights, add=True)
    assert cupy_array.totals(counts)["kernels"] == 2
    with cupy_array.counted() as counts:
        gpu.matmul_all([x] * 3, [weights[i] for i in (0, 2, 1)])
        gpu.matmul_all([x] * 2, weights[1::-1])
    assert cupy_array.totals(counts)["kernels"] == 5
    with pytest.raises(ValueError, match="b: shape"):
        gpu.matmul_all([x] * 2, [weights[0], weights[0].T])


def test_arrays_that_lie_apart_by_chance_are_a_product_each(host_backend: ModuleType) -> None:
    """Two separate arrays always lie at some distance: the number of kernels must not depend on it."""
    gpu = launcher.host_backend()
    x, *weights = (gpu.xp.asarray(array) for array in (drawn((5, 3), 1), drawn((3, 4), 2), drawn((3, 4), 3)))
    weights.sort(key=device.address)
    with cupy_array.counted() as counts:
        gpu.matmul_all([x] * 2, weights)
    assert cupy_array.totals(counts)["kernels"] == 2


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_sums_of_products(host_backend: ModuleType, kernels: str, precision: str) -> None:
    """Pairs are at equal distances, in another order, two, or without rows; also added to a matrix."""
    for n, width in ((5, 3), (5, 64), (0, 3)):
        flat, gradients = drawn((3, 4, width), 0), drawn((3, n, width), 1)
        for numbers in ((0, 1, 2), (0, 2, 1), (1, 2), (2,)):
            a, b = [gradients[i] for i in numbers], [flat[i].T for i in numbers]
            near = [np.concatenate([nearest(x, precision) for x in y], axis) for y, axis in ((a, 1), (b, 0))]
            out = drawn((n, 4), 2)
            before = out.copy()
            with forms.use(forms.Forms(kernels, precision)):
                assert_is_product(host_backend.matmul_sum(a, b), *near)
                assert host_backend.matmul_sum(a, b, out) is out
                assert_is_product(out, *near)
                out[...] = before
                assert host_backend.matmul_sum(a, b, out, add=True) is out
            assert_is_product(out, *near, before)


@pytest.mark.parametrize("kernels", KERNELS)
def test_three_products_are_added_by_two_kernels(host_backend: ModuleType, kernels: str) -> None:
    gpu = launcher.host_backend()
    a, b = (gpu.xp.asarray(drawn(shape, 0)) for shape in ((3, 5, 3), (3, 4, 3)))
    for count in (3, 2):
        with forms.use(forms.Forms(kernels)), cupy_array.counted() as counts:
            gpu.matmul_sum(list(a)[:count], [x.T for x in list(b)[:count]])
        assert cupy_array.totals(counts)["kernels"] == 2
    for wrong in (gpu.xp.zeros((5, 3), np.float32), gpu.xp.zeros((5, 4))):
        with pytest.raises(ValueError, match="^out: "):
            gpu.matmul_sum(list(a), [x.T for x in b], wrong)


@pytest.mark.parametrize("kernels", KERNELS)
def test_products_without_a_sum(host_backend: ModuleType, kernels: str) -> None:
    with forms.use(forms.Forms(kernels)):
        out = np.ones((2, 3), np.float32)
        assert not host_backend.matmul(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), out=out).any()
        assert host_backend.matmul(np.ones((0, 2), np.float32), np.ones((2, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("precision", DROPPED)
def test_rounding(host_backend: ModuleType, precision: str) -> None:
    """Numbers are rounded to nearest, ties to even; NaN stays NaN, and what is too large becomes infinity.

    Sizes are those around a block of threads.
    """
    one, dropped = 0x3F800000, DROPPED[precision]
    unit, half = 1 << dropped, 1 << (dropped - 1)
    least = one & ~(2 * unit - 1)
    bits = [least + half, least + half + 1, least + half - 1, least + unit + half, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
    expected = [least, least + unit, least, least + 2 * unit, 0x7F800000, 0x7F800000, 0xFF800000]
    bits, expected = [*bits, 0x80000000, 1, half + 1], [*expected, 0x80000000, 0, unit]
    x = np.array(bits, np.uint32).view(np.float32)
    with forms.use(forms.Forms("plain", precision)):
        assert host_backend.xp is np
        np.testing.assert_array_equal(factor(x[None])[0].view(np.uint32), np.array(expected, np.uint32))
        nan = np.array([0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
        assert np.isnan(factor(nan[None])).all()
        for size in (THREADS - 1, THREADS, THREADS + 1):
            row = drawn((1, size), size)
            np.testing.assert_array_equal(factor(row), nearest(row, precision))
    np.testing.assert_array_equal(stand_in.rounded(x, dropped).view(np.uint32), np.array(expected, np.uint32))


def test_bf16_has_aligned_rows(host_backend: ModuleType) -> None:
    """Rows of bf16 begin at multiples of 16 bytes; their bits are those of the plain form; NaN stays NaN."""
    for shape in ((3, THREADS + 1), (PITCH, PITCH - 1), (2, 3, PITCH + 1), (2, 3, PITCH), (3, THREADS * PITCH)):
        x = drawn(shape, 0)
        x[..., 0] = np.array(0x7F800001, np.uint32).view(np.float32)
        with forms.use(forms.Forms("plain", "bf16")):
            plain = factor(x)
        with forms.use(forms.Forms("fast", "bf16")):
            fast = factor(x)
        assert fast.shape == shape and fast.strides[-2] % (2 * PITCH) == 0
        np.testing.assert_array_equal((fast.astype(np.uint32) << 16).view(np.float32), plain)


def test_a_bias_is_added_where_it_is_aligned(host_backend: ModuleType) -> None:
    """The library adds an aligned float32 bias in its own kernel; any other bias is added after the product."""
    x, w = drawn((5, 3), 0), drawn((3, 4), 1)
    memory = np.zeros(PITCH * BIAS_ALIGNED, np.uint8)
    start = -memory.ctypes.data % BIAS_ALIGNED
    for offset, epilogue in ((0, cublaslt.Epilogue.BIAS), (4, cublaslt.Epilogue.NONE)):
        bias = memory[start + offset :][:BIAS_ALIGNED].view(np.float32)
        bias[:] = [1, 2, 3, 4]
        with forms.use(forms.Forms("fast")):
            assert_is_product(host_backend.matmul(x, w, bias=bias), x, w, bias)
            assert stand_in.functions().products[-1].epilogue == epilogue
            host_backend.matmul(*(y.astype(np.float64) for y in (x, w)), bias=bias.astype(np.float64))
        assert stand_in.functions().products[-1].epilogue == cublaslt.Epilogue.NONE


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_product_sums_a_factor(host_backend: ModuleType, precision: str) -> None:
    """A product also sums the rows of a factor, as it is rounded, also if it is added to an array.

    A factor in the other memory order is refused.
    """
    for n, m, k in ((5, 4, 3), (1, 4, 3), (5, 1, 3), (5, 4, 1), (1, 1, 1)):
        gradients, x = drawn((k, n), 0), drawn((k, m), 1)
        assert not products.fuses_sums(gradients)
        for which, factors in (("sums_of_b", (x.T, gradients)), ("sums_of_a", (gradients.T, x))):
            sums, out = np.full(n, np.nan, np.float32), drawn((factors[0].shape[0], factors[1].shape[1]), 7)
            before = out.copy()
            with forms.use(forms.Forms("fast", precision)):
                assert products.fuses_sums(gradients) and not products.fuses_sums(gradients.astype(np.float64))
                gradient_factor, x_factor = factor(gradients), factor(x)
                of_form = (x_factor.T, gradient_factor) if which == "sums_of_b" else (gradient_factor.T, x_factor)
                host_backend.matmul(*of_form, out=out, add=True, **{which: sums})
            assert stand_in.functions().products[-1].epilogue != cublaslt.Epilogue.NONE
            near = [nearest(y, precision) for y in factors]
            assert_is_product(out, *near, before)
            assert_is_product(sums[None], np.ones((1, k)).astype(np.float32), nearest(gradients, precision))
            with pytest.raises(ValueError, match=f"{which}: sums need fast kernels, float32, and an address"):
                host_backend.matmul(*factors, **{which: sums})
    gradients, x = np.asfortranarray(drawn((3, 5), 0)), drawn((3, 4), 1)
    with forms.use(forms.Forms("fast", precision)):
        assert not products.fuses_sums(gradients)
        for which, factors in (("sums_of_b", (x.T, gradients)), ("sums_of_a", (gradients.T, x))):
            with pytest.raises(RuntimeError, match="cublasLtMatmulAlgoGetHeuristic failed with status 15"):
                host_backend.matmul(*factors, **{which: np.zeros(5, np.float32)})


@pytest.mark.parametrize("name", ["linear", "project"])
def test_a_bias_gets_its_gradient_from_the_product(host_backend: ModuleType, name: str) -> None:
    """Fast kernels sum the bias's gradient in the product, without a kernel of its own; in float64 it has one."""
    gpu = launcher.host_backend()
    for dtype in (np.float32, np.float64):
        results, kernels = [], []
        for form in KERNELS:
            x, w, b = (Variable(gpu.xp.asarray(drawn(shape, 0, dtype))) for shape in ((6, 3), (3, 3), (3,)))
            with forms.use(forms.Forms(form)):
                tape = Tape(gpu)
                y = getattr(tape, name)(x, w, b)
                with cupy_array.counted() as counts:
                    tape.backward(y, gpu.xp.asarray(drawn((6, 3), 1, dtype)))
            results.append([variable.gradient.get() for variable in (x, w, b)])
            kernels.append(cupy_array.totals(counts)["kernels"])
        assert kernels[1] == kernels[0] - (dtype == np.float32)
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)), np.ones((3, 2), np.float32)), "b: dtype float32, but that of a is float64"),
        ((np.ones((2, 3)), np.ones((2, 3))), "b: shape"),
        ((np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 3))), "out: float64 .2, 3. is not float64 .2, 2."),
        ((np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 4))[:, ::2]), "out: not C-contiguous"),
    ],
)
def test_what_would_read_other_memory_is_refused(host_backend: ModuleType, arguments: Any, message: str) -> None:
    with forms.use(forms.Forms("fast")), pytest.raises(ValueError, match=message):
        host_backend.matmul(*arguments)


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(ValueError, match="precision: 'fp16' is not known; use float32 or tf32 or bf16"):
        forms.Forms(precision="fp16")
