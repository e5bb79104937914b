"""What the word-level search and the models that it searches share: limits, hypotheses, and the sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.layers import mix


@dataclass(frozen=True)
class Limits:
    """How much is searched, and which trees. Spec: WS-2, WS-5, WS-6."""

    beam: int  # hypotheses that are continued after an action
    word_beam: int | None = None  # hypotheses that are continued after a word; None: as many
    fast_track: int = 0  # hypotheses with the next word that are set aside before the beam is cut
    one_pool: bool = False  # hypotheses with the next word compete with those that lack it
    max_open: int = 50  # constituents that are open at a time
    max_opens: int = 10  # constituents that open one directly after the other

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("word_beam", 1), ("fast_track", 0), ("max_open", 1), ("max_opens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: {value} is below {least}")


@dataclass(frozen=True)
class Hypothesis:
    """A tree, or the beginning of one. Spec: WS-1, WS-5."""

    logp: float = 0.0  # of all its actions, nats
    actions: tuple[int, ...] = ()
    n_words: int = 0
    complete: bool = False
    stack: tuple[int, ...] = ()  # GPST: the first word of every sub-tree; others: the labels that are open
    before: Any = field(default=None, compare=False)  # the state before the last action
    last: int = field(default=0, compare=False)  # the last action, which is read when the hypothesis is continued


@dataclass(frozen=True)
class Step:
    """The actions that may come next after each of R hypotheses, in a fixed order. Spec: WS-1, WS-5."""

    states: Sequence[Any]  # [R], after the last action of the hypothesis
    actions: np.ndarray  # [R, C]
    logps: np.ndarray  # [R, C] float64, nats; -inf: impossible
    words: np.ndarray  # [C] bool: it generates a word
    last: np.ndarray  # [R, C] bool: it completes the tree, or ends the text

    def of_rows(self, rows: slice) -> Step:
        """Return the actions of some of the hypotheses."""
        return Step(self.states[rows], self.actions[rows], self.logps[rows], self.words, self.last[rows])


class Actions(Protocol):
    """A model with the sentences to search; what it has read for the hypotheses is kept in rows."""

    @property
    def size(self) -> int:
        """How many rows there are."""

    def begin(self) -> list[Hypothesis]:
        """Return the hypothesis of every sentence before its first action."""

    def explore(self, owners: Sequence[int], hypotheses: Sequence[Hypothesis]) -> Step:
        """Return what may come next after hypotheses of the sentences with those numbers."""

    def stack_after(self, hypothesis: Hypothesis, action: int) -> tuple[int, ...]:
        """Return the stack after one more action."""

    def keep(self, states: Sequence[Any]) -> Sequence[Any]:
        """Forget the rows of all other states, and return these with the new numbers of theirs."""


class Parses(NamedTuple):
    """The best parses of a sentence, the best first, and log p of each of its prefixes summed over hypotheses."""

    hypotheses: list[Hypothesis]
    prefix_logps: list[float]


def total(pool: Sequence[Hypothesis]) -> float:
    """Return log p of a pool: the sum over its hypotheses; -inf without any."""
    return float(np.logaddexp.reduce([h.logp for h in pool])) if pool else -inf


def draw(pool: Sequence[Hypothesis], seed: int, step: int) -> Hypothesis:
    """Return one hypothesis, drawn by its probability in the pool, as one that is certain."""
    logp = total(pool)
    shares = np.cumsum([exp(h.logp - logp) for h in pool])
    u = (mix(seed, step) >> 11) / 2**53
    return replace(pool[min(int((shares <= u).sum()), len(pool) - 1)], logp=0.0)


def bits(prefix_logps: Sequence[float]) -> list[float]:
    """Return how unexpected each word is after those before it; infinite from the first one that nothing can reach.

    Examples
    --------
    >>> [round(x, 12) for x in bits([log(0.5), log(0.125), -inf])]
    [1.0, 2.0, inf]
    """
    possible = [logp for logp in prefix_logps if logp > -inf]
    return [*(np.diff([0.0, *possible]) / -log(2)).tolist(), *[inf] * (len(prefix_logps) - len(possible))]


def most_probable(xp: ModuleType, logps: Array, count: int) -> Array:
    """Return the numbers of the so many most probable columns of every row, ascending; of equal ones the first.

    A NaN is taken as if it were equal to the last of them, so that whoever checks the log-probabilities finds it.
    """
    count = min(count, logps.shape[1])
    least = -xp.partition(-logps, count - 1, axis=1)[:, count - 1 : count]
    above, below = logps > least, logps < least
    level, n_free = ~(above | below), count - above.sum(axis=1, keepdims=True)
    chosen = above | (level & (xp.cumsum(level, axis=1) <= n_free))
    return xp.nonzero(chosen)[1].reshape(-1, count)
