"""The peak memory of a training, and freed memory that the process keeps.

Every training step allocates and frees about the same memory. If the C library returns it to the system, the next step
pays a page fault and zeroing for every page: a fifth of the time of a small model's step.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from types import ModuleType

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of malloc.h


def keep_freed_memory() -> bool:
    """Make malloc reuse freed memory instead of returning it; return whether the C library (glibc) supports this.

    This holds for the whole process: from then on its memory never shrinks.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))


def free_unused(ops: ModuleType) -> None:
    """Let a GPU's memory that no array uses go back from CuPy's pools to the GPU, where other pools can have it."""
    gc.collect()
    if hasattr(ops.xp, "get_default_memory_pool"):
        ops.free_graph_memory()
        ops.xp.get_default_memory_pool().free_all_blocks()


def size(n_bytes: float) -> str:
    """Return a number of bytes in words.

    >>> size(900), size(1_310_000), size(24_000_000_000)
    ('0.9 kB', '1.31 MB', '24 GB')
    """
    unit, name = next(((u, n) for u, n in ((1e9, "GB"), (1e6, "MB")) if n_bytes >= u), (1e3, "kB"))
    return f"{n_bytes / unit:.3g} {name}"


def greatest(ops: ModuleType) -> str:
    """Return in words the peak memory of this process so far, and that of its GPU if the backend uses one.

    Memory that CUDA's libraries allocate for themselves is not counted.
    """
    texts = [f"at most {size(peak())} in this process"]
    if hasattr(ops.xp, "get_default_memory_pool"):  # the pool never shrinks: its size is the peak
        texts.append(f"{size(ops.xp.get_default_memory_pool().total_bytes() + ops.graph_bytes())} on the GPU")
    return f"memory: {', '.join(texts)}"


def peak() -> int:
    """Return the peak memory of this process so far, in bytes."""
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
