"""A stand-in for CuPy's GPUs, streams and events: work outside the current stream is done as late as possible.

The current stream of a thread runs at once. Work on another stream is done only when a stream waits for an event that
was recorded after it: code that reads a result without waiting reads the old contents of the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace


class Stream:
    """A stream: the work that was put on it, and how much of it is done."""

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.asked: list[Callable[[], None]] = []
        self.n_done = 0
        self._outer: list[Stream] = []

    def ask(self, work: Callable[[], None]) -> None:
        """Do the work: at once in the current stream, else when it is waited for."""
        self.asked.append(work)
        if self is get_current_stream():
            self.run(len(self.asked))

    def run(self, end: int) -> None:
        while self.n_done < end:
            work, self.n_done = self.asked[self.n_done], self.n_done + 1
            work()

    def wait_event(self, event: Event) -> None:
        assert event.stream is not None, "an event that was never recorded"
        event.stream.run(event.place)

    def __enter__(self) -> Stream:
        self._outer.append(get_current_stream())
        _of_thread.stream = self
        return self

    def __exit__(self, *exception: object) -> None:
        _of_thread.stream = self._outer.pop()


class Event:
    """A place in the work of a stream."""

    def __init__(self, disable_timing: bool = False) -> None:
        self.stream: Stream | None = None
        self.place = 0

    def record(self, stream: Stream) -> None:
        self.stream, self.place = stream, len(stream.asked)

    @property
    def done(self) -> bool:
        return self.stream is None or self.stream.n_done >= self.place


class Device:
    """A GPU by its number, None for the current one of this thread: the first one until a `with` enters another."""

    def __init__(self, number: int | None = None) -> None:
        self.id: int = getattr(_of_thread, "gpu", 0) if number is None else number
        self._outer: list[int] = []

    def __enter__(self) -> Device:
        self._outer.append(Device().id)
        _of_thread.gpu = self.id
        return self

    def __exit__(self, *exception: object) -> None:
        _of_thread.gpu = self._outer.pop()


_of_thread = threading.local()
_null = Stream()


def get_current_stream() -> Stream:
    """Return the current stream of this thread, at first the one that all threads share."""
    stream: Stream = getattr(_of_thread, "stream", _null)
    return stream


def is_null() -> bool:
    """Return whether the current stream of this thread is the one that all threads share, which is never captured."""
    return get_current_stream() is _null


cuda = SimpleNamespace(Device=Device, Stream=Stream, Event=Event, get_current_stream=get_current_stream)
