"""A training's kernels run on their own stream, and what another stream copies has arrived before it is read."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.cuda.support import gpu as opened
from accel.cuda.support import streams
from accel.data.batches.trees import Batches
from accel.verify.cuda_host import cupy_streams
from tests.fixtures import toy_run
from tests.fixtures.stand_in_gpu import gpu_without_stream

__all__ = ["gpu_without_stream"]


def sent_by_another_thread(gpu: ModuleType, array: np.ndarray) -> object:
    result: list[object] = []
    thread = Thread(target=lambda: result.append(gpu.from_host({"x": array})["x"]))
    thread.start()
    thread.join()
    return result[0]


def test_a_copy_of_another_thread_arrives_when_it_is_received(gpu: ModuleType) -> None:
    """Before `received` the array still has its old contents."""
    array = np.arange(5)
    with gpu.own_stream():
        stream = streams.current()
        assert stream is not cupy_streams._null
        there = sent_by_another_thread(gpu, array)
        assert not np.array_equal(there.get(), array)
        gpu.received()
        assert np.array_equal(there.get(), array)
        assert np.array_equal(gpu.from_host({"x": array})["x"].get(), array)  # this thread waits by itself
        with gpu.own_stream():
            assert streams.current() is stream
    assert streams.current() is cupy_streams._null and streams._training is None
    assert np.array_equal(sent_by_another_thread(gpu, array).get(), array)


def test_what_was_begun_has_arrived_after_the_training(gpu: ModuleType) -> None:
    with gpu.own_stream():
        there = sent_by_another_thread(gpu, np.arange(5))
    assert np.array_equal(there.get(), np.arange(5))


def test_a_training_that_reads_ahead_is_the_one_that_does_not(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = replace(toy_run.TRAINING, steps=3, warmup_steps=1)
    for prefetch in (0, 2):
        toy_run.run(tmp_path / str(prefetch), training=training, backend="cuda", prefetch=prefetch)
    assert toy_run.metrics(tmp_path / "0") == toy_run.metrics(tmp_path / "2")
    monkeypatch.setattr(gpu, "received", lambda: None)
    with pytest.raises((ValueError, IndexError, RuntimeError)):  # numbers that were never sent
        toy_run.run(tmp_path / "late", training=training, backend="cuda", prefetch=2)


def test_a_thread_that_reads_ahead_works_on_the_gpu_of_the_training(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA starts every thread on the first GPU, where the kernels of another one could not read the batches."""
    numbers: list[int] = []
    from_host = gpu.from_host

    def noted(*args: Any, **options: Any) -> Any:
        numbers.append(gpu.xp.cuda.Device().id)
        return from_host(*args, **options)

    monkeypatch.setattr(gpu, "from_host", noted)
    with gpu.xp.cuda.Device(1):
        with Batches(toy_run.CORPUS, toy_run.VOCABULARY, toy_run.CONFIG, 2, ops=gpu) as batches:
            next(batches)
    assert set(numbers) == {1} and gpu.xp.cuda.Device().id == 0


def test_a_stream_of_another_library_is_taken_by_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy 14 warns of `ExternalStream`, and in these tests a warning is an error."""
    entered: list[Any] = []

    def from_external(stream: Any) -> nullcontext[None]:
        entered.append(stream.__cuda_stream__())
        return nullcontext()

    def of_number(number: int) -> nullcontext[None]:
        entered.append(number)
        return nullcontext()

    cuda = SimpleNamespace(Device=of_number, Stream=SimpleNamespace(from_external=from_external))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    with opened.on_stream(4660, 1):
        assert entered == [1, (0, 4660)]
