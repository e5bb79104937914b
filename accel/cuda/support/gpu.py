"""A GPU: kernels in CUDA C++ by CuPy, kernels in Numba CUDA, and cuBLAS.

CuPy is imported only here, when a function is first called: every module can be imported without it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from accel import BackendUnavailable
from accel.cuda.device import REAL, SEQUENCES, STATIC_SHARED_LIMIT, Device, source_text
from accel.cuda.support.cublaslt import declared
from accel.cuda.support.graphs import captured_by_cupy
from accel.cuda.support.streams import sent

BLOCK_REGISTERS = 2**16  # all that a multiprocessor has
THREAD_REGISTERS = 255
FOUR_WARPS = 128  # threads: one warp of each of the four parts of a multiprocessor
REGISTERS_TOGETHER = 8  # a thread has a multiple of so many registers


def open_gpu() -> Device:
    """Return the current GPU. Raises BackendUnavailable, with the cause, if there is none or a package is missing."""
    try:
        import cupy
    except ImportError as cause:
        raise BackendUnavailable(f"CuPy is missing (pip install 'grove-lm[cuda12]' or '[cuda13]'): {cause}") from cause
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as cause:
        raise BackendUnavailable(f"CuPy finds no GPU: {cause}") from cause
    from numba import config, cuda

    if not cuda.is_available():
        raise BackendUnavailable("Numba finds no GPU, though CuPy does (pip install 'grove-lm[cuda12]' or '[cuda13]')")
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # few threads are intended: one a sequence
    config.CUDA_ARRAY_INTERFACE_SYNC = 0  # kernels run on the stream that made their arrays: no need to wait
    _complete_numba()
    attributes, capability = cupy.cuda.Device().attributes, int(cupy.cuda.Device().compute_capability)
    return Device(
        cupy, _launch, _each, attributes["MaxSharedMemoryPerBlockOptin"], _stream, _cublaslt, _multiply,
        captured_by_cupy, _pinned, sent, attributes["MultiProcessorCount"], cupy.cuda.runtime.getDevice, capability,
    )  # fmt: skip


def _complete_numba() -> None:
    """Import all of numba-cuda: its versions up to 0.30 need `np.row_stack`, which NumPy 2.5 no longer has."""
    if "row_stack" in vars(np):
        return
    np.row_stack = np.vstack  # type: ignore[attr-defined]
    try:
        with suppress(ImportError):  # without numba-cuda, `numba.cuda` is Numba's own
            import_module("numba.cuda.np.arrayobj")
    finally:
        del np.row_stack  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Foreign:
    """A stream of another library, in the form of the CUDA stream protocol."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer  # the version of the protocol, and a `cudaStream_t`


@contextmanager
def on_stream(pointer: int, number: int) -> Iterator[None]:
    """Run CuPy and all kernels on this stream, a `cudaStream_t`, of the GPU of that number."""
    import cupy

    with cupy.cuda.Device(number), cupy.cuda.Stream.from_external(_Foreign(pointer)):
        yield


def _stream() -> int:
    import cupy

    return cupy.cuda.get_current_stream().ptr  # type: ignore[no-any-return]


@lru_cache
def _cublaslt() -> Any:
    import cupy

    cupy.cuda.device.get_cublas_handle()  # loads cuBLAS, and with it cuBLASLt, which is then found by name
    name = f"libcublasLt.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}"
    try:
        return declared(ctypes.CDLL(name))
    except OSError as cause:
        raise BackendUnavailable(f"cuBLASLt is missing ({cause}): leave out --kernels fast") from cause


@lru_cache
def _scalars(double: bool) -> tuple[np.ndarray, int, int]:
    """Return an array of 0 and 1, and the address of each: cuBLAS reads them in host memory."""
    numbers = np.arange(2, dtype=np.float64 if double else np.float32)
    return numbers, numbers.ctypes.data, numbers.ctypes.data + numbers.itemsize


@lru_cache
def _products() -> tuple[Callable[[], int], ModuleType]:
    """Return the function that returns the handle of cuBLAS, and the module of the functions of cuBLAS."""
    from cupy.cuda.device import get_cublas_handle
    from cupy_backends.cuda.libs import cublas

    return get_cublas_handle, cublas


def _multiply(problem: Any, a: int, b: int, out: int, add: bool) -> None:
    handle, cublas = _products()
    double, (of_a, of_b, of_out) = problem.out.type != 0, (problem.a, problem.b, problem.out)
    _, zero, one = _scalars(double)
    sizes = of_out.rows, of_out.columns, of_a.rows if of_a.transposed else of_a.columns
    shapes = int(of_a.transposed), int(of_b.transposed), *sizes
    beta = one if add else zero
    if problem.batch == 1:
        call = cublas.dgemm if double else cublas.sgemm
        call(handle(), *shapes, one, a, of_a.pitch, b, of_b.pitch, beta, out, of_out.pitch)
    else:
        call = cublas.dgemmStridedBatched if double else cublas.sgemmStridedBatched
        call(
            handle(), *shapes, one, a, of_a.pitch, of_a.stride, b, of_b.pitch, of_b.stride,
            beta, out, of_out.pitch, of_out.stride, problem.batch,
        )  # fmt: skip


@lru_cache
def _module(source: str, dtype: str, chunks: int, registers: int) -> Any:
    import cupy

    options = "--std=c++17", f"-DREAL={REAL[dtype]}", f"-DCHUNKS={chunks}", f"--maxrregcount={registers}"
    return cupy.RawModule(code=source_text(source), options=options)


@lru_cache
def _function(source: str, kernel: str, dtype: np.dtype[Any], chunks: int, block: tuple[int, ...]) -> Any:
    return _module(source, dtype.name, chunks, _most_registers(prod(block))).get_function(kernel)


def _launch(
    source: str,
    kernel: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    dtype: np.dtype[Any],
    chunks: int,
    shared: int,
    cooperative: bool,
) -> None:
    function = _function(source, kernel, dtype, chunks, block)
    if shared > STATIC_SHARED_LIMIT:
        function.max_dynamic_shared_size_bytes = shared
    function.kernel(grid, block, args, shared, enable_cooperative_groups=cooperative)


def _most_registers(threads: int) -> int:
    """Return how many registers a thread of such a block may have; more are spilled, so that no launch fails.

    A multiprocessor has four parts, and each holds the registers of every fourth warp: warps count in fours.
    """
    threads = -(-threads // FOUR_WARPS) * FOUR_WARPS
    return min(THREAD_REGISTERS, BLOCK_REGISTERS // threads // REGISTERS_TOGETHER * REGISTERS_TOGETHER)


@lru_cache
def _compiled(kernel: Callable[..., None]) -> Any:
    from numba import cuda

    return cuda.jit(kernel)


def _each(kernel: Callable[..., None], count: int, *args: Any) -> None:
    import cupy
    from numba import cuda

    pointer = cupy.cuda.get_current_stream().ptr
    stream = cuda.external_stream(pointer) if pointer else cuda.default_stream()
    _compiled(kernel)[-(-count // SEQUENCES), SEQUENCES, stream](*args)


def _pinned(size: int) -> np.ndarray:
    import cupy

    return np.frombuffer(cupy.cuda.alloc_pinned_memory(max(1, size)), np.uint8, size)
