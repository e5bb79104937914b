"""Every GPU kernel compiles for several generations of GPUs: CUDA C++ with NVRTC or nvcc, Numba CUDA to PTX."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.cuda import device
from accel.cuda.chart_trees import walk_chart
from accel.cuda.distance_trees import walk_sentence
from accel.cuda.pruned_chart import play, write_splits
from accel.cuda.segments import walk_sequence
from accel.cuda.support import gpu
from tests.kernels.registers import (
    ACCESS,
    FAST_ONLY,
    OLD,
    SOURCES,
    VARIANTS,
    accesses,
    compiled,
    digest,
    digests,
    limits,
    nvdisasm,
    release,
    widths,
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


def nvrtc_is_here() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()
    except (ImportError, RuntimeError):  # CuPy without NVRTC's library
        return False
    return True


@pytest.mark.parametrize("source", SOURCES)
def test_nvrtc_compiles_the_kernels(source: str) -> None:
    """NVRTC compiles both float types, short and long rows, for two generations; plain forms for an older one, too."""
    if not nvrtc_is_here():
        pytest.skip("CuPy with NVRTC is not here (pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12)")
    for arch, real, chunks in (*VARIANTS[:3], *[OLD] * (source not in FAST_ONLY)):
        with_nvrtc(device.source_text(source), [f"-arch={arch}", f"-DREAL={real}", f"-DCHUNKS={chunks}", "--std=c++17"])


@pytest.mark.parametrize("source", SOURCES)
def test_nvcc_compiles_the_kernels_within_their_registers(source: str, tmp_path: Path) -> None:
    """Registers, stack, spills and shared memory are no more than stored, if nvcc is the release that counted them.

    A source that this release has counted and that is unchanged since then is not compiled again: nothing can differ.
    Another release compiles one variant of it.
    """
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    of_release, most = limits()
    is_counted = digest(source) == digests().get(source)
    if not is_counted and source not in FAST_ONLY:
        compiled(source, OLD, tmp_path)
    if is_counted and release() == of_release:
        return
    for variant in VARIANTS[1:2] if is_counted else VARIANTS:
        figures = compiled(source, variant, tmp_path)
        assert figures, f"no kernel in {source}"
        for kernel, x in figures.items() if release() == of_release else ():
            now, before = (x.registers, x.stack, x.spilled, x.shared), most[" ".join(map(str, variant))].get(kernel)
            assert before, f"{kernel} is new: run python -m tests.kernels.registers"
            words = f"{kernel} {variant}: registers, stack, spills and shared memory {now}, more than {before}"
            assert all(a <= b for a, b in zip(now, before, strict=True)), words
        if nvdisasm() is not None:
            check_widths(source, variant, tmp_path, release() == of_release)


def check_widths(source: str, variant: tuple[str, str, int], folder: Path, same_compiler: bool) -> None:
    """A kernel has no more narrow loads and stores than stored, and no fewer wide ones.

    If a source has kernels without wide ones, accesses.toml must give the reason.
    """
    reasons, before = widths()
    counts = accesses(folder)
    without = [kernel for kernel, (*_, wide) in counts.items() if not wide]
    assert bool(without) == (source in reasons), f"{source}: {without} load narrow, and accesses.toml does not say why"
    for kernel, now in counts.items() if same_compiler else ():
        most = before[" ".join(map(str, variant))].get(kernel)
        assert most, f"{kernel} is new: run python -m tests.kernels.registers"
        narrow = 0 if variant[1] == "float" else 1
        words = f"{kernel} {variant}: loads and stores of 32, 64 and 128 bits {now}, narrower than {most}"
        assert sum(now[: narrow + 1]) <= sum(most[: narrow + 1]) and now[2] >= most[2], words


@pytest.mark.parametrize(("warps", "most"), [(4, 255), (8, 255), (9, 168), (12, 168), (13, 128), (16, 128), (32, 64)])
def test_a_block_has_registers_for_all_its_threads(warps: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block has at most 65,536 registers, so the compiler is told how many each thread may have.

    They lie in four parts, each of which serves every fourth warp.

    Without a limit, attention over listed keys in tiles of 512 threads takes 189 a thread for heads of 512 numbers.
    """
    all_options: list[tuple[str, ...]] = []

    def module(code: str, options: tuple[str, ...]) -> Any:
        all_options.append(options)
        return SimpleNamespace(get_function=lambda name: SimpleNamespace(kernel=lambda *args, **keywords: None))

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawModule=module))
    for name in ("_function", "_module"):
        monkeypatch.setattr(gpu, name, getattr(gpu, name).__wrapped__)
    gpu._launch("layers", "dropout", (1,), (32, warps), (), np.dtype(np.float32), 1, 0, False)
    assert f"--maxrregcount={most}" in all_options[0] and 32 * -(-warps // 4) * most <= 2**14


def test_numba_cuda_finds_the_name_that_numpy_no_longer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy 2.5 has no `row_stack`, which numba-cuda imports: it is there during the import, and not afterwards."""
    imports: list[Any] = []
    monkeypatch.delattr(np, "row_stack", raising=False)
    monkeypatch.setattr(gpu, "import_module", lambda name: imports.append((name, vars(np).get("row_stack"))))
    gpu._complete_numba()
    assert imports == [("numba.cuda.np.arrayobj", np.vstack)] and "row_stack" not in vars(np)


def test_widths_are_read_off_machine_code() -> None:
    """All forms of accesses to main memory are counted, and none to shared or local memory."""
    code = """
        /*0100*/  @!P0  LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0110*/        STG.E.64 desc[UR4][R2.64+0x8], R4 ;
        /*0120*/        LDG.E R4, [R2.64] ;
        /*0130*/        STG.E.U16 [R2.64], R4 ;
        /*0140*/        LDS.128 R4, [R2] ;   STL [R1], R4 ;  LDGSTS.E.128 [R4], [R2.64] ;
    """
    assert ACCESS.findall(code) == [".E.128.CONSTANT", ".E.64", ".E", ".E.U16"]


def test_a_source_that_loads_narrow_has_a_reason() -> None:
    assert set(widths()[0]) <= set(SOURCES)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_numba_kernels_compile(capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda is not here (pip install 'numba-cuda[cu12]')")
    from numba import cuda, float32, float64, int8, int32, int64, void

    # numba-cuda compiles functions that kernels call for the GPU that is here; this needs none
    here = SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: here)

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
