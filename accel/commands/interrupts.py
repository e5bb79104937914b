"""Ctrl-C where Python or NumPy would lose it."""

from __future__ import annotations

import _thread
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

AGAIN = 0.05  # seconds until an interrupt that was lost comes again


@contextmanager
def heard() -> Iterator[None]:
    """Interrupt again where the interrupt came in a callback of a compiled library, from which Python drops it.

    LLVM has such callbacks: a kernel that is compiled or loaded would take the interrupt with it.
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
    """Let interrupts wait until the end: NumPy answers one during its import with a page on broken installations."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
