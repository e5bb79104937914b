"""Tables of relative positions on the GPU: the sinusoids of each position, and the dropout of each layer's table."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from accel.autodiff import layers
from accel.cuda.relative_positions import THREADS, TOGETHER
from refimpl.layers import sinusoids
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]


def test_sinusoids_are_those_of_the_reference(host_backend: ModuleType) -> None:
    """Tables are smaller and larger than a block, and have negative positions; float32 values are rounded once."""
    for count, d, first in ((1, 2, 0), (5, 6, -1), (THREADS // 4, 4, 3), (THREADS // 4 + 1, 4, 1000)):
        expected = sinusoids(np.arange(first, first + count), d)
        wide = layers.sinusoids(host_backend, count, d, np.float64, first)
        np.testing.assert_allclose(wide, expected, rtol=0, atol=1e-15 * (1 + abs(first) + count))
        narrow = layers.sinusoids(host_backend, count, d, np.float32, first)
        np.testing.assert_array_equal(narrow, wide.astype(np.float32))


@pytest.mark.parametrize("count", [1, TOGETHER, TOGETHER + 1])
def test_every_seed_draws_as_the_operation(host_backend: ModuleType, count: int) -> None:
    seeds = [2**63 + 5 * number for number in range(count)]
    for dtype, shape in ((np.float32, (1, 2)), (np.float64, (3, 5)), (np.float32, (5, THREADS + 2))):
        (x,) = (array.astype(dtype) for array in draw(shape))
        for rate in (0.0, 0.4):
            dropped = host_backend.dropout_all(x, rate, seeds)
            for number, seed in enumerate(seeds):
                np.testing.assert_array_equal(dropped[number], host_backend.dropout(x, rate, seed)[0])
    with pytest.raises(ValueError, match=r"^rate: 1\.0"):
        host_backend.dropout_all(x, 1.0, seeds)
