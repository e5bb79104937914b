"""Streams: one of our own for the kernels of a training, and others for what runs beside them.

The null stream waits for all others, and they for it; a stream of our own does not. Work beside it is ordered by events
alone. CuPy's current stream is that of a thread: copies that another thread begins are waited for by `received`.
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
    """A stream beside the current one."""

    def __init__(self) -> None:
        self.stream = device.xp().cuda.Stream(non_blocking=True)

    def run(self, begin: Callable[[Any], None]) -> Callable[[], None]:
        """Call `begin` with the stream, after all that the current one was asked for; return what waits for it.

        The current stream waits; the host does not.
        """
        start = recorded(current())
        self.stream.wait_event(start)
        begin(self.stream)
        end = recorded(self.stream)
        return lambda: current().wait_event(end)


def current() -> Any:
    """Return the current stream of this thread."""
    return device.xp().cuda.get_current_stream()


def recorded(stream: Any) -> Any:
    """Return an event after all that a stream was asked for."""
    event = device.xp().cuda.Event(disable_timing=True)
    event.record(stream)
    return event


@dataclass(frozen=True)
class _Training:
    """The stream of the kernels, that of copies, and the copies that nobody waited for yet."""

    kernels: Any
    copies: Any
    thread: int  # that asks for the kernels
    arriving: list[Any] = field(default_factory=list)


_training: _Training | None = None
_asking = threading.RLock()  # held while a stream is captured: what another thread asked for would be captured, too
_captures = False
_sources: list[tuple[Any, np.ndarray]] = []  # of copies that may still run: they must stay


@contextmanager
def own_stream() -> Iterator[None]:
    """Run the kernels of this thread on a stream of their own, and copies from the host, of any thread, on another."""
    global _training
    cuda = getattr(device.xp(), "cuda", None)
    if (
        cuda is None or _training is not None
    ):  # neither a GPU nor a stand-in for its streams; or within another training
        yield
        return
    outer, kernels, copies = current(), cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
    kernels.wait_event(recorded(outer))
    _training = _Training(kernels, copies, threading.get_ident())
    try:
        with kernels:
            yield
    finally:
        _training = None
        for stream in (copies, kernels):
            outer.wait_event(recorded(stream))


@contextmanager
def capturing() -> Iterator[None]:
    """Let no thread copy from the host inside."""
    global _captures
    with _asking:
        _captures = True
        try:
            yield
        finally:
            _captures = False


def sent(block: np.ndarray) -> Array:
    """Return a copy on the device of a block in pinned memory; the host does not wait.

    The kernels that this thread asks for from here on wait for it. Those of another thread wait in `received`. Raises
    RuntimeError while this thread captures a stream; another thread waits until it does not.
    """
    with _asking:
        if _captures:
            raise RuntimeError("a copy from the host: not permitted while a stream is captured")
        return _sent(block)


def _sent(block: np.ndarray) -> Array:
    training, array = _training, device.xp().empty(block.size, np.uint8)
    stream = current() if training is None else training.copies
    if training is not None:
        stream.wait_event(recorded(training.kernels))  # which may still read what was in this memory before
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
    """Let the kernels from here on wait for all copies that other threads began."""
    while _training is not None and _training.arriving:
        current().wait_event(_training.arriving.pop(0))
