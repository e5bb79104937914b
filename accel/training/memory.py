"""Freed memory that stays with the process.

Every training step allocates and frees about the same memory. If the C library returns it to the system, the next step
pays a page fault and zeroing for every page: a fifth of the time of a small model's step.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of malloc.h


def keep_freed_memory() -> bool:
    """Make malloc reuse freed memory instead of returning it; return whether the C library (glibc) supports this.

    This holds for the whole process, which from then on never shrinks.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
