"""The access to the GPU: the array module, kernels in CUDA C++ and kernels in Numba CUDA.

The GPU is opened by `support.gpu` when one of the three is first used. `use` replaces all three: the tests run the same
host code and the same kernels on NumPy arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel import BackendUnavailable

Array = Any  # cupy.ndarray, or numpy.ndarray in the tests

REAL = {"float32": "float", "float64": "double"}
SEQUENCES = 64  # threads a block of the kernels that walk a sequence each
STATIC_SHARED_LIMIT = 48 * 1024  # bytes; a kernel that needs more must raise its limit first
WIDE = 16  # bytes that one thread loads at once, as in support/wide.cu


@dataclass(frozen=True)
class Device:
    """A GPU, or what replaces it: `launch` and `each` take the arguments of the functions of those names below.

    `pinned` returns so many bytes of host memory, and `sent` a copy of them on the device.
    """

    xp: ModuleType
    launch: Callable[..., None]
    each: Callable[..., None]
    shared_limit: int = 227 * 1024  # bytes of shared memory that a block may have, as on an H100
    stream: Callable[[], int] = lambda: 0  # the current one, a `cudaStream_t`
    cublaslt: Callable[[], Any] | None = None  # returns the library with its C functions
    multiply: Callable[..., None] | None = None  # takes the arguments of the function of that name
    captured: Callable[..., Any] | None = None  # takes the argument of the function of that name
    pinned: Callable[[int], np.ndarray] = partial(np.empty, dtype=np.uint8)
    sent: Callable[[np.ndarray], Array] = np.copy
    multiprocessors: int = 3  # few on the host, where all blocks of a cooperative launch exist at once
    number: Callable[[], int] = lambda: 0  # of the current GPU
    capability: int = 90  # the compute capability, times ten


_device: Device | None = None


def use(device: Device | None) -> None:
    """Work on this device from now on; None goes back to the GPU."""
    global _device
    _device = device


def check_available() -> None:
    """Raise BackendUnavailable, with the cause, if there is neither a GPU nor something in its place."""
    _current()


def xp() -> ModuleType:
    """Return the array module."""
    return _current().xp


def launch(
    source: str,
    kernel: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    dtype: Any,
    *,
    chunks: int = 1,
    shared: int = 0,
    cooperative: bool = False,
) -> None:
    """Run a kernel of `<source>.cu` on the current stream; do nothing if the grid is empty.

    Parameters
    ----------
    args
        Arrays, C-contiguous, or numbers: an int becomes a 64-bit integer, a float a number of `dtype`.
    dtype
        float32 or float64: what REAL is in the source.
    chunks
        CHUNKS in the source: how many numbers of a row one lane holds, or another size that its compiler must know.
    shared
        Bytes of dynamic shared memory a block.
    cooperative
        Whether all blocks run at once, so that `grid_sync` of support/hardware.cu may wait for them; at most one block
        a multiprocessor.
    """
    if 0 in grid:
        return
    gpu, dtype = _current(), np.dtype(dtype)
    limit = gpu.shared_limit
    if shared > limit:
        raise ValueError(f"{kernel}: needs {shared} bytes of shared memory a block, but this GPU has {limit}")
    real = dtype.type
    typed = [np.int64(x) if isinstance(x, int) else real(x) if isinstance(x, float) else x for x in args]
    gpu.launch(source, kernel, grid, block, tuple(typed), dtype, chunks, shared, cooperative)


def wide_grid(array: Array, threads: int) -> tuple[int]:
    """Return how many blocks of so many threads pass over an array, 16 bytes a thread."""
    return (-(-array.nbytes // (threads * WIDE)),)


def shared_limit() -> int:
    """Return how many bytes of shared memory a block may have."""
    return _current().shared_limit


def multiprocessors() -> int:
    """Return how many multiprocessors there are: at least so many blocks of any kernel run at once."""
    return _current().multiprocessors


def capability() -> int:
    """Return the GPU's compute capability, times ten: 75 is Turing, 80 Ampere, 90 Hopper."""
    return _current().capability


def each(kernel: Callable[..., None], count: int, *args: Any) -> None:
    """Run a kernel written for Numba CUDA in at least `count` threads; it reads `cuda.grid(1)`."""
    if count:
        _current().each(kernel, count, *args)


def stream() -> int:
    """Return the current stream, a `cudaStream_t`."""
    return _current().stream()


def number() -> int:
    """Return the number of the current GPU: arrays and handles of one GPU are of no use on another."""
    return _current().number()


def cublaslt() -> Any:
    """Return the library cuBLASLt, whose C functions are its attributes."""
    functions = _current().cublaslt
    if functions is None:
        raise BackendUnavailable("this device has no cuBLASLt: leave out --kernels fast")
    return functions()


def multiply(problem: Any, a: int, b: int, out: int, add: bool) -> None:
    """Compute by cuBLAS the product that a `Problem` of `support.cublaslt` describes, of factors at these addresses.

    With `add`, it is added to what `out` holds.
    """
    function = _current().multiply
    if function is None:
        raise BackendUnavailable("this device has no cuBLAS, so that it cannot multiply matrices")
    function(problem, a, b, out, add)


def pinned(size: int) -> np.ndarray:
    """Return so many bytes of pinned host memory, from which the device copies while the host goes on."""
    return _current().pinned(size)


def sent(block: np.ndarray) -> Array:
    """Return a copy on the device of bytes that `pinned` returned; the host does not wait."""
    return _current().sent(block)


def captured(work: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Return what `work` returns, and what replays its kernels: see `support.graphs`."""
    function = _current().captured
    if function is None:
        raise BackendUnavailable("this device captures no graphs: leave out --graphs")
    result: tuple[Any, Callable[[], None]] = function(work)
    return result


def address(array: Array) -> int:
    """Return where an array begins in the memory of the device."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def allocation(array: Array) -> int:
    """Return a number of the allocation in which an array lies: the same for all arrays in it."""
    if not isinstance(array, np.ndarray):
        return id(array.data.mem)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


def to_host(array: Array) -> Any:
    """Return the array as a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.get()


@lru_cache
def source_text(source: str) -> str:
    """Return `<source>.cu` of this folder, the first #include of every file replaced by the file.

    A `#line` before every part names its file and line, for the messages of compilers.
    """
    return _with_includes(Path(__file__).parent / f"{source}.cu", set())


def _with_includes(path: Path, before: set[Path]) -> str:
    """Return the text of a file with the files that it includes, except those in `before`, to which these are added."""
    text = path.read_text()

    def included(match: re.Match[str]) -> str:
        other, after = (path.parent / match[1]).resolve(), text.count("\n", 0, match.end()) + 2
        if other in before:
            return ""
        before.add(other)
        return f'{_with_includes(other, before)}\n#line {after} "{path.name}"'

    with_includes = re.sub(r'^#include "([\w/]+\.cu)"', included, text, flags=re.MULTILINE)
    return f'#line 1 "{path.name}"\n{with_includes}'


def _current() -> Device:
    global _device
    if _device is None:
        from accel.cuda.support.gpu import open_gpu

        _device = open_gpu()
    return _device
