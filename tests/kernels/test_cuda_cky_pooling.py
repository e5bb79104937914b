"""Charts larger than those of the table: vectors longer than a warp or a block, more splits than a warp has lanes.

These tests put NumPy in the place of CuPy.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import ref
from accel.cuda import device, forms
from accel.verify.cuda_host import cupy_array, launcher
from accel.verify.op import offsets_of
from tests.fixtures.chart_queries import LENGTHS, WIDTH, queried_charts
from tests.fixtures.comparisons import same
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gradient_checks import directional
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

FAST = forms.Forms("fast")


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
    """Charts of up to 40 tokens agree with the reference, with equal weights, usual weights, and one split a node."""
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


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    ("d", "lengths", "max_height"),
    [(1, [2], None), (33, [3, 1, 5, 5, 2], None), (WIDTH, LENGTHS, 3), (5, [3, 4], 1), (4, [], 3)],
)
def test_a_query_in_the_launches_for_tokens(
    host_backend: ModuleType, d: int, lengths: list[int], max_height: int | None, add: bool
) -> None:
    """Values and gradients are those of separate operations, in two orders of blocks, and there is no race."""
    assert not hasattr(CPU, "queried_cky_pool")
    expected = queried_charts(CPU, lengths, d, max_height, add=add)
    for order in (0, 7):
        before = launcher.use(launcher.Settings(order=order, races=True))
        try:
            with forms.use(FAST):
                actual = queried_charts(host_backend, lengths, d, max_height, add=add)
        finally:
            launcher.use(before)
        for name, x in expected.items():
            np.testing.assert_allclose(actual[name], x, rtol=1e-10, atol=1e-11, err_msg=name)


def test_ten_levels_are_forty_launches() -> None:
    """Ten levels take forty launches, forward and backward, with the direction of the scores.

    Two launches are not counted: one fills the word that checks write, which every step does once; the other copies the
    gradient of the tokens, which are parameters here.
    """
    before = device._device
    try:
        ops = launcher.host_backend()
        with forms.use(FAST):
            queried_charts(ops, [12, 5, 9], 8, 10)  # copies the places of nodes
            with cupy_array.counted() as counts:
                queried_charts(ops, [12, 5, 9], 8, 10)
    finally:
        device.use(before)
    others = ("full", "copy_arrays")
    kernels = {name: n for (kind, name), n in counts.items() if kind == cupy_array.KERNELS and name not in others}
    assert sum(kernels.values()) == 40, kernels


def test_a_query_of_float32(host_backend: ModuleType) -> None:
    """The error against float64 is at most twice that of separate operations."""
    exact = queried_charts(CPU, LENGTHS, WIDTH, 3)
    separate = queried_charts(CPU, LENGTHS, WIDTH, 3, dtype=np.float32)
    with forms.use(FAST):
        together = queried_charts(host_backend, LENGTHS, WIDTH, 3, dtype=np.float32)
    for name, x in exact.items():
        bound = 2 * abs(separate[name] - x).max() + np.finfo(np.float32).eps * abs(x).max()
        assert together[name].dtype == np.float32 and abs(together[name] - x).max() <= bound, name


def test_a_query_of_the_wrong_shape(host_backend: ModuleType) -> None:
    tokens, compose, w, query, key = draw((3, 4), (8, 4), (4,), (4, 4), (4, 4))
    for arguments, message in (((w[1:], query, key), "w"), ((w, query[1:], key), "query"), ((w, query, w), "key")):
        with pytest.raises(ValueError, match=f"{message}: shape"):
            host_backend.queried_cky_pool(tokens, compose, *arguments, offsets_of([3]), max_height=None)


def test_no_charts(host_backend: ModuleType) -> None:
    """A batch of no sentences has outputs without rows, and all parameters have a gradient of 0."""
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
