"""Which kernels take the time of a training step: every launch of one of our kernels and every product, timed alone.

On a GPU a CUDA event is recorded before each launch and another one after it. An idle device would reach the first
event before the host has launched the kernel, and the time between the events would be the host's. So a kernel that
only waits is launched first. It waits for WAIT seconds or, since the host takes longer to launch a kernel of Numba, for
NUMBA_WAIT. Meanwhile the host enqueues both events and the launch between them, and the device runs them one right
after the other. If the host needs longer than the wait, the launch is counted as `late`: its time may be too long.

`empty_pair` is the time between two events with nothing between them; it is subtracted from the time of each launch.
`empty_kernel` is the time that is then left of a kernel without work: every kernel takes so long to start. A launch or
a product that consists of several kernels is timed as a whole.

CuPy's own kernels (elementwise, sums, sorts, copies) are not timed. The page shows how much longer the same step takes
as a graph, which has them, too. On the stand-in the clock of the host is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from accel.cuda import device
from accel.cuda.forms import Forms, use
from accel.cuda.support.cublaslt import Epilogue, Library, Matrix, Problem
from benchmarks.gpu_flops import of_launch, of_product
from benchmarks.gpu_report.records import Row, Setting
from benchmarks.gpu_report.steps import chosen, made, row_name
from benchmarks.gpu_steps import BATCHES, TableStep

FORMS = Forms(), Forms("fast"), Forms("fast", "bf16")
MOST = 12
"""Kernels of a step that its row lists."""
PAIRS = 21
WAIT, NUMBA_WAIT = 300e-6, 3e-3
PRODUCT = "product "
WAITING = """
extern "C" __global__ void wait_for(long long cycles)
{
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}
"""


@dataclass(frozen=True)
class Timed:
    """A timed call: `seconds` returns its time once the device has finished; `is_late` if the host was late."""

    seconds: Callable[[], float]
    is_late: bool = False


@dataclass(frozen=True)
class Timer:
    """`timed` makes a call after a wait of so many seconds, and times it; `nothing` starts a kernel without work."""

    timed: Callable[[Callable[[], None], float], Timed]
    nothing: Callable[[], None]


@dataclass(frozen=True)
class Launch:
    """A launch or a product; `shape` is its grid and its block, or the memory layout of the factors."""

    name: str
    shape: str
    flops: int
    seconds: float
    is_late: bool


Noted = tuple[str, str, int, Timed]  # a launch whose time is not known yet


def rows(setting: Setting) -> Iterator[Row]:
    ops, steps = setting.ops(), chosen(setting)
    for form in FORMS:
        for step in steps:
            yield row_name(step.name, form), lambda step=step, form=form: kernels_of(setting, ops, step, form)


def kernels_of(setting: Setting, ops: ModuleType, step: TableStep, form: Forms) -> dict[str, Any]:
    """Return the kernels of a step that take longest, and what all of them take together."""
    call, timer = made(step, ops, setting.small), on_host() if setting.stand_in else on_gpu()
    empty_pair, with_kernel = (typical(setting, timer, call) for call in (lambda: None, timer.nothing))
    notes: list[Noted] = []
    with use(form):
        for _ in range(1 if setting.small else BATCHES):  # so that nothing is compiled or planned meanwhile
            call()
        with watched(timer, notes):
            call()
    setting.synchronise()
    launches = [
        Launch(name, shape, flops, max(0.0, timed.seconds() - empty_pair), timed.is_late)
        for name, shape, flops, timed in notes
    ]
    return summary(launches) | {"empty_pair": empty_pair, "empty_kernel": max(0.0, with_kernel - empty_pair)}


def typical(setting: Setting, timer: Timer, call: Callable[[], None]) -> float:
    """Return the median of the seconds of a call."""
    setting.synchronise()
    pairs = [timer.timed(call, WAIT) for _ in range(PAIRS)]
    setting.synchronise()
    return median(pair.seconds() for pair in pairs)


def on_host() -> Timer:
    """Return a timer by the clock of the host: on a stand-in a kernel has ended when its launch returns."""

    def timed(call: Callable[[], None], wait: float) -> Timed:
        begin = time.perf_counter()
        call()
        seconds = time.perf_counter() - begin
        return Timed(lambda: seconds)

    return Timer(timed, lambda: None)


def on_gpu() -> Timer:
    """Return a timer by events on the current stream, behind a kernel that keeps the device busy."""
    import cupy

    wait_for = cupy.RawKernel(WAITING, "wait_for")
    rate = 1e3 * cupy.cuda.Device().attributes["ClockRate"]  # kHz, the greatest: a slower device waits longer

    def timed(call: Callable[[], None], wait: float) -> Timed:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin = time.perf_counter()
        wait_for((1,), (1,), (np.int64(wait * rate),))
        start.record()
        call()
        end.record()
        is_late = time.perf_counter() - begin > wait
        return Timed(lambda: cupy.cuda.get_elapsed_time(start, end) * 1e-3, is_late)

    return Timer(timed, lambda: wait_for((1,), (1,), (np.int64(0),)))


@contextmanager
def watched(timer: Timer, noted: list[Noted]) -> Iterator[None]:
    """Time every launch and every product inside, and append it to `noted`."""
    current, fast = device._current(), Library.multiply

    def launch(*args: Any) -> None:
        source, kernel, grid, block = args[:4]
        shape = f"grid {by(grid)}, block {by(block)}"
        flops = of_launch(kernel, args)
        noted.append((f"{source}/{kernel}", shape, flops, timer.timed(lambda: current.launch(*args), WAIT)))

    def each(kernel: Callable[..., None], count: int, *args: Any) -> None:
        name = f"{kernel.__module__.rpartition('.')[2]}/{kernel.__name__}"
        noted.append((name, f"{count} threads", 0, timer.timed(lambda: current.each(kernel, count, *args), NUMBA_WAIT)))

    def multiply(problem: Problem, a: int, b: int, out: int, add: bool) -> None:
        assert current.multiply is not None
        product = current.multiply
        noted.append((*described(problem), timer.timed(lambda: product(problem, a, b, out, add), WAIT)))

    def multiply_fast(library: Library, problem: Problem, *args: Any, **options: Any) -> None:
        noted.append((*described(problem), timer.timed(lambda: fast(library, problem, *args, **options), WAIT)))

    device.use(replace(current, launch=launch, each=each, multiply=multiply))
    try:
        with patch.object(Library, "multiply", multiply_fast):
            yield
    finally:
        device.use(current)


def described(problem: Problem) -> tuple[str, str, int]:
    """Return the name of a product, the layout of its factors, and its operations; cuBLAS computes out^T = b^T a^T."""
    k = problem.a.rows if problem.a.transposed else problem.a.columns
    name = PRODUCT + by((problem.out.columns, k, problem.out.rows))
    name += f", batch {problem.batch}" * (problem.batch > 1)
    name += f", {problem.epilogue.name.lower()}" * (problem.epilogue != Epilogue.NONE)
    return name, f"a by {lies(problem.b)}, b by {lies(problem.a)}", of_product(problem, False)[1]


def lies(matrix: Matrix) -> str:
    return "columns" if matrix.transposed else "rows"


def by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def summary(launches: list[Launch]) -> dict[str, Any]:
    """Return the kernels, greatest first, and the sums over all launches and over all products."""
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.name, []).append(launch)
    kernels = [{"kernel": name, **sums(group), **longest(group)} for name, group in groups.items()]
    kernels.sort(key=lambda kernel: -kernel["seconds"])
    products = [launch for launch in launches if launch.name.startswith(PRODUCT)]
    late = sum(launch.is_late for launch in launches)
    return {**sums(launches), "late": late, "products": sums(products), "kernels": kernels[:MOST]}


def sums(launches: list[Launch]) -> dict[str, Any]:
    seconds, flops = (sum(getattr(launch, name) for launch in launches) for name in ("seconds", "flops"))
    return {"launches": len(launches), "seconds": seconds, "flops": flops}


def longest(launches: list[Launch]) -> dict[str, Any]:
    """Return the seconds and the shape of the launch that took longest."""
    launch = max(launches, key=lambda launch: launch.seconds)
    return {"longest": launch.seconds, "shape": launch.shape}
