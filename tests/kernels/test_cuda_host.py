"""The stand-in for a GPU reports faults that a GPU hides; and kernels are right at sizes larger than the table's.

These tests put NumPy in the place of CuPy, and restore the GPU at their end.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from accel import ref
from accel.cuda import device, layers
from accel.cuda.support import check
from accel.cuda.support.copies import copy_all
from accel.verify.cuda_host import launcher
from tests.fixtures.gradient_checks import directional
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

KERNELS = """
#include "warp.cu"
extern "C" __global__ void diverges(REAL* x) { if (threadIdx.x < 7) __syncthreads(); x[threadIdx.x] = 1; }
extern "C" __global__ void drops_lanes(REAL* x) { if (threadIdx.x < 7) x[threadIdx.x] = warp_sum(x[threadIdx.x]); }
extern "C" __global__ void overruns(REAL* x) { DYNAMIC_SHARED(shared); shared[threadIdx.x] = x[0]; }
extern "C" __global__ void reads_early(REAL* x)
{
    DYNAMIC_SHARED(shared);
    shared[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = shared[63 - threadIdx.x];
}
extern "C" __global__ void reverses(REAL* x)
{
    DYNAMIC_SHARED(shared);
    shared[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = shared[63 - threadIdx.x];
}
"""


@pytest.fixture
def own_kernels(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    text = KERNELS.replace('#include "warp.cu"', device.source_text("support/warp"))
    monkeypatch.setattr(device, "source_text", lambda source: text)


def run(kernel: str, *args: object, shared: int = 64 * 8) -> None:
    device.launch("kernels", kernel, (1,), (64,), args, np.float64, shared=shared)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("diverges", "waits alone"), ("drops_lanes", "waits alone"), ("overruns", "past its end")],
)
def test_faults_are_reported(own_kernels: None, kernel: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"{kernel}: .*{message}"):
        run(kernel, np.zeros(64), shared=8)
    x = np.arange(64.0)
    run("reverses", x)  # the next kernel runs as before
    assert np.array_equal(x, np.arange(63.0, -1, -1))


def test_a_missing_barrier_reads_nan(own_kernels: None) -> None:
    x = np.arange(64.0)
    run("reads_early", x)
    assert np.isnan(x).any()


def test_arguments_have_the_types_of_the_kernel(own_kernels: None) -> None:
    for wrong in (np.zeros(64, np.float32), 3, np.zeros(64, np.int64)):
        with pytest.raises(TypeError, match="reverses: arguments .* takes \\*f8"):
            run("reverses", wrong)
    with pytest.raises(TypeError, match="not contiguous"):
        run("reverses", np.zeros(128)[::2])


@pytest.mark.parametrize("width", [33, 70])
def test_heads_wider_than_a_warp_and_rows_longer(host_backend: ModuleType, width: int) -> None:
    """There are more than 32 numbers a head, 32 keys a row, 64 rows a key, and more than one tile."""
    heads, n, s = 2, 70, 90
    floats = draw((n, heads, width), *[(s, heads, width)] * 3, *[(heads, width)] * 2)
    sets = [sorted({0, *range(i % 40), i}) for i in range(n)]
    offsets = np.concatenate([[0], np.cumsum([len(keys) for keys in sets])])
    keys = np.concatenate(sets).astype(np.int32)
    for name, args, options in (
        ("sparse_attention", [*floats, offsets, keys, keys[::-1].copy()], {"rate": 0.3, "seed": 5}),
        ("causal_attention", [*floats, np.array([0, 40, n]), np.array([0, 40, s])], {}),
        ("causal_attention", [*floats, np.array([0, 1, n]), np.array([0, 17, s])], {"rate": 0.3, "seed": 5}),
    ):
        for fast, exact in zip(
            getattr(host_backend, name)(*args, **options), getattr(ref, name)(*args, **options), strict=True
        ):
            np.testing.assert_allclose(fast, exact, rtol=1e-11, atol=1e-11)
        directional(host_backend, name, args, 6, **options)


def test_logits_in_parts(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    args = [*draw((9, 5), (300, 5), (300,)), np.array([3, -1, 0, 299, 7, -1, 7, 5, 1], np.int32)]
    whole = host_backend.cross_entropy(*args)
    np.testing.assert_allclose(whole[0], ref.cross_entropy(*args)[0], rtol=1e-12)
    monkeypatch.setattr(layers, "LOGITS_AT_ONCE", 700)
    assert np.array_equal(host_backend.cross_entropy(*args)[0], whole[0])
    directional(host_backend, "cross_entropy", args, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_may_begin_anywhere(host_backend: ModuleType, dtype: type) -> None:
    """Kernels that load 16 bytes at once give the same bits for arrays at any address and of any size."""
    base = draw((40,), (40,), (40,), (40,))
    options = {"rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "step": 3, "scale": 0.5}
    for size in (1, 3, 4, 33):
        results = []
        for begin in range(5):
            parts = [np.abs(x).astype(dtype)[:size] for x in base]
            views = [np.full(48, np.nan, dtype)[begin : begin + size] for _ in parts]
            for view, part in zip(views, parts, strict=True):
                view[...] = part
            dropped = host_backend.dropout(views[0].reshape(-1, 1), 0.3, 7)[0].ravel()
            copied = np.full(48, np.nan, dtype)
            copy_all([(copied[begin : begin + size], views[0])])
            host_backend.adam(*views, **options)
            results.append(np.concatenate([dropped, copied[begin : begin + size], *views]))
            assert np.isnan(copied).sum() == 48 - size and all(np.isnan(x.base).sum() == 48 - size for x in views)
            views[1][-1] = np.inf
            with pytest.raises(ValueError, match=f"x: NaN or infinity in row {size - 1}"):
                check.finite(x=views[1])
        assert all(np.array_equal(result, results[0]) for result in results)


def test_adam_is_that_of_the_reference(host_backend: ModuleType) -> None:
    fast = draw((50,), (50,), (50,), (50,))
    fast[3] **= 2
    exact = [x.copy() for x in fast]
    options = {"rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "step": 3, "scale": 0.5}
    host_backend.adam(*fast, **options)
    ref.adam(*exact, **options)
    for a, b in zip(fast, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    with pytest.raises(ValueError, match="first: not contiguous"):
        host_backend.adam(fast[0], fast[1], np.zeros(100)[::2], fast[3], **options)


def test_import_needs_no_gpu() -> None:
    """Without CuPy, or without a GPU, the package imports; its first use names the missing part."""
    program = (
        "import sys; sys.modules['cupy'] = None\n"
        "import accel, accel.cuda\n"
        "assert accel.available()['cuda'].startswith('CuPy is missing'), accel.available()\n"
        "try: accel.cuda.xp\n"
        "except accel.BackendUnavailable: print('named')"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=launcher.FOLDER.parents[2]
    )
    assert process.stdout == "named\n", process.stderr
