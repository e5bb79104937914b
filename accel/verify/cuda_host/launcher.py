"""`accel.cuda` without a GPU: a stand-in for CuPy, g++ and fibers for CUDA C++, a Python loop for Numba CUDA.

The host code and the kernels are those that run on a GPU. Times here say nothing about a GPU. Races between threads are
reported if `Settings.races` is set.
"""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from threading import get_ident
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import accel.cuda
from accel.cuda import device
from accel.cuda.support import streams
from accel.verify.cuda_host import cublaslt, cupy_array, cupy_graphs, cupy_stand_in
from accel.verify.cuda_host.races import race

FOLDER = Path(__file__).parent
COMPILER = ("g++", "-std=c++17", "-fPIC", "-w", "-fno-threadsafe-statics", "-U_FORTIFY_SOURCE")
"""Without -U_FORTIFY_SOURCE, Ubuntu's compiler checks `longjmp`: a jump between two fibers would end the process."""
MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
WATCHED = ("-O1", "-g1", "-gdwarf-4", "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0")


@dataclass(frozen=True)
class Settings:
    """How kernels run on the host.

    races: report two threads that touch one word of memory, one of them writing it, with no barrier between; this takes
    about ten times as long. order: the seed of the order in which blocks, warps and threads run. fused: let g++
    contract a * b + c into one operation with one rounding, as a GPU's compiler does.
    """

    races: bool = False
    order: int = 0
    fused: bool = False


_settings = Settings()


