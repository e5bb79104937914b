"""The layouts that cuBLASLt is told: the stand-in reads memory by them, so a wrong layout gives wrong values."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from accel.cuda import device, forms, products
from accel.cuda.support import cublaslt, gpu
from accel.cuda.support.cublaslt import MOST_ALIGNED, SIGNATURES, WORKSPACE, Library
from accel.verify.cuda_host import cublaslt as stand_in
from accel.verify.cuda_host import launcher
from tests.fixtures.product_checks import drawn
from tests.fixtures.stand_in_gpu import host_backend
from tests.fixtures.training_steps import STEPS, counts_of

__all__ = ["host_backend"]


def test_the_library_is_told_the_layouts(host_backend: ModuleType) -> None:
    """Our row order is column order for cuBLASLt: it computes out^T = b^T a^T, so b comes first."""
    library = stand_in.functions()
    x, w = drawn((5, 3), 0), drawn((3, 4), 1)
    with forms.use(forms.Forms("fast", "tf32")):
        host_backend.matmul(x, w)
        host_backend.matmul(x.T, drawn((5, 4), 2))
    forward, backward = library.products[-2:]
    assert (forward.compute, forward.transposed, forward.batch) == (cublaslt.Compute.TF32, (False, False), 1)
    shapes = [(m.type, m.rows, m.columns, m.pitch) for m in (forward.a, forward.b, forward.out)]
    assert shapes == [(0, 4, 3, 4), (0, 3, 5, 3), (0, 4, 5, 4)]
    assert backward.transposed == (False, True) and (backward.b.rows, backward.b.columns) == (3, 5)
    memory = np.zeros(1024, np.uint8)
    start = -memory.ctypes.data % MOST_ALIGNED
    for offset, alignment in ((0, MOST_ALIGNED), (16, 16), (4, 4)):
        part = memory[start + offset : start + offset + 48].view(np.float32).reshape(3, 4)
        with forms.use(forms.Forms("fast")):
            host_backend.matmul(x, part)
        assert library.products[-1].a.aligned == alignment
    assert WORKSPACE >= 32 << 20  # what cuBLAS itself takes on an H100


WRONG: dict[str, Callable[[cublaslt.Matrix], dict[str, Any]]] = {
    "a leading dimension too large": lambda matrix: {"pitch": matrix.pitch + 1},
    "a leading dimension too small": lambda matrix: {"pitch": matrix.pitch - 1},
    "rows for columns": lambda matrix: {"rows": matrix.columns, "columns": matrix.rows},
    "transposed": lambda matrix: {"transposed": not matrix.transposed},
    "a batch of one matrix": lambda matrix: {"stride": 0},
    "another type": lambda matrix: {"type": cublaslt.Type.FLOAT64},
    "alignment that is not there": lambda matrix: {"aligned": 2 * MOST_ALIGNED},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_layout_shows(host_backend: ModuleType, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in refuses a wrong layout, or returns a wrong product."""
    plain, change = products._seen, WRONG[wrong]
    memory = np.full(49, np.nan, np.float32)
    first = int(memory.ctypes.data % (2 * MOST_ALIGNED) == 0)  # so that no alignment is there by chance
    a = memory[first : first + 48].reshape(2, 6, 4)
    a[:, :3, :] = drawn((2, 3, 4), 0)
    b = drawn((2, 4, 5), 1)

    def seen(x: np.ndarray, *options: bool) -> tuple[np.ndarray, cublaslt.Matrix]:
        array, matrix = plain(x, *options)
        if x.shape == (2, 3, 4):
            matrix = matrix._replace(**change(matrix))
        return array, matrix

    monkeypatch.setattr(products, "_seen", seen)
    value = None
    with forms.use(forms.Forms("fast")), suppress(RuntimeError):
        value = host_backend.matmul(a[:, :3], b)
    assert value is None or not np.allclose(value, a[:, :3] @ b)


def test_a_failure_names_the_function(host_backend: ModuleType) -> None:
    library = Library(stand_in.HostLibrary())
    with pytest.raises(RuntimeError, match="cublasLtMatmulDescSetAttribute failed with status 7"):
        library.set("MatmulDesc", ctypes.c_void_p(99), cublaslt.Operation.EPILOGUE, ctypes.c_uint32(1))


