"""Adam at the sizes of its kernels' chunks and blocks."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from accel import cpu, ref
from accel.cpu.support.kernels import MOST_CHUNKS
from accel.verify.sizes import sizes_around
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

CHUNK_ELEMENTS = import_module("accel.cpu.optimizer").CHUNK_ELEMENTS
THREADS = import_module("accel.cuda.optimizer").THREADS
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
