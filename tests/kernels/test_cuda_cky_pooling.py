"""Charts larger than those of the table: vectors longer than a warp or a block, more splits than a warp has lanes.

These tests put NumPy in the place of CuPy.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import ref
from accel.verify.op import offsets_of
from tests.fixtures.comparisons import same
from tests.fixtures.gradient_checks import directional
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]


def charts(d: int, lengths: list[int]) -> list[Any]:
    """Return tokens, compose, direction and offsets."""
    tokens, compose, direction = draw((sum(lengths), d), (2 * d, d), (d,))
    return [tokens, compose / np.sqrt(2 * d), direction / np.sqrt(d), offsets_of(lengths)]


@pytest.mark.parametrize("d", [1, 33, 257])
def test_vectors_longer_than_a_warp_or_a_block(host_backend: ModuleType, d: int) -> None:
    args = charts(d, [3, 1, 5, 5, 2])
    for height in (1, 2, 4, 5, 9, None):
        same(host_backend.cky_pool(*args, max_height=height)[:2], ref.cky_pool(*args, max_height=height))
    for height in (1, 3, None):
        directional(host_backend, "cky_pool", args, 3, max_height=height)


def test_more_splits_than_a_warp_has_lanes(host_backend: ModuleType) -> None:
    """Full charts of 40 and 36 tokens; with the weights all equal, as they are, and on one split of each node."""
    args = charts(3, [2, 40, 36])
    for sharpness in (0, 1, 1000):
        sharpened = [*args[:2], sharpness * args[2], args[3]]
        outputs = host_backend.cky_pool(*sharpened, max_height=None)
        same(outputs[:2], ref.cky_pool(*sharpened, max_height=None))
        if sharpness < 1000:
            directional(host_backend, "cky_pool", sharpened, 3, max_height=None)
    assert outputs[1].max() == 1
    for fast, exact in zip(
        *(ops.chart_trees(outputs[1], args[3], max_height=40) for ops in (host_backend, ref)), strict=True
    ):
        assert np.array_equal(fast, exact)


def test_no_charts(host_backend: ModuleType) -> None:
    """A batch of no sentences has outputs without rows, and parameters without a slope."""
    args = [*charts(5, [3])[:3], np.array([0])]
    args[0] = args[0][:0]
    outputs = host_backend.cky_pool(*args, max_height=None)
    assert all(len(x) == 0 for x in outputs)
    assert all(not x.any() for x in host_backend.cky_pool_vjp(outputs[0], outputs, *args, max_height=None))
    spans, span_offsets = host_backend.chart_trees(outputs[1], args[3], max_height=None)
    assert spans.shape == (0, 2) and span_offsets.tolist() == [0]


def test_nothing_that_is_no_number_gets_through(host_backend: ModuleType) -> None:
    for number, filling in ((1, np.nan), (1, np.inf), (2, np.nan)):
        args = [x.copy() for x in charts(6, [4, 3])]
        args[number][-1] = filling
        with pytest.raises(ValueError, match="nodes: NaN or infinity in row 4"):
            host_backend.cky_pool(*args, max_height=None)
