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
    """A training was ended by the signal `number`; `is_saved` says whether its last step was saved."""

    def __init__(self, message: str, number: int = signal.SIGINT, is_saved: bool = False) -> None:
        super().__init__(message)
        self.number, self.is_saved = number, is_saved


@contextmanager
def deferred(notice: str) -> Iterator[list[int]]:
    """Yield a list; a first Ctrl-C or SIGTERM is added to it, and `notice` written on stderr; a second raises Stopped.

    If the list is not empty at the end of the context, Stopped is raised there.
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
    """Raise Stopped at SIGTERM or Ctrl-C, so that temporary files are removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("terminated" if number == signal.SIGTERM else "interrupted", number)

    with _handled(stop):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handler` for both signals, except those that the process ignores; outside the main thread do nothing."""
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
