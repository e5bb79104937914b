"""Batches of examples of different sizes; a total size limits the examples of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accel.data.batches.order import Order, State


class SizedBatches:
    """The batches of examples; iterate over it.

    Parameters
    ----------
    count : int
        How many examples there are.
    most : int
        The largest total size of a global batch; process `rank` of `ranks` gets its examples rank, rank + ranks, ....
    size_of : function
        Returns the size of an example from its number.
    assemble : function
        Takes the numbers of examples, perhaps none, and the number of the epoch; returns the batch.
    names : two str
        The name of an example and of the unit of its size, for errors.
    seed : int or None
        A new order for each epoch, drawn from (seed, epoch): the next `pool` examples are sorted by size, so that those
        of a batch have similar sizes, and these batches are shuffled. None keeps the order of the examples.
    epochs : int or None
        How often each example comes; None: for ever.
    pool : int
        See `seed`.
    micro_batch : int or None
        With a number, every batch is a list of micro-batches of at most this total size, or of one larger example.
    """

    def __init__(
        self,
        count: int,
        most: int,
        size_of: Callable[[int], int],
        assemble: Callable[[np.ndarray, int], Any],
        *,
        names: tuple[str, str],
        seed: int | None = None,
        epochs: int | None = 1,
        rank: int = 0,
        ranks: int = 1,
        pool: int = 4096,
        micro_batch: int | None = None,
    ) -> None:
        for name, value in ((f"max_{names[1]}", most), ("pool", pool)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self._order = Order([count, most, pool], seed, epochs, rank, ranks)
        self._most, self._size_of, self._assemble, self._names = most, size_of, assemble, names
        self._pool, self._micro_batch = pool, micro_batch
        # The position before the pool, and the number of its batches already read.
        self._state: State = self._order.state() | {"batch": 0}
        self._planned: list[np.ndarray] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._planned is None:
            pool = self._order.take(self._pool)
            if pool is None:
                raise StopIteration
            self._planned = self._plan(pool)
        examples, epoch = self._planned[self._state["batch"]], self._state["epoch"]
        self._state = self._state | {"batch": self._state["batch"] + 1}
        if self._state["batch"] == len(self._planned):
            self._state, self._planned = self._order.state() | {"batch": 0}, None
        return self._in_parts(self._order.share(examples), epoch)

    def state(self) -> State:
        """Return the position after the last batch given, as a JSON object."""
        return self._state

    def restore(self, state: State) -> None:
        """Continue at the position `state`; ValueError if it is of another seed or other data."""
        if state.keys() != self._state.keys():
            raise ValueError(f"not a position in the data: {', '.join(map(str, state))}")
        self._order.restore({name: value for name, value in state.items() if name != "batch"})
        self._state, self._planned = state, None
        if state["batch"]:
            pool = self._order.take(self._pool)
            self._planned = [] if pool is None else self._plan(pool)
            if state["batch"] >= len(self._planned):
                reason = f"the data now give only {len(self._planned)} batches here, and gave more when the run began"
                raise ValueError(f"batch {state['batch'] + 1}: {reason}; train in another directory")

    def _in_parts(self, examples: np.ndarray, epoch: int) -> Any:
        if self._micro_batch is None:
            return self._assemble(examples, epoch)
        sizes = np.array([self._size_of(i) for i in examples.tolist()], np.int64)
        return [self._assemble(part, epoch) for part in _cut(examples, sizes, self._micro_batch)]

    def _plan(self, pool: np.ndarray) -> list[np.ndarray]:
        """Return the examples of every batch of a pool; `_state` is still the position before it."""
        sizes = np.array([self._size_of(i) for i in pool.tolist()])
        too_long = np.flatnonzero(sizes > self._most)
        if len(too_long):
            number, size = int(pool[too_long[0]]), sizes[too_long[0]]
            name, unit = self._names
            raise ValueError(f"{name} {number + 1} has {size} {unit}, more than a batch may have, {self._most}")
        if self._state["seed"] is None:
            return _cut(pool, sizes, self._most)
        by_size = np.argsort(sizes, kind="stable")
        batches = _cut(pool[by_size], sizes[by_size], self._most)
        draw = np.random.SeedSequence([self._state[name] for name in ("seed", "epoch", "position")])
        return [batches[i] for i in np.random.Generator(np.random.Philox(draw)).permutation(len(batches))]


def _cut(examples: np.ndarray, sizes: np.ndarray, most: int) -> list[np.ndarray]:
    """Return the examples in order, cut before each example that would make a batch too large; at least one part."""
    cuts, size = [], 0
    for i, example_size in enumerate(sizes.tolist()):
        if i and size + example_size > most:
            cuts.append(i)
            size = 0
        size += example_size
    return np.split(examples, cuts)
