"""What a kernel may not do with memory: write to what it received or returned before, or return what others hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accel.verify.arrays import memory_of, to_numpy
from accel.verify.compare import Disagreement

AGAIN = 2  # how often a function is called again: memory that several calls use in turn is then overwritten, too


def require_unchanged(what: str, places: Sequence[str], arrays: Sequence[Any], before: Sequence[Any]) -> None:
    """Raise Disagreement if a function has written to an array that it received, or returned earlier."""
    for place, x, right in zip(places, arrays, before, strict=True):
        is_array = isinstance(right, np.ndarray)
        if to_numpy(x).tobytes() != right.tobytes() if is_array else isinstance(right, list) and x != right:
            raise Disagreement(what, place, "other values", "the same")


def require_own_memory(what: str, outputs: Sequence[Any], arguments: Sequence[Any]) -> None:
    """Raise Disagreement if an output is a view of an argument."""
    inputs = [memory for x in arguments if (memory := memory_of(x)) is not None]
    for number, y in enumerate(outputs):
        memory = memory_of(y)
        if memory is not None and any(np.shares_memory(x, memory) for x in inputs):
            raise Disagreement(f"{what}, output {number}", "memory", "a view of an argument", "an array of its own")


def require_apart(what: str, d_out: Any, gradients: Sequence[Any]) -> None:
    """Raise Disagreement if a gradient cannot be added to in place, as a tape does, or if this would change another.

    One array may be returned twice; a tape notices that.
    """
    distinct_arrays = list({id(x): x for x in (d_out, *gradients)}.values())
    memories = [memory for x in distinct_arrays if (memory := memory_of(x)) is not None]
    for number, x in enumerate(memories):
        if any(np.shares_memory(x, y) for y in memories[:number]):
            raise Disagreement(what, "gradients, and d_out", "two views of one memory", "arrays of their own")
    for number, x in enumerate(gradients):
        if isinstance(x, np.ndarray) and not x.flags.writeable:
            raise Disagreement(what, f"gradient {number}", "a read-only array", "one that can be added to in place")
        memory = memory_of(x)
        if memory is None or not memory.size:
            continue
        if any(n > 1 and s == 0 for n, s in zip(memory.shape, memory.strides, strict=True)):
            raise Disagreement(what, f"gradient {number}", "one number for many places", "all of them in memory")