class Launch(ctypes.Structure):
    """As in cuda_host.h."""

    _fields_ = [
        *(("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_size_t)),
        *(("order", ctypes.c_uint64), ("cooperative", ctypes.c_int64), ("args", ctypes.POINTER(ctypes.c_void_p))),
    ]


def host_backend(xp: ModuleType = cupy_stand_in.MODULE) -> ModuleType:
    """Return `accel.cuda`, set up with kernels on the host and with the arrays of CuPy's stand-in or of NumPy."""
    if xp is np:
        device.use(device.Device(np, launch, each, cublaslt=cublaslt.functions, multiply=cublaslt.multiply))
    else:
        functions = {"cublaslt": cublaslt.functions, "multiply": cublaslt.multiply, "captured": _captured}
        device.use(device.Device(xp, _launch_counted, _each_counted, **functions, sent=streams.sent))
    return accel.cuda


def _launch_counted(source: str, kernel: str, grid: Any, block: Any, args: tuple[Any, ...], *rest: Any) -> None:
    cupy_array.count(cupy_array.KERNELS, kernel)
    there = cupy_array.raw(args)
    cupy_graphs.done(lambda: launch(source, kernel, grid, block, there, *rest), *there)


def _captured(work: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    result, again = cupy_graphs.captured(work)

    def replay() -> None:
        cupy_array.count(cupy_array.GRAPHS, "launch")
        again()

    return result, replay


def _each_counted(kernel: Callable[..., None], count: int, *args: Any) -> None:
    cupy_array.count(cupy_array.KERNELS, kernel.__name__)
    there = cupy_array.raw(args)
    cupy_graphs.done(lambda: each(kernel, count, *there), *there)


def use(settings: Settings) -> Settings:
    """Run kernels on the host with these settings from now on; return the settings from before.

    Raises ValueError if the processor cannot multiply and add in one operation, and the settings ask for it.
    """
    global _settings
    if settings.fused and not can_fuse():
        raise ValueError("--fma: this processor has no fused multiply-add: leave the option out")
    before, _settings = _settings, settings
    return before


def can_fuse() -> bool:
    """Return whether this processor multiplies and adds in one operation."""
    described = Path("/proc/cpuinfo")
    return described.exists() and " fma" in described.read_text()


def launch(
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
    """Run a kernel of `accel/cuda/<source>.cu` over all blocks: what `device.launch` asks for."""
    launch_text(device.source_text(source), kernel, grid, block, args, dtype, chunks, shared, cooperative)


def launch_text(
    text: str,
    kernel: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    dtype: np.dtype[Any],
    chunks: int = 1,
    shared: int = 0,
    cooperative: bool = False,
) -> None:
    """Run a kernel of CUDA C++ source over all blocks; refuse arguments that are not of the kernel's types.

    In the source REAL is `float` or `double`, by `dtype`, and CHUNKS is a number. Arguments are C-contiguous NumPy
    arrays and NumPy numbers. Blocks of a cooperative launch may wait for each other. Raises TypeError for a wrong
    argument, ValueError for a grid that CUDA refuses, RuntimeError for threads that wait for ever and, if the settings
    ask for it, for a race.
    """
    grid, block = ((*axes, *(1,) * (3 - len(axes))) for axes in (grid, block))
    if any(n > most for n, most in zip(grid, MOST_BLOCKS, strict=True)):
        raise ValueError(f"{kernel}: a grid of {grid} blocks, but CUDA takes at most {MOST_BLOCKS}")
    library = compiled(text, dtype.name, chunks, _settings.races, _settings.fused)
    expected = getattr(library, f"signature_{kernel}")().decode().split()
    actual = [("*" if isinstance(x, np.ndarray) else "") + x.dtype.str[1:] for x in args]
    if actual != expected:
        raise TypeError(f"{kernel}: arguments {' '.join(actual)}, but it takes {' '.join(expected)}")
    for number, array in enumerate(args):
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            raise TypeError(f"{kernel}: argument {number} is not contiguous")
    words = [np.uint64(x.ctypes.data) if isinstance(x, np.ndarray) else x for x in args]
    cells = [np.array(word) for word in words]  # as for cuLaunchKernel: the address of every argument
    addresses = (ctypes.c_void_p * len(cells))(*(cell.ctypes.data for cell in cells))
    described = Launch(grid, block, shared, _settings.order, cooperative, addresses)
    message = getattr(library, f"run_{kernel}")(ctypes.byref(described))
    if message is not None:
        raise RuntimeError(f"{kernel}: {message.decode()}")
    if _settings.races:
        message = race(library, text, kernel, args)
        if message:
            raise RuntimeError(f"{kernel}: {message}")


def each(kernel: Callable[..., None], count: int, *args: Any) -> None:
    """Run a Numba CUDA kernel as plain Python, with a stand-in for `cuda` that knows the number of the thread."""
    plain = {name: getattr(value, "py_func", value) for name, value in kernel.__globals__.items()}
    for thread in range(count):
        plain["cuda"] = SimpleNamespace(grid=lambda axes, thread=thread: thread)
        FunctionType(kernel.__code__, plain)(*args)


@lru_cache
def compiled(text: str, dtype: str, chunks: int, races: bool, fused: bool) -> ctypes.PyDLL:
    """Return the kernels of a source as a library, which the temporary folder keeps under a hash of all its inputs."""
    kernels = re.findall(r"__global__ void (\w+)\(", text)
    header = f'#line 1 "cuda_host.h"\n{(FOLDER / "cuda_host.h").read_text()}'
    program = "\n".join([header, '#line 1 "kernels"', text, *(f"HOST_KERNEL({kernel})" for kernel in kernels)])
    options = [*(WATCHED if races else ("-O2",)), *(("-mfma", "-ffp-contract=fast") if fused else ())]
    options += [f"-DREAL={device.REAL[dtype]}", f"-DCHUNKS={chunks}"]
    kernels_only = _built([*options, "-c", "-x", "c++", "-"], program, ".o")
    library = ctypes.PyDLL(_built(["-shared", kernels_only, *runtime()], "", ".so"))  # PyDLL: one kernel at a time
    for kernel in kernels:
        getattr(library, f"run_{kernel}").restype = ctypes.c_char_p
        getattr(library, f"signature_{kernel}").restype = ctypes.c_char_p
    return library


@cache
def runtime() -> tuple[str, ...]:
    """Return the compiled files of this folder, which run threads, emulate instructions of a GPU, and find races."""
    headers = "\n".join((FOLDER / name).read_text() for name in ("cuda_host.h", "fibers.h", "races.h"))
    return tuple(
        _built(["-O2", "-c", str(FOLDER / name), f"-I{FOLDER}"], headers + (FOLDER / name).read_text(), ".o")
        for name in ("cuda_host.cc", "hardware.cc", "races.cc")
    )


def _built(options: Sequence[str], program: str, suffix: str) -> str:
    """Return the file that g++ makes of a program on standard input, or of files; it is kept under a hash of these."""
    name = hashlib.sha256(f"{COMPILER}{options}{program}".encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"grove-cuda-host-{getpass.getuser()}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}{suffix}"
    if not path.exists():
        part = folder / f"{name}.{os.getpid()}.{get_ident()}{suffix}"
        command = [*COMPILER, *options, "-o", str(part)]
        process = subprocess.run(command, input=program, text=True, capture_output=True)
        if process.returncode:
            raise RuntimeError(f"g++ refuses the kernels:\n{process.stderr}")
        part.replace(path)
    return str(path)
