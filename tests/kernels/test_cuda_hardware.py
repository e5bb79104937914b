"""The stand-in for a GPU has barriers of the grid, copies that arrive late, and products of tensor cores.

Each is tested with right kernels, and with wrong kernels whose mistake it must report. NumPy takes CuPy's place.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from accel.cuda import device
from accel.verify.cuda_host import launcher
from accel.verify.cuda_host.launcher import Settings
from tests.kernels.registers import nvdisasm

BLOCKS, THREADS = 5, 64
HARDWARE = device.source_text("support/hardware")


@pytest.fixture(params=[0, 1, 2])
def order(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test in three orders of blocks, warps and threads, under the race detector."""
    before = launcher.use(Settings(races=True, order=request.param))
    yield request.param
    launcher.use(before)


def run(body: str, *args: np.ndarray, parameters: str, blocks: int = 1, cooperative: bool = False) -> None:
    head = f'{HARDWARE}\nextern "C" __global__ void kernel({parameters})\n'
    text = f"{head}{{ DYNAMIC_SHARED(shared); __shared__ REAL fixed[64]; const int i = threadIdx.x; {body} }}\n"
    sizes = np.dtype(np.float32), 1, 4096, cooperative
    launcher.launch_text(text, "kernel", (blocks,), (THREADS,), args, *sizes)


GRID = "unsigned* word, REAL* x"
NEIGHBOUR = "x[64 * ((blockIdx.x + 1) % 5) + i]"
SUMS = (
    "shared[i] = fixed[i] = blockIdx.x; "
    "for (int t = 0; t < 3; t++) { const REAL next = %s; %s x[64 * blockIdx.x + i] = next + 1; %s } "
    "if (shared[i] != blockIdx.x || fixed[63 - i] != blockIdx.x) x[i] = -1;"
)
"""Three times each block replaces its numbers by its neighbour's plus 1; its shared memory must not change."""


def test_the_grid_waits_for_all_blocks(order: int) -> None:
    x = np.repeat(np.arange(BLOCKS, dtype=np.float32), THREADS)
    code = SUMS % (NEIGHBOUR, "grid_sync(word);", "grid_sync(word);")
    run(code, np.zeros(1, np.uint32), x, parameters=GRID, blocks=BLOCKS, cooperative=True)
    assert np.array_equal(x, np.repeat((np.arange(BLOCKS) + 3) % BLOCKS + 3, THREADS))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (SUMS % (NEIGHBOUR, "", "grid_sync(word);"), "race at x.*no barrier orders blocks"),
        (SUMS % (NEIGHBOUR, "grid_sync(word);", ""), "race at x.*no barrier orders blocks"),
        (SUMS % (NEIGHBOUR, "__syncthreads();", "grid_sync(word);"), "race at x.*no barrier orders blocks"),
        ("if (blockIdx.x) grid_sync(word);", "some blocks wait for the grid"),
        ("if (i > 7) grid_sync(word);", "waits alone"),
        ("if (blockIdx.x) { grid_sync(word); } else {\ngrid_sync(word); }", "in another line"),
        ("fixed[i] = i; x[64 * blockIdx.x + i] = fixed[i ^ 1]; grid_sync(word);", "race at byte .* static shared"),
        ("grid_sync(word); shared[i] = i; x[64 * blockIdx.x + i] = shared[i ^ 1];", "race at byte .* dynamic shared"),
    ],
)
def test_wrong_barriers_of_the_grid_are_found(order: int, code: str, message: str) -> None:
    x = np.zeros(BLOCKS * THREADS, np.float32)
    with pytest.raises(RuntimeError, match=f"kernel: .*{message}"):
        run(code, np.zeros(1, np.uint32), x, parameters=GRID, blocks=BLOCKS, cooperative=True)


def test_a_grid_that_waits_needs_a_cooperative_launch(order: int) -> None:
    with pytest.raises(RuntimeError, match="waits alone"):
        run("grid_sync(word);", np.zeros(1, np.uint32), np.zeros(1, np.float32), parameters=GRID)


COPIES = "const REAL* x, REAL* y"
TWO_GROUPS = (
    "copy_async(shared + i, x + i); commit_copies(); copy_async(shared + 64 + i, x + 64 + i); commit_copies(); "
    "%s y[i] = shared[63 - i]; %s y[64 + i] = shared[127 - i];"
)
WIDE = "if (i < 16) copy_async((Four*)shared + i, (const Four*)x + i); commit_copies(); "


