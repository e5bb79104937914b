"""CUDA streams: one of our own for the kernels of a training, and others for work that runs beside them.

The null stream waits for all other streams, and they wait for it; a stream of our own, which is non-blocking, does not.
Only events order the work of two such streams. CuPy has a current stream for each thread: `received` makes that of the
training wait for the copies that another thread began.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array


class Beside:
    """A second stream, whose work may run at the same time as that of the current one."""

    def __init__(self) -> None:
        self.stream = device.xp().cuda.Stream(non_blocking=True)

    def run(self, begin: Callable[[Any], None]) -> Callable[[], None]:
        """Call `begin` with this stream, which first waits for the current stream's work so far.

        Return a function that makes the current stream wait for the work of `begin`; the host does not wait.
        """
        start = recorded(current())
        self.stream.wait_event(start)
        begin(self.stream)
        end = recorded(self.stream)
        return lambda: current().wait_event(end)


def current() -> Any:
    """Return the current stream of this thread."""
    return device.xp().cuda.get_current_stream()


def current_gpu() -> Any:
    """Return the current GPU of this thread, a context in which another thread works on it, too."""
    return device.xp().cuda.Device()


def recorded(stream: Any) -> Any:
    """Return an event that follows all work of a stream so far."""
    event = device.xp().cuda.Event(disable_timing=True)
    event.record(stream)
    return event


@dataclass(frozen=True)
class _Training:
    """The stream of the kernels, the stream of copies, and events of copies that the kernels do not wait for yet."""

    kernels: Any
    copies: Any
    thread: int  # the one that launches the kernels
    arriving: list[Any] = field(default_factory=list)


_training: _Training | None = None
_asking = threading.RLock()  # held while a stream is captured: a copy by another thread would be captured, too
_captures = False
_sources: list[tuple[Any, np.ndarray]] = []  # host memory of copies that may still run: must not be freed


@contextmanager
def own_stream() -> Iterator[None]:
    """Run the kernels of this thread on a stream of our own, and copies from the host by any thread on another."""
    global _training
    cuda = getattr(device.xp(), "cuda", None)
    if (
        cuda is None or _training is not None
    ):  # neither a GPU nor a stand-in for its streams, or inside of another training
        yield
        return
    outer, kernels, copies = current(), cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
    kernels.wait_event(recorded(outer))
    _training = _Training(kernels, copies, threading.get_ident())
    try:
        with kernels:
            yield
    finally:
        with _asking:  # a thread that reads ahead may be about to copy
            _training = None
            for stream in (copies, kernels):
                outer.wait_event(recorded(stream))


@contextmanager
def capturing() -> Iterator[None]:
    """Let no thread copy from the host while the context lasts."""
    global _captures
    with _asking:
        _captures = True
        try:
            yield
        finally:
            _captures = False


def sent(block: np.ndarray) -> Array:
    """Return a copy on the device of a block in pinned memory; the host does not wait.

    Later kernels of this thread wait for the copy. If this is not the thread of the training, the training's kernels
    wait for it from its next call of `received` on. Raises RuntimeError while this thread captures a stream; another
    thread waits for the end of the capture.
    """
    with _asking:
        if _captures:
            raise RuntimeError("a copy from the host: not permitted while a stream is captured")
        return _sent(block)


def _sent(block: np.ndarray) -> Array:
    training, array = _training, device.xp().empty(block.size, np.uint8)
    stream = current() if training is None else training.copies
    if training is not None:
        stream.wait_event(recorded(training.kernels))  # these kernels may still read what was in this memory before
    array.set(block, stream)
    copied = recorded(stream)
    _sources[:] = [(event, source) for event, source in _sources if not event.done]
    _sources.append((copied, block))
    if training is not None and training.thread != threading.get_ident():
        training.arriving.append(copied)
    else:
        current().wait_event(copied)
    return array


def received() -> None:
    """Make later kernels of this thread, the training's, wait for all copies that other threads began."""
    while _training is not None and _training.arriving:
        current().wait_event(_training.arriving.pop(0))
