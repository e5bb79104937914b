"""The kernels of a step in the report of a GPU: what is timed, and how a GPU times it, with an imitation of CuPy."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.cuda import device
from accel.cuda.forms import Forms, use
from accel.cuda.support.cublaslt import Library
from benchmarks.gpu_report import kernels, page
from benchmarks.gpu_report.kernels import PRODUCT, Launch, Noted, on_host, summary, watched
from benchmarks.gpu_report.records import DONE, Setting
from tests.fixtures.stand_in_gpu import draw, host_backend
from tests.kernels.registers import VARIANTS

__all__ = ["host_backend"]

A, B = (3, 5), (5, 7)


@pytest.mark.parametrize("form", [Forms(), Forms("fast")])
def test_products_and_kernels_are_noted(host_backend: ModuleType, form: Forms) -> None:
    """Products have the sizes that the caller sees; afterwards nothing is recorded any more."""
    a, b, batch = (x.astype(np.float32) for x in draw(A, B, (2, *B)))
    records: list[Noted] = []
    before, multiply = device._current(), Library.multiply
    with use(form):
        expected = host_backend.matmul(a, b)
        with watched(on_host(), records):
            actual = host_backend.matmul(a, b)
            host_backend.matmul(np.asfortranarray(a), b)
            host_backend.matmul(np.stack([a, a]), batch)
            host_backend.bias_gelu(a, a[0])
        host_backend.matmul(a, b)
    assert device._current() is before and Library.multiply is multiply
    np.testing.assert_array_equal(actual, expected)
    size = "product 3 x 5 x 7"
    assert [line[:3] for line in records[:3]] == [
        (size, "a by rows, b by rows", 2 * 3 * 5 * 7), (size, "a by columns, b by rows", 2 * 3 * 5 * 7),
        (f"{size}, batch 2", "a by rows, b by rows", 4 * 3 * 5 * 7),
    ]  # fmt: skip
    [(name, shape, flops, timed)] = records[3:]
    assert name.startswith("gelu/") and shape.startswith("grid ") and flops == 0 and timed.seconds() > 0


def test_kernels_of_a_name_are_added_up() -> None:
    launches = [Launch(f"source/kernel{i}", "", 0, float(i), False) for i in range(20)]
    launches += [Launch(f"{PRODUCT}1 x 2 x 3", f"shape {i}", 12, 10.0 * i, i == 2) for i in (1, 2, 1)]
    row = summary(launches)
    assert len(row["kernels"]) == kernels.MOST and row["kernels"][1]["kernel"] == "source/kernel19"
    products = {"launches": 3, "seconds": 40.0, "flops": 36}
    assert row["kernels"][0] == {"kernel": "product 1 x 2 x 3", **products, "longest": 20.0, "shape": "shape 2"}
    assert (row["launches"], row["seconds"], row["flops"], row["late"]) == (23, 190.0 + 40, 36, 1)
    assert row["products"] == products


def test_a_page_shows_the_longest_and_what_a_graph_has_beside_them() -> None:
    launches = [Launch(f"source/kernel{i}", "", 0, 1e-3 * i, False) for i in range(20)]
    launches += [Launch(f"{PRODUCT}1 x 2 x 3", "", 3 * 10**9, 0.5, i > 0) for i in range(2)]
    row = summary(launches) | {"status": DONE, "empty_pair": 2e-6, "empty_kernel": 1.5e-6}
    rows = {"step | plain, float32": row, "step | fast, float32": row}
    of_steps = {"step | fast, float32, a graph": {"status": DONE, "step": 1.5}}
    parts = {"kernels": rows, "steps": of_steps}
    head, _, plain, fast, _, *words = page.kernels(Setting(Path(), False, False), "kernels", parts)
    product = "2 x, 1000.00 ms, 0.006 TFLOP/s"
    longest = "; ".join(f"source/kernel{i}: 1 x, {i}.00 ms" for i in range(19, 15, -1))
    expected = f"| {product} | product 1 x 2 x 3: {product}; {longest} |"
    assert plain == f"| step, plain, float32 | 22 | 1190.00 |  {expected}"
    assert fast == f"| step, fast, float32 | 22 | 1190.00 | 310.00 {expected}"
    assert "2.0 us are taken off" in words[0] and "takes 1.5 us" in words[0] and "late for 2 launches" in words[1]


def test_on_a_gpu_both_events_are_asked_for_while_the_device_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Event:
        def record(self) -> None:
            calls.append("event")

    def raw_kernel(code: str, name: str) -> Any:
        assert f"__global__ void {name}(" in code
        return lambda grid, block, args: calls.append(f"{name} {grid} {block} {args[0]:.0f} {args[0].dtype}")

    gpu = SimpleNamespace(attributes={"ClockRate": 2_000_000})  # kHz: 2 GHz
    cuda = SimpleNamespace(Event=Event, Device=lambda: gpu, get_elapsed_time=lambda start, end: 1.5)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawKernel=raw_kernel, cuda=cuda))
    timer = kernels.on_gpu()
    quick = timer.timed(lambda: calls.append("kernel"), 300e-6)
    assert calls == ["wait_for (1,) (1,) 600000 int64", "event", "kernel", "event"]
    assert not timer.timed(lambda: None, 60).is_late
    assert quick.seconds() == 1.5e-3
    assert timer.timed(lambda: time.sleep(2e-3), 1e-3).is_late
    timer.nothing()
    assert calls[-1] == "wait_for (1,) (1,) 0 int64"


def test_the_kernel_that_waits_compiles(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    path = tmp_path / "wait.cu"
    path.write_text(kernels.WAITING)
    for arch in {arch for arch, *_ in VARIANTS}:
        command = ["nvcc", f"-arch={arch}", "-Werror", "all-warnings", "-cubin", "-o", str(tmp_path / arch), str(path)]
        subprocess.run(command, check=True)
