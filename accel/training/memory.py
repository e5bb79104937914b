"""Freed memory that stays with the process.

A step of training frees as much as the last one asked for. Given back to the system and asked for again, every page of
it comes as a page fault and full of zeros: a fifth of the time of a small model's step.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of malloc.h


def keep_freed_memory() -> bool:
    """Let malloc hand out freed memory again instead of returning it; say whether this C library (glibc) can.

    It holds for the whole process, which from then on is as large as it has ever been.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
