"""Arrays on the host that are copied to the device together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array

ALIGNED = 256  # bytes: where an array in a packed copy may begin


def packed(arrays: Sequence[np.ndarray]) -> list[tuple[np.ndarray, Array]]:
    """Return two copies of each array, on the host and on the device; those on the device lie in one block of memory.

    One copy sends the whole block, and the host does not wait for it.
    """
    return packed_block(arrays)[1]


def packed_block(arrays: Sequence[np.ndarray]) -> tuple[Array, list[tuple[np.ndarray, Array]]]:
    """Return the block of memory on the device, and what `packed` returns."""
    ends = np.cumsum([-(-array.nbytes // ALIGNED) * ALIGNED for array in arrays], dtype=np.int64).tolist()
    if not ends:
        return None, []
    block = device.pinned(ends[-1])
    places = [slice(begin, begin + x.nbytes) for begin, x in zip([0, *ends], arrays, strict=False)]
    copies = [block[place].view(x.dtype).reshape(x.shape) for place, x in zip(places, arrays, strict=True)]
    for copy, array in zip(copies, arrays, strict=True):
        copy[...] = array
    there = device.sent(block)
    parts = (there[place] for place in places)
    return there, [(copy, part.view(copy.dtype).reshape(copy.shape)) for copy, part in zip(copies, parts, strict=True)]
