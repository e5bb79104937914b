"""The order of examples: a new one for each epoch, divided among processes, resumable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

State = dict[str, Any]
Rows = TypeVar("Rows", np.ndarray, list[int])


class Order:
    """The examples of every epoch in turn, and the position in them.

    Parameters
    ----------
    data : list of int
        The number of examples, and other numbers that identify the data.
    seed : int or None
        A new order for each epoch, drawn from (seed, epoch); None keeps the order of the data.
    epochs : int or None
        How often each example comes; None: for ever.
    rank, ranks : int
        The number of this process, and of all processes.
    """

    def __init__(self, data: list[int], seed: int | None, epochs: int | None, rank: int, ranks: int) -> None:
        if data[0] < 1:
            raise ValueError("no examples, no batches")
        check_rank(rank, ranks)
        self._epochs, self._rank, self._ranks = epochs, rank, ranks
        self._state: State = {"data": data, "seed": seed, "epoch": 0, "position": 0}
        self._drawn: tuple[int, np.ndarray] | None = None

    def take(self, count: int) -> np.ndarray | None:
        """Return the next examples, `count` or all that remain of the epoch; None after the last epoch."""
        epoch, position = self._state["epoch"], self._state["position"]
        n_examples = self._state["data"][0]
        if self._epochs is not None and epoch >= self._epochs:
            return None
        examples = self._permutation(epoch)[position : position + count]
        position += len(examples)
        progress = {"epoch": epoch + 1, "position": 0} if position == n_examples else {"position": position}
        self._state = self._state | progress
        return examples

    def share(self, examples: np.ndarray) -> np.ndarray:
        """Return this process's part of a global batch: its examples rank, rank + ranks, ...; it may be empty."""
        return examples[self._rank :: self._ranks]

    def state(self) -> State:
        """Return the position, as a JSON object."""
        return self._state

    def restore(self, state: State) -> None:
        """Continue at the position `state`.

        Raises
        ------
        ValueError
            The state is of another seed or other data.
        """
        check_state(state, self._state)
        self._state = state

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = (epoch, permutation(self._state["data"][0], self._state["seed"], epoch))
        return self._drawn[1]


def permutation(count: int, seed: int | None, epoch: int) -> np.ndarray:
    """Return the order of `count` examples in an epoch, drawn from (seed, epoch); without a seed that of the data."""
    order = np.arange(count)
    if seed is not None:
        np.random.Generator(np.random.Philox(key=np.array([seed, epoch], np.uint64))).shuffle(order)
    return order


def check_rank(rank: int, ranks: int) -> None:
    """Raise ValueError unless `rank` is the number of one of so many processes."""
    if not 0 <= rank < ranks:
        raise ValueError(f"rank must be in 0..{ranks - 1}, not {rank}")


def in_parts(rows: Rows, micro_batch: int | None, assemble: Callable[[Rows], Any]) -> Any:
    """Return the batch of these rows; with `micro_batch` a list of batches, each of at most so many rows in order.

    Without rows the list holds one empty batch.

    >>> in_parts([3, 1, 2], None, tuple), in_parts([3, 1, 2], 2, tuple), in_parts([], 2, tuple)
    ((3, 1, 2), [(3, 1), (2,)], [()])
    """
    if micro_batch is None:
        return assemble(rows)
    return [assemble(rows[i : i + micro_batch]) for i in range(0, max(len(rows), 1), micro_batch)]


def check_state(state: State, current: State) -> None:
    """Raise ValueError if a position is not of the same data and seed as `current`."""
    if state.keys() != current.keys():
        raise ValueError(f"not a position in the data: {', '.join(map(str, state))}")
    for name in ("seed", "data"):
        if state[name] != current[name]:
            raise ValueError(f"the position was taken with {name} {state[name]}, this has {current[name]}")
