"""The sums over the rows of a matrix, column by column, for few and for many rows."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from accel import cpu
from accel.autodiff.arrays import host
from accel.autodiff.learned import learned
from accel.autodiff.tape import Tape
from accel.autodiff.variables import constant
from accel.cuda import device
from accel.cuda.layers import ROWS
from accel.cuda.support.columns import (
    ADDING_THREADS,
    MOST_PARTS,
    ROWS_TOGETHER,
    SUMMING_WARPS,
    THREADS,
    column_parts,
    column_sums,
    rows_of_part,
)
from accel.verify.cuda_host import cupy_array, launcher
from accel.verify.cuda_host.launcher import MOST_BLOCKS
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

WIDTHS = (1, THREADS - 1, THREADS + 1, ADDING_THREADS + 1)


@pytest.mark.parametrize("rows", [0, 1, ROWS_TOGETHER, ROWS_TOGETHER + 1, 3 * ROWS_TOGETHER])
def test_columns_are_summed(host_backend: ModuleType, rows: int) -> None:
    for width in WIDTHS:
        matrices = draw(*[(rows, width)] * 3)
        for count in (1, 2, 3):
            for actual, x in zip(column_sums(*matrices[:count]), matrices, strict=False):
                np.testing.assert_allclose(actual, x.sum(axis=0), rtol=0, atol=1e-13)


def test_a_grid_takes_many_rows(host_backend: ModuleType) -> None:
    """A matrix of over four million rows, 64 a block, needs more blocks than the 65,535 of CUDA's second axis."""
    grids: list[tuple[int, ...]] = []
    device.use(replace(device._current(), launch=lambda source, kernel, grid, *rest: grids.append(grid)))
    column_parts(np.broadcast_to(np.float32(0), (MOST_BLOCKS[1] * ROWS_TOGETHER + 1, 2)))
    assert grids == [(MOST_BLOCKS[1] + 1, 1, 1)]
    with pytest.raises(ValueError, match="grid of .* blocks, but CUDA takes at most"):
        launcher.launch("layers", "dropout", (1, *grids[0][:1]), (32,), (), np.dtype(np.float32), 1, 0, False)


def test_other_axes_stay(host_backend: ModuleType) -> None:
    (x,) = draw((2 * ROWS_TOGETHER, 3, 5))
    np.testing.assert_allclose(column_sums(x)[0], x.sum(axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [1, SUMMING_WARPS, SUMMING_WARPS + 1, ROWS, ROWS + 1, 5 * ROWS])
def test_gradients_of_a_pass_are_summed_at_its_end(n: int) -> None:
    """Long column sums of gradients wait until the pass ends, if a parameter is used once.

    A parameter that is used twice gets both sums when they are computed.
    """
    x, d_out, *vectors = draw((n, 5), (n, 5), 5, 5, 5)
    before, gpu, results = device._device, launcher.host_backend(), []
    try:
        for ops in (cpu, gpu):
            values = {name: ops.xp.asarray(vector) for name, vector in zip("abc", vectors, strict=True)}
            with learned(ops, values) as learning, cupy_array.counted() as counts:
                tape, p = Tape(ops), learning.variables
                h = tape.op("layer_norm", constant(ops.xp.asarray(x)), p["a"], p["b"])
                tape.backward(tape.op("layer_norm", h, p["c"], p["b"]), ops.xp.asarray(d_out))
                late = [hasattr(p[name].gradient, "summed") for name in "abc"]
            results.append([host(learning.gradients[name]) for name in "abc"])
        assert late == ([True, False, True] if n > ROWS else [False] * 3)
        assert counts["kernels", "add_parts"] == (2 if n > ROWS else 0)
        [np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12) for theirs, ours in zip(*results, strict=True)]
    finally:
        device.use(before)


def test_many_rows_have_few_parts() -> None:
    assert [rows_of_part(n, 4) for n in (0, 1, 4 * MOST_PARTS, 4 * MOST_PARTS + 1)] == [4, 4, 4, 8]
