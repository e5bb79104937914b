"""The race detector of the stand-in for a GPU finds races in wrong kernels, and none in ours.

These tests put NumPy in the place of CuPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from accel.cuda import device
from accel.verify.cuda_host import launcher
from accel.verify.cuda_host.launcher import Settings
from accel.verify.expected import cast
from accel.verify.gradients import check_gradients, gentle
from accel.verify.op import Op, example_case
from accel.verify.sizes import cases_at_sizes
from accel.verify.values import check_values
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

THREADS = 64
KERNEL = """extern "C" __global__ void kernel(REAL* x)
{
    __shared__ REAL fixed[64];
    DYNAMIC_SHARED(shared);
    const int i = threadIdx.x;
    %s
}
"""
RIGHT = (
    "shared[i] = x[i]; __syncthreads(); x[i] = shared[63 - i];",
    "shared[i] = x[i]; __syncwarp(); x[i] = shared[i ^ 1];",
    "shared[i] = 1; x[i] = __shfl_xor_sync(0xffffffffu, shared[i], 1);",
    "fixed[i] = 1; __syncthreads(); x[i] = fixed[0] + fixed[40];",
    "if (i == 0) shared[0] = 1; __syncthreads(); x[i] = shared[0]; __syncthreads(); if (i == 63) shared[0] = 2;",
    "if (i == 7) x[1] = x[0];",
    "int* flags = (int*)x; if (i % 2) atomicOr(flags, 1 << i % 5);",
)
"""Code of kernels without races."""
WRONG = (
    ("shared[i] = x[i]; x[i] = shared[63 - i];", r"byte \d+ of the block's dynamic shared memory: block 0: thread"),
    ("shared[i] = x[i]; __syncwarp(); x[i] = shared[63 - i];", "dynamic shared memory"),
    ("shared[i] = x[i]; __shfl_xor_sync(0xffffffffu, x[i], 1); x[i] = shared[i ^ 1];", "dynamic shared memory"),
    ("fixed[i] = i; x[i] = fixed[i ^ 1];", r"byte \d+ of the block's static shared memory"),
    ("if (i == 7) x[1] = x[0]; if (i == 8) x[0] = 1;", r"x\[0, 0\]: .*thread 7 reads it"),
    (
        "if (i == 7 || i == 40) x[9] = 1;",
        r"x\[1, 1\]: .* writes it in kernels:6, .* writes it in kernels:6, and no bar",
    ),
    ("REAL sum = x[0] + x[i]; if (sum == 0 && i == 0) x[0] = 1;", r"x\[0, 0\]: .* thread 0 writes it"),
    ("int* flags = (int*)x; atomicOr(flags, 1); if (i == 3) flags[0] = 2;", "changes atomically it"),
    ("int* flags = (int*)x; atomicOr(flags, 1); if (flags[0] == 9) x[60] = 1;", "changes atomically it"),
)


@pytest.fixture
def watched(host_backend: ModuleType) -> Iterator[ModuleType]:
    """Run kernels on the host with the race detector, another order of threads, and fused multiply-add."""
    before = launcher.use(Settings(races=True, order=1, fused=launcher.can_fuse()))
    yield host_backend
    launcher.use(before)


def run(code: str, x: np.ndarray, blocks: int = 1) -> None:
    launcher.launch_text(KERNEL % code, "kernel", (blocks,), (THREADS,), (x,), x.dtype, shared=THREADS * x.itemsize)


@pytest.mark.parametrize("code", RIGHT)
def test_barriers_order_memory(watched: ModuleType, code: str) -> None:
    run(code, np.zeros((8, 8)))


@pytest.mark.parametrize(("code", "message"), WRONG)
def test_races_are_reported(watched: ModuleType, code: str, message: str) -> None:
    """The message has the place in memory, both threads, and their lines."""
    for order in range(3):
        launcher.use(Settings(races=True, order=order))
        with pytest.raises(RuntimeError, match=f"kernel: race at .*{message}"):
            run(code, np.zeros((8, 8)))


def test_no_barrier_orders_blocks(watched: ModuleType) -> None:
    with pytest.raises(
        RuntimeError, match=r"race at x\[.*: block ., thread .* it in kernels:6, block .* orders blocks"
    ):
        run("x[i] = 1;", np.zeros((8, 8)), 2)
    run("fixed[i] = shared[i] = 1; x[64 * blockIdx.x + i] = fixed[i];", np.zeros(128), 2)


def test_parameters_of_macros_are_named(watched: ModuleType) -> None:
    macros = "#define PART(k) REAL *x##k, long long n##k\n#define BOTH PART(0), PART(1)\n"
    text = macros + 'extern "C" __global__ void kernel(BOTH) { x1[n0] = threadIdx.x; }'
    x = np.zeros((2, 8))
    with pytest.raises(RuntimeError, match=r"race at x1\[3\]"):
        launcher.launch_text(text, "kernel", (1,), (THREADS,), (x[0], np.int64(3), x[1], np.int64(3)), x.dtype)


def test_threads_run_in_a_drawn_order(host_backend: ModuleType) -> None:
    """If 64 threads write one number, the last writer depends on the seed; the same seed gives the same writer."""
    last = []
    for order in (0, 1, 2, 3, 4, 0):
        before = launcher.use(Settings(order=order))
        x = np.zeros(8)
        run("x[0] = i;", x)
        last.append(x[0])
        launcher.use(before)
    assert len(set(last)) > 2 and last[0] == last[-1]


@pytest.mark.skipif(not launcher.can_fuse(), reason="this processor has no fused multiply-add")
def test_operations_are_contracted(host_backend: ModuleType) -> None:
    """(1 + e)^2 - (1 + 2 e) is 0 if the product is rounded, and e^2 with fused multiply-add."""
    small = 2.0**-40
    for fused, expected in ((False, 0.0), (True, small**2)):
        x = np.array([1 + small, -(1 + 2 * small)])
        before = launcher.use(Settings(fused=fused))
        run("if (i == 0) x[0] = x[0] * x[0] + x[1];", x)
        launcher.use(before)
        assert x[0] == expected


def test_kernels_have_no_races(watched: ModuleType, op: Op) -> None:
    """There is no race at any size of the tiles; answers and gradients of one case are still the reference's."""
    if not hasattr(watched, op.name):
        pytest.skip(f"accel.cuda has no {op.name}")
    case = example_case(op)
    check_values(watched, op, case)
    if op.diff:
        check_gradients(watched, op, case if op.saturated else gentle(case), 0)
    for _, sized in cases_at_sizes(watched, op):
        arguments = cast(op.batched(sized), np.float32)
        d_out = np.ones_like(op.call(watched, arguments)[0])
        if op.diff:
            op.vjp(watched, arguments, d_out)


def test_lines_of_a_kernel_are_named(watched: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file that has the line, though the compiler gets one text."""
    texts = {name: device.source_text(name) for name in ("layers", "support/check")}
    before, kernel, after = texts["layers"].partition("label_logp(")
    texts["layers"] = before + kernel + after.replace("__syncthreads();", "", 1)
    monkeypatch.setattr(device, "source_text", lambda source: texts[source])
    x = np.ones((3, 40))
    with pytest.raises(RuntimeError) as error:
        watched.cross_entropy(x, np.ones((70, 40)), np.ones(70), np.zeros(3, np.int32))
    lines = r"in layers\.cu:\d+, thread \d+ .* in layers\.cu:\d+"
    assert re.search(rf"race at .* static shared memory: block \d+: .* {lines}", str(error.value))
