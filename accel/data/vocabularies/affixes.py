"""The first and last characters of words, and their shapes, as numbers: what a rare word shares with others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

PREFIXES, SUFFIXES = (1, 2, 3), (1, 2, 3, 4)  # lengths
AFFIXES = len(PREFIXES) + len(SUFFIXES) + 1
BUCKETS = 8192
"""How many affixes are told apart; each has a vector."""


def affixes_of(words: Sequence[str]) -> np.ndarray:
    """Return [n, AFFIXES] int32: numbers of each word's first 1 to 3 characters, its last 1 to 4, and its shape.

    Numbers are below BUCKETS and not 0, the same on every machine; different affixes may share one. A shape has x for
    lower-case letters, X for other letters and 9 for digits; a run of the same mark is written as one.

    Examples
    --------
    >>> affixes_of(["as", "has"])[:, 3:5].tolist() == affixes_of(["was", "is"])[:, 3:5].tolist()
    False
    >>> affixes_of(["has"])[0, 3:5].tolist() == affixes_of(["was"])[0, 3:5].tolist()
    True
    """
    numbers = [_affixes(word) for word in words]
    return np.array(numbers, np.int32).reshape(-1, AFFIXES)


@lru_cache(maxsize=2**16)
def _affixes(word: str) -> list[int]:
    kinds = ["x" if c.islower() else "X" if c.isalpha() else "9" if c.isdigit() else c for c in word]
    shape = "".join(kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before)
    parts = [*(word[:size] for size in PREFIXES), *(word[-size:] for size in SUFFIXES), shape]
    return [1 + crc32(f"{place} {part}".encode()) % (BUCKETS - 1) for place, part in enumerate(parts)]
