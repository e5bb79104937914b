"""Adam at the sizes of its kernels' chunks and blocks."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import cpu, ref
from accel.cpu.support.kernels import MOST_CHUNKS
from accel.training import optimizer
from accel.verify.sizes import sizes_around
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

CHUNK_ELEMENTS = import_module("accel.cpu.optimizer").CHUNK_ELEMENTS
THREADS = import_module("accel.cuda.optimizer").THREADS
SUMMING_BLOCKS = import_module("accel.cuda.optimizer").SUMMING_BLOCKS
OPTIONS = {"rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "step": 3, "scale": 0.5}


def assert_same_step(backend: ModuleType, size: int) -> None:
    fast = draw(*[(size,)] * 4)
    fast[3] **= 2
    exact = [x.copy() for x in fast]
    backend.adam(*fast, **OPTIONS)
    ref.adam(*exact, **OPTIONS)
    for x, y in zip(fast, exact, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", sizes_around((2 * CHUNK_ELEMENTS, MOST_CHUNKS * CHUNK_ELEMENTS)))
def test_steps_of_more_than_a_chunk(size: int) -> None:
    assert_same_step(cpu, size)


@pytest.mark.parametrize("size", sizes_around((THREADS,)))
def test_steps_of_more_than_a_block(host_backend: ModuleType, size: int) -> None:
    assert_same_step(host_backend, size)


def test_a_step_whose_rate_lies_on_the_device_is_the_same(host_backend: ModuleType) -> None:
    """The bits agree in float32, too: numbers are rounded only where they are used."""
    of_step = np.array(
        [OPTIONS["rate"], *host_backend.corrections(OPTIONS["beta1"], OPTIONS["beta2"], OPTIONS["step"])]
    )
    for dtype in (np.float32, np.float64):
        first = [abs(x).astype(dtype) for x in draw(*[(THREADS + 3,)] * 4)]
        second = [x.copy() for x in first]
        host_backend.adam(*first, **OPTIONS)
        host_backend.adam(*second, **OPTIONS | {"rate": of_step})
        assert all(np.array_equal(x, y) for x, y in zip(first, second, strict=True))
    with pytest.raises(ValueError, match="^rate: shape"):
        host_backend.adam(*first, **OPTIONS | {"rate": of_step[:2]})


@pytest.mark.parametrize("size", [0, 1, *sizes_around((THREADS, THREADS * SUMMING_BLOCKS))])
def test_squares_are_summed_in_float64(host_backend: ModuleType, size: int) -> None:
    for dtype in (np.float32, np.float64):
        x = draw((size,))[0].astype(dtype)
        norm, factor = host_backend.clipped(x, 4, None)
        assert float(norm) == pytest.approx(float((x.astype(np.float64) ** 2).sum()) ** 0.5 / 4, rel=1e-13)
        assert factor == 0.25 and factor.dtype == dtype


@pytest.mark.parametrize(
    ("n_labels", "clip_norm"), [(5, 0.25), (5, 100.0), (5, None), (0, 0.25), (np.array(3.0), 0.25)]
)
def test_a_gradient_is_clipped_as_on_the_host(host_backend: ModuleType, n_labels: Any, clip_norm: float | None) -> None:
    """The norm is that of the mean over labels; their number may be 0, and may lie on the device."""
    (x,) = draw((1000,))
    expected = optimizer.clipped(np, x, n_labels, clip_norm)
    assert [float(y) for y in host_backend.clipped(x, n_labels, clip_norm)] == pytest.approx(expected, rel=1e-13)
