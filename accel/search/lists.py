"""Lists of numbers, one for each of many rows, as one matrix; and functions that take and join rows of arrays.

A search stores its hypotheses in arrays with a row for each hypothesis, so that NumPy selects, joins and continues all
of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

Rows = TypeVar("Rows", bound=Any)  # an array, or a tuple of what has rows
_ROOM = 8  # columns that are added to a full matrix


class Lists(NamedTuple):
    """A list of numbers for each of R rows."""

    values: np.ndarray  # [R, W]; in row r the values after the first `sizes[r]` mean nothing
    sizes: np.ndarray  # [R]

    def where(self) -> np.ndarray:
        """Return which places belong to the lists, bool [R, W]."""
        inside: np.ndarray = np.arange(self.values.shape[1]) < self.sizes[:, None]
        return inside

    def joined(self) -> np.ndarray:
        """Return the lists one after another."""
        numbers: np.ndarray = self.values[self.where()]
        return numbers

    def last(self, number: int = 1) -> np.ndarray:
        """Return the last element of every list [R], or the `number`-th from the end; any value if there is none."""
        column = np.maximum(self.sizes - number, 0)
        elements: np.ndarray = self.values[np.arange(len(self.sizes)), column]
        return elements

    def longer(self, new: np.ndarray, is_longer: np.ndarray | bool = True) -> Lists:
        """Return the lists, with one more number each where `is_longer` says so."""
        count, width = self.values.shape
        is_full = int(self.sizes.max(initial=0)) >= width
        values = np.concatenate([self.values, np.zeros((count, _ROOM * is_full), self.values.dtype)], axis=1)
        values[np.arange(count), self.sizes] = new
        return Lists(values, self.sizes + is_longer)

    def shorter(self, counts: np.ndarray) -> Lists:
        """Return the lists without the last `counts` [R] of their numbers."""
        return Lists(self.values, self.sizes - counts)


def lists(rows: Sequence[Sequence[int]]) -> Lists:
    """Return rows of numbers as lists.

    >>> lists([[3], [], [1, 2]]).longer(np.array([7, 8, 9])).joined().tolist()
    [3, 7, 8, 1, 2, 9]
    """
    sizes = np.array([len(row) for row in rows], np.int64)
    values = np.zeros((len(rows), max(int(sizes.max(initial=0)), 1)), np.int32)
    values[np.arange(values.shape[1]) < sizes[:, None]] = [number for row in rows for number in row]
    return Lists(values, sizes)


def renumbered(numbers: Lists, used: np.ndarray) -> Lists:
    """Return the lists with every number replaced by its rank among the numbers where `used` [N] is true; -1 stays."""
    new = np.append(np.cumsum(used) - 1, -1).astype(np.int32)
    return Lists(new[np.clip(numbers.values, -1, len(used) - 1)], numbers.sizes)


def taken(rows: Rows, chosen: Any) -> Rows:
    """Return the chosen rows of an array, or of every part of a tuple."""
    out: Rows = rows[chosen] if isinstance(rows, np.ndarray) else _made(rows, [taken(part, chosen) for part in rows])
    return out


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one part after another; matrices get the columns of the widest."""
    first: Any = parts[0]
    out: Any
    if not isinstance(first, np.ndarray):
        out = _made(first, [joined(several) for several in zip(*parts, strict=True)])
    elif first.ndim < 2:
        out = np.concatenate(parts)
    else:
        out = np.zeros((sum(map(len, parts)), max(part.shape[1] for part in parts)), first.dtype)
        for part, end in zip(parts, np.cumsum([len(part) for part in parts]).tolist(), strict=True):
            out[end - len(part) : end, : part.shape[1]] = part
    rows: Rows = out
    return rows


def _made(like: Any, parts: list[Any]) -> Any:
    """Return the parts as a tuple of the same type."""
    return like._make(parts) if hasattr(like, "_make") else tuple(parts)
