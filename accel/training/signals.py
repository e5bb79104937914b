"""Ctrl-C and SIGTERM in a training: the step is finished and saved before the process ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A training that the signal of that number has ended, after it was saved or not."""

    def __init__(self, message: str, number: int = signal.SIGINT, is_saved: bool = False) -> None:
        super().__init__(message)
        self.number, self.is_saved = number, is_saved


@contextmanager
def noted(notice: str) -> Iterator[list[int]]:
    """Note signals in a list instead of stopping, and write `notice` on stderr; the second one stops at once.

    A signal that came after the last look at the list stops at the end.
    """
    numbers: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if numbers:
            raise Stopped("interrupted", number)
        numbers.append(number)
        if notice:
            os.write(2, f"\n{notice}\n".encode())  # print may be in the middle of another line

    with _handled(note):
        yield numbers
    if numbers:
        raise Stopped("interrupted", numbers[0])


@contextmanager
def raised() -> Iterator[None]:
    """Make SIGTERM stop the process as Ctrl-C does, so that temporary files are removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("terminated" if number == signal.SIGTERM else "interrupted", number)

    with _handled(stop):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle both signals so; those that this process ignores, and those of other threads, are left alone."""
    former = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    former[number] = signal.signal(number, handler)
        yield
    finally:
        for number, handler_before in former.items():
            signal.signal(number, handler_before)
