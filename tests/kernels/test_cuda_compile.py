"""Every GPU kernel compiles for sm_80 and sm_90: CUDA C++ with NVRTC or nvcc, Numba CUDA to PTX. No GPU is needed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from accel.cuda import device
from accel.cuda.chart_trees import walk_chart
from accel.cuda.distance_trees import walk_sentence
from accel.cuda.pruned_chart import play, write_splits
from accel.cuda.segments import walk_sequence

FOLDER = Path(device.__file__).parent
SOURCES = sorted(  # files without a kernel are parts of others
    path.relative_to(FOLDER).with_suffix("").as_posix()
    for path in FOLDER.rglob("*.cu")
    if "__global__" in path.read_text()
)


def with_nvrtc(text: str, options: list[str]) -> None:
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, "kernel.cu", [], [])
    try:
        nvrtc.compileProgram(program, options)
        assert nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)


def with_nvcc(text: str, options: list[str], folder: Path) -> None:
    source = folder / "kernel.cu"
    source.write_text(text)
    command = ["nvcc", *options, "-Werror", "all-warnings", "-cubin", "-o", str(folder / "kernel.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def nvrtc_is_here() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()
    except (ImportError, RuntimeError):  # CuPy without NVRTC's library
        return False
    return True


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
@pytest.mark.parametrize("source", SOURCES)
def test_cuda_kernels_compile(source: str, compiler: str, tmp_path: Path) -> None:
    """Both float types, and rows short and long, for two generations of GPUs."""
    if compiler == "nvrtc" and not nvrtc_is_here():
        pytest.skip("CuPy with NVRTC is not here (pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12)")
    if compiler == "nvcc" and shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    text = device.source_text(source)
    for arch, real, chunks in (("sm_80", "float", 1), ("sm_90", "float", 2), ("sm_90", "double", 4)):
        options = [f"-arch={arch}", f"-DREAL={real}", f"-DCHUNKS={chunks}", "--std=c++17"]
        if compiler == "nvrtc":
            with_nvrtc(text, options)
        else:
            with_nvcc(text, options, tmp_path)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_numba_kernels_compile(capability: tuple[int, int]) -> None:
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda is not here (pip install 'numba-cuda[cu12]')")
    from numba import cuda, float32, float64, int8, int32, int64, void

    numbers = int32[::1]
    walk = void(
        int8[::1], int64[::1], int64, int64, int64, int64, int64,
        numbers, numbers, int64[::1], int64[::1], int32[:, ::1], int64[::1], numbers, numbers,
    )  # fmt: skip
    chart = void(
        numbers, int64[::1], int64[:, ::1], int64, numbers, int32[:, ::1],
        numbers, numbers, numbers, int64[::1], int32[:, ::1], numbers,
    )  # fmt: skip
    writing = void(int64[::1], int64[::1], int32[:, ::1], numbers, int64[::1], numbers, numbers)
    kernels = [(walk_sequence, walk), (play, chart), (write_splits, writing)]
    for real in (float32, float64):
        kernels.append((walk_sentence, void(real[::1], int64[::1], int64, int32[:, ::1])))
        kernels.append((walk_chart, void(real[::1], int64[::1], int64[::1], int32[:, ::1])))
    for kernel, signature in kernels:
        text, _ = cuda.compile_ptx(kernel, signature, cc=capability)
        assert f".target sm_{capability[0]}{capability[1]}" in text
