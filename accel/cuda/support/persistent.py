"""The persistent form of a recurrence: how its blocks share out the weight, and its launch.

Each block keeps rows of the weight in shared memory for all steps: 132 multiprocessors of 227 KB hold 30 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support.cell import Steps

ROWS = 4  # as in persistent.cu
TOGETHER = 8
WARPS = 12  # of a block, at most
FEW = 64  # sequences: on an H200 the one kernel took 7.4 ms for 256, products 4.8 ms; for 20 half the time of products
LEAST_CHUNK = 32  # columns of states that shared memory must hold beside the weight


@dataclass(frozen=True)
class Plan:
    """Blocks of `warps` warps, each block with `rows` rows of a matrix, which its `groups` groups of warps share out.

    `warps` is a multiple of `groups`; `chunk` columns of the states are in shared memory at a time.
    """

    blocks: int
    warps: int
    rows: int
    groups: int
    chunk: int
    shared: int  # bytes


def plan(matrix: Array, scratch: int, n_sequences: int = 1) -> Plan | None:
    """Return how blocks share out a matrix [n_rows, length] in shared memory, beside `scratch` other numbers a block.

    None if the matrix does not fit, or for more than FEW sequences, for which products are faster.
    """
    if n_sequences > FEW:
        return None
    n_rows, length = matrix.shape
    rows = -(-n_rows // device.multiprocessors())
    passes = -(-rows // (ROWS * WARPS))
    groups = -(-rows // (ROWS * passes))
    slices = max(1, min(WARPS // groups, -(-length // 32)))
    parts = slices * groups * ROWS * TOGETHER
    numbers = device.shared_limit() // matrix.itemsize - rows * length - scratch - parts
    chunk = min(length, numbers // TOGETHER)
    if chunk < min(length, LEAST_CHUNK):
        return None
    shared = (rows * length + scratch + parts + TOGETHER * chunk) * matrix.itemsize
    return Plan(-(-n_rows // rows), slices * groups, rows, groups, chunk, shared)


def launch(kernel: str, arrays: tuple[Any, ...], steps: Steps, sizes: tuple[int, int, int], of: Plan) -> None:
    """Run a kernel of persistent.cu with the plan `of`; sizes: n, H and R."""
    numbers = (len(steps.starts), len(steps.active), *sizes, of.rows, of.groups, of.chunk)
    device.launch(
        "support/persistent", kernel, (of.blocks,), (32, of.warps), (*arrays, word(), *numbers),
        arrays[0].dtype, shared=of.shared, cooperative=True,
    )  # fmt: skip


def word() -> Array:
    """Return the number in which blocks count each other; every barrier leaves its lower bits at 0 for the next one.

    Kernels of two streams may run at once: each stream has a number, which exists before it is captured.
    """
    return _word(device.xp(), device.number(), device.stream())


@cache
def _word(xp: ModuleType, number: int, stream: int) -> Array:
    """Return the word of this stream, on the GPU of this number."""
    return xp.zeros(1, "uint32")
