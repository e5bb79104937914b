"""A stand-in for CUDA graphs: the work of a captured stream, which a replay does again in the same memory.

As with CUDA, a capture computes nothing: older memory is unchanged after it, and memory allocated inside holds no
useful values until the replay. What CUDA or CuPy refuses inside a capture is refused: waiting for the device, copies
from the host, which would read its memory later, and products of cuBLAS. The null stream cannot be captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, TypeVar

import numpy as np

from accel.verify.cuda_host.cupy_streams import is_null

T = TypeVar("T")


@dataclass
class Recording:
    """The work that a replay does again, the arrays that it made, and copies of the older memory that it wrote to."""

    thread: int = field(default_factory=get_ident)
    again: list[Callable[[], Any]] = field(default_factory=list)
    made: dict[int, np.ndarray] = field(default_factory=dict)
    before: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


_recording: Recording | None = None


def made(compute: Callable[[], Any]) -> np.ndarray:
    """Return new memory with what a kernel computes; a replay computes it again into the same memory."""
    recording, result = _of_thread(), np.asarray(compute())
    if recording is not None:
        memory = _memory(result)
        recording.made[id(memory)] = memory
        recording.again.append(lambda: np.copyto(result, compute()))
    return result


def done(work: Callable[[], Any], *touched: Any) -> None:
    """Do the work of a kernel in existing memory; a replay does it again. `touched` are the kernel's arrays."""
    recording = _of_thread()
    if recording is not None:
        for array in touched:
            if isinstance(array, np.ndarray):
                _keep(recording, array)
        recording.again.append(work)
    work()


def refuse(what: str) -> None:
    """Raise RuntimeError inside a capture."""
    if _of_thread() is not None:
        raise RuntimeError(f"{what}: not permitted while a stream is captured")


def captured(work: Callable[[], T]) -> tuple[T, Callable[[], None]]:
    """Return the result of `work`, arrays that hold no values yet, and a function that replays its device work."""
    global _recording
    if is_null():
        raise RuntimeError("the null stream cannot be captured: work on a stream of its own")
    recording = _recording = Recording()
    try:
        with np.errstate(all="ignore"):  # what is computed here is thrown away
            result = work()
    finally:
        _recording = None
        for array, before in recording.before.values():
            array[...] = before
    for array in recording.made.values():
        array.fill(np.nan if array.dtype.kind == "f" else True if array.dtype.kind == "b" else 77)

    def replay() -> None:
        for work in recording.again:
            work()

    return result, replay


def _of_thread() -> Recording | None:
    return _recording if _recording is not None and _recording.thread == get_ident() else None


def _keep(recording: Recording, array: np.ndarray) -> None:
    array = _memory(array)
    if id(array) not in recording.made and id(array) not in recording.before:
        recording.before[id(array)] = array, array.copy()


def _memory(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
