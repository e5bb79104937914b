"""What a model stores for every action that it has read: arrays by name, all of which have a row for each action."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array


class Rows:
    """Arrays by name with rows of the same numbers, which grow and shrink together; unwritten rows hold 0."""

    def __init__(self, xp: ModuleType) -> None:
        self._xp = xp
        self._arrays: dict[str, Array] = {}
        self.size = self._room = 0  # rows in use, and rows that the arrays have

    def __getitem__(self, name: str) -> Array:
        """Return the whole array of that name, which has been written; rows beyond `size` are of no use."""
        return self._arrays[name]

    def add(self, count: int) -> np.ndarray:
        """Put `count` more rows in use, and return their numbers [count] int32.

        If the arrays have fewer rows than are in use then, they get twice that number.
        """
        numbers = np.arange(self.size, self.size + count, dtype=np.int32)
        self.size += count
        if self.size > self._room:
            more = 2 * self.size - self._room
            for name, rows in self._arrays.items():
                unused = self._xp.zeros((more, *rows.shape[1:]), rows.dtype)
                self._arrays[name] = self._xp.concatenate([rows, unused])
            self._room += more
        return numbers

    def write(self, name: str, numbers: slice | np.ndarray, new: Array) -> Array:
        """Set rows of the array of that name, and return the whole array."""
        if name not in self._arrays:
            self._arrays[name] = self._xp.zeros((self._room, *new.shape[1:]), new.dtype)
        self._arrays[name][numbers if isinstance(numbers, slice) else self._xp.asarray(numbers)] = new
        return self._arrays[name]

    def keep(self, is_used: np.ndarray) -> None:
        """Delete the rows that are not used [size] bool; the others get new numbers, in their order."""
        places = self._xp.asarray(np.flatnonzero(is_used))
        self._arrays = {name: rows[places] for name, rows in self._arrays.items()}
        self.size = self._room = len(places)
