"""Helpers for arrays of every backend: a copy on the host, and the offsets of ragged rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray


def host(array: Array) -> np.ndarray:
    """Return the array in the memory of the host; an array that is there already is not copied."""
    return array if isinstance(array, np.ndarray) else array.get()


def offsets_of(lengths: Iterable[int] | np.ndarray) -> np.ndarray:
    """Return where rows of these lengths begin when they lie one after another, and where the last ends [n + 1] int64.

    >>> offsets_of([2, 3])
    array([0, 2, 5])
    """
    counts = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths), np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
