"""Seeds of random numbers: splitmix64 gives every place of dropout, step and process its own random stream."""

from __future__ import annotations

import numpy as np

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(seed: int, number: int) -> int:
    """Return a 64-bit seed for stream `number` of `seed`: the splitmix64 finaliser of seed + (number + 1) * golden."""
    z = (seed + (number + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * _FACTORS[0]) & _MASK
    z = ((z ^ (z >> 27)) * _FACTORS[1]) & _MASK
    return z ^ (z >> 31)


def mix_all(seed: int, numbers: np.ndarray) -> np.ndarray:
    """Return `mix(seed, number)` for every one of the numbers, uint64 of their shape."""
    z = np.uint64(seed) + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FACTORS[0])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_FACTORS[1])
    return z ^ (z >> np.uint64(31))
