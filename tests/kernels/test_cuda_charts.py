"""The inside and outside passes on the GPU, in two kernels a step or in one a pass, equal separate operations."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import KERNELS
from accel.cuda import charts, device, forms
from accel.cuda.pair_layers import PARTS, TILE_BYTES, WARPS, tiles_of
from accel.verify.cuda_host import launcher
from tests.fixtures.chart_passes import MANY, both_passes
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import config_of
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

WIDE = {"d_compose": 2 * WARPS * 5, "d_score": 33}  # more than a warp in every row
assert max(MANY) > TILE_BYTES // 8  # more words than a tile of float64 has rows


def compare(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], bound: float) -> None:
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert abs(found[name] - x).max(initial=0) <= bound * (1 + abs(x).max(initial=0)), name


@pytest.mark.parametrize(
    ("lengths", "window", "changes"),
    [
        (MANY, 2, {"dropout": 0.3, "detached": True}),
        (MANY, 1, {"dropout": 0.3}),
        ([7, 4], 6, {"decompose_layers": 2}),
        ([1, 1], 2, {"dropout": 0.3}),
        ([4, 1], 2, WIDE),
    ],
)
def test_passes_are_those_of_separate_operations(
    host_backend: ModuleType, lengths: list[int], window: int, changes: dict[str, Any]
) -> None:
    """Values and gradients agree in float64, with the same dropout masks, for two passes over one record, one detached.

    The fast form gives the same bits in tiles of any size.
    """
    results, expected = (both_passes(ops, lengths, window, **changes) for ops in (host_backend, CPU))
    compare(results, expected, 1e-12)
    for multiprocessors in (1, 3, 99):
        device.use(replace(device._current(), multiprocessors=multiprocessors))
        with forms.use(forms.Forms("fast")):
            fast = both_passes(host_backend, lengths, window, **changes)
        for name, x in results.items():
            np.testing.assert_array_equal(fast[name], x, err_msg=name)


def test_a_pass_that_keeps_its_record_has_all_gradients(host_backend: ModuleType) -> None:
    """The only backward pass of a module for PyTorch keeps the record, and leaves no entry for a later pass."""
    expected = both_passes(CPU, MANY, 2)
    compare(both_passes(host_backend, MANY, 2, keeps_record=True), expected, 1e-12)
    compare(both_passes(CPU, MANY, 2, keeps_record=True), expected, 1e-12)


def test_few_rows_are_shared_out_among_more_blocks(host_backend: ModuleType) -> None:
    """Every block reads all weights: it has the fewest rows with which no multiprocessor gets two blocks."""
    device.use(replace(device._current(), multiprocessors=132))
    for rows, tiles in ((2, (1, 4)), (64, (16, 4)), (528, (132, 4)), (529, (67, 2)), (1056, (132, 2)), (1057, (67, 1))):
        assert tiles_of(rows, np.float32, 1) == tiles
    assert tiles_of(5000, np.float32, 1) == (313, 1) and tiles_of(6, np.float64, 1) == (3, 4)


def test_tiles_fit_into_shared_memory(host_backend: ModuleType) -> None:
    """Too many rows for all tiles to run at once have whole tiles, or the largest ones that fit."""
    device.use(replace(device._current(), shared_limit=1024 * TILE_BYTES))
    for columns, part in ((1024, 1), (1025, 2), (2048, 2), (2049, 4), (4096, 4), (4097, 4)):
        assert tiles_of(5000, np.float32, columns) == (-(-5000 * part // 16), part)


def test_the_fast_form_is_one_launch_a_pass(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, launch = [], device.launch

    def counted(source: str, kernel: str, *args: Any, **options: Any) -> None:
        kernels.append(kernel)
        launch(source, kernel, *args, **options)

    monkeypatch.setattr(device, "launch", counted)
    with forms.use(forms.Forms("fast")):
        both_passes(host_backend, MANY, 2)
    of_passes = [kernel for kernel in kernels if "chart_" in kernel or "pair_layers" in kernel]
    assert of_passes == ["chart_pass_forward"] * 2 + ["chart_pass_backward"] * 2


def test_nothing_is_kept_where_nothing_is_learned(host_backend: ModuleType) -> None:
    results, expected = (both_passes(host_backend, MANY, 2, recording=x) for x in (False, True))
    for name, x in results.items():
        np.testing.assert_array_equal(x, expected[name])


def test_recomputed_passes_are_the_same(host_backend: ModuleType) -> None:
    first, again = (both_passes(host_backend, [5, 2], 2, dropout=0.3, recompute=x) for x in (False, True))
    for name, x in first.items():
        np.testing.assert_array_equal(again[name], x)


def test_no_race_in_any_order_of_threads(host_backend: ModuleType) -> None:
    plain = both_passes(host_backend, MANY, 2, dropout=0.3, dtype=np.float32)
    before = launcher.use(launcher.Settings(races=True, order=3))
    try:
        for kernels in KERNELS:
            with forms.use(forms.Forms(kernels)):
                compare(both_passes(host_backend, MANY, 2, dropout=0.3, dtype=np.float32), plain, 1e-5)
    finally:
        launcher.use(before)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("part", PARTS)
def test_passes_in_tiles_that_fit(
    host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch, kernels: str, part: int
) -> None:
    """On a GPU with less shared memory the tiles are smaller, of the layers and of the nodes, and the results the same.

    They just fit: what the charts need most decides which part of a whole tile it is.
    """
    dtype, config = np.float32, config_of()
    sizes = config.d_compose, 4 * config.d_compose, config.d_score
    columns = max(2 * sizes[0] + max(4 * sizes[0], sizes[1]), 4 * sizes[0] + 2 * sizes[2])
    device.use(replace(device._current(), multiprocessors=1))
    with forms.use(forms.Forms(kernels)):
        expected = both_passes(host_backend, MANY, 2, dtype=dtype)
    device.use(replace(device._current(), shared_limit=columns * TILE_BYTES // part))
    chunks, launch = set(), device.launch

    def noted(source: str, kernel: str, *args: Any, **options: Any) -> None:
        if options.get("shared", 0):
            chunks.add(options["chunks"])
        launch(source, kernel, *args, **options)

    monkeypatch.setattr(device, "launch", noted)
    assert charts.fits(*sizes)
    with forms.use(forms.Forms(kernels)):
        results = both_passes(host_backend, MANY, 2, dtype=dtype)
    assert part in chunks
    for name, x in expected.items():
        np.testing.assert_array_equal(results[name], x, err_msg=name)


def test_width_that_does_not_fit(host_backend: ModuleType) -> None:
    """GPST's medium size fits into every GPU: that of compute capability 7.5 has 64 KB for a block."""
    for limit, fitting, too_wide in ((64, 512, 1024), (99, 1024, 1100), (163, 1100, 2048)):
        device.use(device.Device(np, launcher.launch, launcher.each, shared_limit=limit * 1024))
        assert charts.fits(fitting, 4 * fitting, 128) and not charts.fits(too_wide, 4 * too_wide, 128)
