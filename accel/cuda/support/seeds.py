"""The seeds of dropout in the memory of the device, for graphs: each replay reads the seeds of its step.

While a graph is captured, kernels are told where their seeds lie. Which place of a forward pass a seed is of follows
from the seed itself: the caller says what the seeds of all places are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from accel.cuda import device
from accel.cuda.device import Array

IS_PLACE = 1 << 63  # in the threshold, as in warp.cu

_places: ContextVar[tuple[Mapping[int, int], Array] | None] = ContextVar("places", default=None)


@contextmanager
def in_memory(numbers: Mapping[int, int], seeds: Array) -> Iterator[None]:
    """Let kernels read the seed that is a key of `numbers` in the element of that number of `seeds` [n] uint64."""
    token = _places.set((numbers, seeds))
    try:
        yield
    finally:
        _places.reset(token)


def place_of(seed: int) -> int | None:
    """Return where a seed lies in the memory of the device; None if kernels get it as an argument.

    Raises RuntimeError for a seed that no replay could know.
    """
    places = _places.get()
    if places is None:
        return None
    numbers, seeds = places
    if seed not in numbers or numbers[seed] >= len(seeds):
        raise RuntimeError(f"seed {seed}: it follows from no place of the pass, so that a graph cannot know it")
    return device.address(seeds) + numbers[seed] * seeds.itemsize
