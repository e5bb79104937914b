"""What the capture of a CUDA graph repeats, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.cuda.support import check
from accel.verify.cuda_host import cupy_streams
from tests.fixtures.stand_in_gpu import gpu

__all__ = ["gpu"]


def test_what_lies_inside_a_graph_holds_nothing_before_its_replay(gpu: ModuleType) -> None:
    xp = gpu.xp
    outside = xp.full(3, 1.0)

    def work() -> tuple[Any, Any]:
        inside = xp.empty(3)
        inside += 1.0  # reads memory that nobody filled
        doubled = outside * 2.0
        outside[...] = doubled
        return inside, doubled

    (inside, doubled), replay = gpu.captured(work)
    assert np.isnan(doubled.get()).all() and (outside.get() == 1).all()
    for expected in (2.0, 4.0):
        replay()
        assert (outside.get() == expected).all() and (doubled.get() == expected).all()
        assert np.isnan(inside.get()).all()


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda gpu, x: float(x[0]),
        lambda gpu, x: x.get(),
        lambda gpu, x: x[x > 0],
        lambda gpu, x: gpu.xp.asarray(np.ones(3)),
        lambda gpu, x: gpu.from_host({"x": np.ones(3)}),
        lambda gpu, x: x.set(np.ones(3)),
        lambda gpu, x: x.dot(x),
        lambda gpu, x: gpu.xp.concatenate([x] * 9),
        lambda gpu, x: check.dropout(0.5, 7),
    ],
)
def test_a_capture_refuses_what_it_cannot_repeat(gpu: ModuleType, forbidden: Callable[..., Any]) -> None:
    x, seeds = gpu.xp.full(3, 1.0), gpu.xp.zeros(2, np.uint64)
    with gpu.seeds_in_memory({5: 0}, seeds), pytest.raises(RuntimeError, match="captured|a graph cannot replace it"):
        gpu.captured(lambda: forbidden(gpu, x))
    assert (gpu.xp.full(3, 2.0).get() == 2).all() and gpu.from_host({"x": np.ones(3)})["x"].get().all()


def test_the_null_stream_is_not_captured(gpu: ModuleType) -> None:
    with cupy_streams._null, pytest.raises(RuntimeError, match="null stream"):
        gpu.captured(list)


def test_another_thread_copies_after_a_capture(gpu: ModuleType) -> None:
    arrays: list[Any] = []
    thread = Thread(target=lambda: arrays.append(gpu.from_host({"x": np.arange(3)})["x"]))

    def work() -> None:
        thread.start()
        thread.join(0.05)
        assert not arrays

    gpu.captured(work)
    thread.join()
    gpu.received()
    assert np.array_equal(arrays[0].get(), np.arange(3))