def copied(code: str) -> np.ndarray:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run("struct alignas(16) Four { REAL x[4]; }; " + code, x, y, parameters=COPIES)
    return y


def test_threads_change_where_the_compiler_checks_jumps() -> None:
    """With this option, which Ubuntu's g++ has by default, `longjmp` to another fiber used to end the process."""
    code = """
import numpy as np
from accel.verify.cuda_host import launcher
launcher.COMPILER = "g++", "-D_FORTIFY_SOURCE=2", *launcher.COMPILER[1:]
body = "__shared__ REAL other[64]; const int i = threadIdx.x; other[i] = x[i]; __syncthreads(); x[i] = other[63 - i];"
text, x = 'extern "C" __global__ void kernel(REAL* x) {' + body + "}", np.arange(64, dtype=np.float32)
launcher.launch_text(text, "kernel", (1,), (64,), (x,), x.dtype)
assert x.tolist() == list(range(63, -1, -1))
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_copies_arrive_at_the_wait(order: int) -> None:
    y = copied(TWO_GROUPS % ("wait_copies(1); __syncthreads();", "wait_copies(0); __syncthreads();"))
    assert np.array_equal(y, np.concatenate([np.arange(63, -1, -1), np.arange(127, 63, -1)]))
    y = copied(WIDE + "wait_copies(0); __syncthreads(); y[i] = shared[63 - i];")
    assert np.array_equal(y[:64], np.arange(63, -1, -1))
    y = copied(WIDE + "commit_copies(); wait_copies(1); __syncthreads(); y[i] = shared[63 - i];")  # an empty group
    assert np.array_equal(y[:64], np.arange(63, -1, -1))


def test_numbers_read_before_their_wait_are_nan() -> None:
    """The numbers are NaN also for the thread that copies them itself, for which no race is reported."""
    early = "copy_async(shared + i, x + i); commit_copies(); %s y[i] = shared[i]; wait_copies(0);"
    assert np.isnan(copied(early % "")[:64]).all() and np.isnan(copied(early % "wait_copies(1);")[:64]).all()
    assert np.array_equal(copied(early % "wait_copies(0);")[:64], np.arange(64))
    not_yet = "copy_async(shared + i, x + i); wait_copies(0); y[i] = shared[i]; commit_copies(); wait_copies(0);"
    assert np.isnan(copied(not_yet)[:64]).all()  # no group was ended before the wait


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (TWO_GROUPS % ("__syncthreads();", "wait_copies(0); __syncthreads();"), "race at byte"),
        (TWO_GROUPS % ("wait_copies(1);", "wait_copies(0); __syncthreads();"), "race at byte"),
        (
            TWO_GROUPS % ("wait_copies(0); __syncthreads();", "copy_async(shared + i, x + i);"),
            "race at byte|ends before",
        ),
        (WIDE + "__syncthreads(); y[i] = shared[63 - i]; wait_copies(0);", "race at byte"),
        (WIDE, "ends before its copies arrive"),
        ("copy_async(shared + i, x + i); wait_copies(0);", "ends before its copies arrive"),
        (
            "if (i == 0) copy_async((Four*)shared, (const Four*)(x + 1)); commit_copies(); wait_copies(0);",
            "of 16 bytes",
        ),
        ("if (i == 0) copy_async(y, x); commit_copies(); wait_copies(0);", "to shared memory only"),
        ("if (i == 0) copy_async(shared + 1024, x); commit_copies(); wait_copies(0);", "to shared memory only"),
    ],
)
def test_wrong_copies_are_found(order: int, code: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"kernel: .*(?:{message})"):
        copied(code)


PRODUCT = "const unsigned* a, const unsigned* b, float* d"
BF16 = (
    "const int g = i / 4, t = i % 4; unsigned u[4], v[2]; float sum[4] = {0, 0, 0, 0}; if (i < 32) { "
    "for (int w = 0; w < 4; w++) u[w] = a[(g + ROW) * 8 + t + COLUMN]; "
    "for (int w = 0; w < 2; w++) v[w] = b[g * 8 + t + 4 * w]; mma_bf16(sum, u, v); "
    "for (int e = 0; e < 4; e++) d[(g + e / 2 * 8) * 8 + 2 * t + e % 2] = sum[e]; }"
)
TF32 = BF16.replace("mma_bf16", "mma_tf32")
RIGHT = {"ROW": "w % 2 * 8", "COLUMN": "w / 2 * 4"}


def placed(code: str, row: str = RIGHT["ROW"], column: str = RIGHT["COLUMN"]) -> str:
    return code.replace("ROW", row).replace("COLUMN", column)


def product(code: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the kernel's product of a [16, K] and b [K, 8], float32."""
    d = np.full((16, 8), np.nan, np.float32)
    left, right = (np.ascontiguousarray(x, np.float32).view(np.uint32) for x in (a, b.T))
    if "mma_bf16" in code:  # two numbers a word, the first one in the lower half
        left, right = (x[:, ::2] >> 16 | x[:, 1::2] & np.uint32(0xFFFF0000) for x in (left, right))
    run(code, np.ascontiguousarray(left), np.ascontiguousarray(right), d, parameters=PRODUCT)
    return d


