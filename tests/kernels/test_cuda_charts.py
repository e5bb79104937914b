"""The inside and outside passes on the GPU, in two kernels a step or in one a pass, equal separate operations."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import KERNELS
from accel.cuda import charts, device, forms
from accel.cuda.pair_layers import TILE_BYTES, WARPS, tiles_of
from accel.verify.cuda_host import launcher
from tests.fixtures.chart_passes import MANY, both_passes
from tests.fixtures.cpu_backend import CPU
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
        assert tiles_of(rows, np.float32) == tiles
    assert tiles_of(5000, np.float32) == (313, 1) and tiles_of(6, np.float64) == (3, 4)


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


def test_width_that_does_not_fit(host_backend: ModuleType) -> None:
    device.use(device.Device(np, launcher.launch, launcher.each, shared_limit=100 * 1024))
    assert charts.fits(256, 1024, 128)
    assert not charts.fits(512, 2048, 128)
