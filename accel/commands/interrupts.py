"""Ctrl-C where Python would lose it, or NumPy misreport it."""

from __future__ import annotations

import _thread
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

AGAIN = 0.05  # seconds until a lost interrupt is repeated


@contextmanager
def heard() -> Iterator[None]:
    """Repeat a Ctrl-C that comes while a compiled library calls back into Python, for Python drops the exception.

    LLVM makes such calls: without the repetition, a Ctrl-C while a kernel is compiled or loaded would be lost.
    """
    before = sys.unraisablehook

    def again(error: sys.UnraisableHookArgs) -> None:
        if not issubclass(error.exc_type, KeyboardInterrupt):
            before(error)
            return
        timer = Timer(AGAIN, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def held() -> Iterator[None]:
    """Delay Ctrl-C until the end of the context: NumPy would report one in its import as a broken installation."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