def draw_integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


@pytest.mark.parametrize(("code", "depth"), [(BF16, 16), (TF32, 8)])
def test_products_have_the_layouts_of_ptx(order: int, code: str, depth: int) -> None:
    a, b = draw_integers(1, 16, depth), draw_integers(2, depth, 8)
    assert np.array_equal(product(placed(code), a, b), a @ b)
    for swapped in ({"row": "w / 2 * 8", "column": "w % 2 * 4"}, {"row": "w % 2 * 4"}, {"column": "w / 2 * 2"}):
        assert not np.array_equal(product(placed(code, **swapped), a, b), a @ b)
    for old, new in (
        ("v[w] = b[g * 8 + t + 4 * w]", "v[w] = b[g * 8 + t + 4 * (1 - w)]"),
        ("2 * t + e % 2", "t + e % 2 * 4"),
    ):
        assert not np.array_equal(product(placed(code).replace(old, new), a, b), a @ b)


def test_a_product_needs_all_lanes(order: int) -> None:
    a, b = draw_integers(1, 16, 16), draw_integers(2, 16, 8)
    with pytest.raises(RuntimeError, match="waits alone"):
        product(placed(BF16).replace("i < 32", "i < 31"), a, b)


def test_sums_are_cut_not_rounded() -> None:
    """1 - 2^-25 gives the number below 1; terms below 2^-25 of the largest are lost, and TF32 reads 19 bits."""
    a, b = np.zeros((16, 8), np.float32), np.zeros((8, 8), np.float32)
    b[:2] = 1
    a[:, 0] = 1
    for term, expected in ((2.0**-23, 1 + 2.0**-23), (2.0**-24, 1), (-(2.0**-25), 1 - 2.0**-24), (-(2.0**-26), 1)):
        a[:, 1] = term
        assert (product(placed(TF32), a, b) == np.float32(expected)).all(), term
    a[:, :2] = [1 + 2.0**-11, 0]
    assert (product(placed(TF32), a, b) == 1).all()
    a[:, :2] = [np.inf, 1]
    assert np.isinf(product(placed(TF32), a, b)).all()
    a[:, 1] = np.nan
    assert np.isnan(product(placed(TF32), a, b)).all()


COPY_FOUR = "extern __shared__ float4 s[]; copy_async(s, (const float4*)d); commit_copies(); wait_copies(0); *d = s->x;"


@pytest.mark.parametrize(
    ("name", "code", "instruction"),
    [
        ("grid", "grid_sync((unsigned*)a);", "ATOM"),
        ("copies", COPY_FOUR, "LDGSTS.E.BYPASS.128"),
        ("bf16", placed(BF16), "HMMA.16816.F32.BF16"),
        ("tf32", placed(TF32), "HMMA.1688.F32.TF32"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_nvcc_makes_the_instruction(name: str, code: str, instruction: str, arch: str, tmp_path: Path) -> None:
    program = nvdisasm()
    if shutil.which("nvcc") is None or program is None:
        pytest.skip("nvcc and nvdisasm are not on PATH")
    source, binary = tmp_path / "kernel.cu", tmp_path / "kernel.cubin"
    source.write_text(f"{HARDWARE}\n__global__ void kernel({PRODUCT}) {{ const int i = threadIdx.x; {code} }}\n")
    command = ["nvcc", f"-arch={arch}", "--std=c++17", "-Xcudafe", "--diag_suppress=177", "-Werror", "all-warnings"]
    process = subprocess.run([*command, "-cubin", "-o", str(binary), str(source)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    text = subprocess.run([program, "-c", "-ndf", str(binary)], capture_output=True, text=True, check=True).stdout
    assert instruction in text
