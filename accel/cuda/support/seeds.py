"""The seeds of dropout in device memory, for graphs: each replay reads the seeds of its step.

While a graph is captured, a kernel gets the address of its seed in the place of the seed. The address is found by the
value of the seed: the caller lists the seeds of all places of dropout of a forward pass, and where each one lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from accel.cuda import device
from accel.cuda.device import Array

IS_PLACE = 1 << 63  # a bit of the threshold: the seed is an address, as in warp.cu

_places: ContextVar[tuple[Mapping[int, int], Array] | None] = ContextVar("places", default=None)


@contextmanager
def in_memory(numbers: Mapping[int, int], seeds: Array) -> Iterator[None]:
    """While the context lasts, let kernels read a seed in seeds [n] uint64, at the place numbers[seed]."""
    token = _places.set((numbers, seeds))
    try:
        yield
    finally:
        _places.reset(token)


def place_of(seed: int) -> int | None:
    """Return the address of a seed in device memory; None outside of `in_memory`: kernels get the seed itself.

    Raises RuntimeError for a seed that `in_memory` does not list: no replay could exchange it for that of its step.
    """
    places = _places.get()
    if places is None:
        return None
    numbers, seeds = places
    if seed not in numbers or numbers[seed] >= len(seeds):
        raise RuntimeError(f"seed {seed}: is of none of {len(seeds)} dropout sites, so that a graph cannot replace it")
    return device.address(seeds) + numbers[seed] * seeds.itemsize
