"""`accel.cuda` without a GPU: NumPy for CuPy, g++ and fibers for CUDA C++, a Python loop for Numba CUDA.

The host code and the kernels are those that run on a GPU. This cannot show races between threads that run at the same
time, and speed.
"""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import accel.cuda
from accel.cuda import device

HEADER = Path(__file__).with_name("cuda_host.h")
COMPILER = ("g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-w")


def host_backend() -> ModuleType:
    """Return `accel.cuda`, set to NumPy arrays and kernels on the host."""
    device.use(device.Device(np, launch, each))
    return accel.cuda


def launch(
    source: str,
    kernel: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    dtype: np.dtype[Any],
    chunks: int,
    shared: int,
) -> None:
    """Run a kernel of `accel/cuda/<source>.cu` over all blocks: what `device.launch` asks for."""
    launch_text(device.source_text(source), kernel, grid, block, args, dtype, chunks, shared)


def launch_text(
    text: str,
    kernel: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    dtype: np.dtype[Any],
    chunks: int = 1,
    shared: int = 0,
) -> None:
    """Run a kernel of CUDA C++ source over all blocks; refuse arguments that are not of the kernel's types.

    In the source REAL is `float` or `double`, by `dtype`, and CHUNKS is a number. Arguments are C-contiguous NumPy
    arrays and NumPy numbers. Raises TypeError for a wrong argument, RuntimeError for threads that wait for ever.
    """
    library = compiled(text, dtype.name, chunks)
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
    shape = (ctypes.c_uint * 6)(*grid, *(1,) * (3 - len(grid)), *block, *(1,) * (3 - len(block)))
    message = getattr(library, f"run_{kernel}")(shape, ctypes.c_size_t(shared), addresses)
    if message is not None:
        raise RuntimeError(f"{kernel}: {message.decode()}")


def each(kernel: Callable[..., None], count: int, *args: Any) -> None:
    """Run a Numba CUDA kernel as plain Python, with a stand-in for `cuda` that knows the number of the thread."""
    plain = {name: getattr(value, "py_func", value) for name, value in kernel.__globals__.items()}
    for thread in range(count):
        plain["cuda"] = SimpleNamespace(grid=lambda axes, thread=thread: thread)
        FunctionType(kernel.__code__, plain)(*args)


@lru_cache
def compiled(text: str, dtype: str, chunks: int) -> ctypes.PyDLL:
    """Return the kernels of a source as a library; the temporary folder keeps it under a hash of all its parts."""
    kernels = re.findall(r"__global__ void (\w+)\(", text)
    lines = [HEADER.read_text(), text, *(f"HOST_KERNEL({kernel})" for kernel in kernels)]
    program = "\n".join(lines)
    command = [*COMPILER, f"-DREAL={device.REAL[dtype]}", f"-DCHUNKS={chunks}"]
    name = hashlib.sha256(f"{command}{program}".encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"grove-cuda-host-{getpass.getuser()}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.so"
    if not path.exists():
        part = folder / f"{name}.{os.getpid()}"
        done = subprocess.run([*command, "-x", "c++", "-", "-o", part], input=program, text=True, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"g++ refuses the kernels:\n{done.stderr}")
        part.replace(path)
    library = ctypes.PyDLL(str(path))  # PyDLL: one kernel at a time
    for kernel in kernels:
        getattr(library, f"run_{kernel}").restype = ctypes.c_char_p
        getattr(library, f"signature_{kernel}").restype = ctypes.c_char_p
    return library