def test_the_plans_that_are_kept_are_bounded(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """New lengths make new problems: the descriptors of the least recently used plans are freed."""
    functions = stand_in.HostLibrary()
    library = Library(functions)
    monkeypatch.setattr(cublaslt, "KEPT", 2)
    monkeypatch.setattr(products, "_library", lambda *_: library)
    w = drawn((3, 4), 1)
    for n in (1, 2, 1, 3, 4, 1, 5, 1):
        x = drawn((n, 3), n)
        with forms.use(forms.Forms("fast")):
            np.testing.assert_allclose(host_backend.matmul(x, w), x @ w, rtol=1e-5, atol=1e-6)
    assert [problem.b.columns for problem in library.plans] == [5, 1]
    left = [described.kind for described in functions.described]
    assert (left.count("MatmulDesc"), left.count("MatrixLayout"), left.count("MatmulPreference")) == (2, 6, 0)


def test_numbers_are_those_of_the_library() -> None:
    """They are in `cublasLt.h` and `library_types.h`; without a GPU no other test would see a wrong number."""
    numbers = {cublaslt.Type: (0, 1, 14), cublaslt.Compute: (68, 70, 77), cublaslt.Operation: (3, 4, 7, 8)}
    numbers |= {cublaslt.Epilogue: (1, 4, 256, 512), cublaslt.Layout: (5, 6), cublaslt.Preference: (1, 5, 6, 7, 8)}
    for kind, values in numbers.items():
        assert tuple(member.value for member in kind) == values, kind


def test_cublaslt_itself_takes_the_descriptors() -> None:
    """The real cuBLASLt accepts our types, attributes and their sizes; this needs no GPU."""
    libraries = []
    for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
        with suppress(OSError):
            libraries.append(ctypes.CDLL(name))
    if not libraries:
        pytest.skip("cuBLASLt is not here (pip install nvidia-cublas-cu12, and its folder in LD_LIBRARY_PATH)")
    library = Library.__new__(Library)
    library.functions = cublaslt.declared(libraries[0])
    for kind, attributes in stand_in.SIZES.items():
        compute = (cublaslt.Compute.TF32, cublaslt.Type.FLOAT32)
        numbers = {"MatmulDesc": compute, "MatrixLayout": (cublaslt.Type.BFLOAT16, 4, 3, 8), "MatmulPreference": ()}
        where = library.created(f"cublasLt{kind}Create", *numbers[kind])
        for attribute, size in attributes.items():
            library.set(kind, where, attribute, {4: ctypes.c_int32, 8: ctypes.c_int64}[size](16))
            with pytest.raises(RuntimeError, match="status 7"):
                library.set(kind, where, attribute, ctypes.c_int16(16))
    assert {name for name in SIGNATURES if not hasattr(libraries[0], name)} == set()


def test_a_gpu_opens_the_library_with_the_types_of_its_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is opened with argument types: without them ctypes passes an address as a 32-bit `int`."""
    library = SimpleNamespace(**{name: SimpleNamespace() for name in SIGNATURES})
    monkeypatch.setitem(sys.modules, "cupy", MagicMock())
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    functions = gpu._cublaslt.__wrapped__()
    assert {name: tuple(getattr(functions, name).argtypes) for name in SIGNATURES} == SIGNATURES


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_gpu_tells_cublas_the_same(
    monkeypatch: pytest.MonkeyPatch, dtype: type, add: bool, batch: tuple[int, ...]
) -> None:
    """The arguments for cuBLAS, read as its manual says (column order, leading dimensions), give the right product."""
    kind = {np.float32: "s", np.float64: "d"}[dtype]
    name, strided = f"{kind}gemm{'StridedBatched' * bool(batch)}", bool(batch)
    cublas = SimpleNamespace(**{name: partial(gemm, dtype, strided)})
    monkeypatch.setattr(gpu, "_products", lambda: (lambda: 7, cublas))
    monkeypatch.setattr(device, "_device", device.Device(np, launcher.launch, launcher.each, multiply=gpu._multiply))
    a, b, out = (drawn((*batch, *shape), i).astype(dtype) for i, shape in enumerate([(4, 5), (3, 4), (5, 3)]))
    expected = a.swapaxes(-1, -2) @ b.swapaxes(-1, -2) + add * out
    products.matmul(a.swapaxes(-1, -2), b.swapaxes(-1, -2), out, add=add)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def gemm(dtype: Any, strided: bool, handle: int, of_a: int, of_b: int, m: int, n: int, k: int, *rest: int) -> None:
    """Compute what `gemm` or `gemmStridedBatched` of cuBLAS computes, in host memory."""
    assert handle == 7
    if strided:
        alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch = rest
    else:
        (alpha, a, lda, b, ldb, beta, c, ldc), batch = rest, 1
        stride_a = stride_b = stride_c = 0

    def matrix(address: int, pitch: int, stride: int, rows: int, columns: int) -> np.ndarray:
        number = {np.float32: ctypes.c_float, np.float64: ctypes.c_double}[dtype]
        size = stride * (batch - 1) + pitch * (columns - 1) + rows
        flat = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(number)), (size,))
        strides = np.array([stride, 1, pitch]) * flat.itemsize
        return np.lib.stride_tricks.as_strided(flat, (batch, rows, columns), strides)

    x = matrix(a, lda, stride_a, *((k, m) if of_a else (m, k)))
    y = matrix(b, ldb, stride_b, *((n, k) if of_b else (k, n)))
    x, y = (z.swapaxes(1, 2) if is_transposed else z for z, is_transposed in ((x, of_a), (y, of_b)))
    out, (one, zero_or_one) = matrix(c, ldc, stride_c, m, n), (matrix(p, 1, 0, 1, 1)[0, 0, 0] for p in (alpha, beta))
    out[:] = one * (x @ y) + zero_or_one * out


@pytest.mark.parametrize("name", STEPS)
def test_a_step_on_cublaslt(host_backend: ModuleType, name: str) -> None:
    """No product of a step uses CuPy or cuBLAS, which a graph cannot capture, except the gradient's norm."""
    with forms.use(forms.Forms("fast", "bf16")):
        counts = counts_of(name, launcher.host_backend())
    assert counts["kernels", "cublasLtMatmul"] > 0
    assert counts["kernels", "dot"] <= 1 and not counts["kernels", "matmul"] + counts["kernels", "gemm"]
