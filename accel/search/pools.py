"""What the word-level search and the models that it searches share: limits, hypotheses, and the sums over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.seeds import mix
from accel.search.lists import Lists, lists, taken


@dataclass(frozen=True)
class Limits:
    """How much is searched, and which trees. Spec: WS-2, WS-5, WS-6."""

    beam: int  # hypotheses that are continued after an action
    word_beam: int | None = None  # hypotheses that are continued after a word; None: as many as `beam`
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


class Pool(NamedTuple):
    """R hypotheses of several sentences; those of a sentence stand together, in the order of the sentences."""

    owners: np.ndarray  # [R] the number of the sentence
    logps: np.ndarray  # [R] float64, nats
    actions: Lists  # [R]
    n_words: np.ndarray  # [R]
    complete: np.ndarray  # [R] bool
    stack: Lists  # [R] GPST: the first word of every sub-tree; others: the labels that are open
    before: Any  # [R] the states before the last actions
    last: np.ndarray  # [R] the last actions, which are read when the hypotheses are continued

    @property
    def size(self) -> int:
        """How many hypotheses there are."""
        return len(self.owners)

    def bounds(self, n_sentences: int) -> np.ndarray:
        """Return where the hypotheses of every sentence begin, and where the last ones end."""
        return np.searchsorted(self.owners, np.arange(n_sentences + 1))

    def best(self, count: int) -> Pool:
        """Return the `count` best hypotheses of every sentence, the best first; equal ones keep their order."""
        pool = taken(self, np.lexsort((-self.logps, self.owners)))
        ranks = np.arange(pool.size) - np.searchsorted(pool.owners, pool.owners)
        return taken(pool, ranks < count)

    def copied(self, sources: Mapping[int, int], n_sentences: int) -> Pool:
        """Return for each sentence s in `sources`, in order, the hypotheses of sentence `sources[s]` as those of s."""
        bounds = self.bounds(n_sentences).tolist()
        rows = [range(bounds[source], bounds[source + 1]) for source in sources.values()]
        copies = taken(self, np.array([row for of_sentence in rows for row in of_sentence], np.int64))
        return copies._replace(owners=np.repeat([*sources], [len(of_sentence) for of_sentence in rows]))

    def totals(self, n_sentences: int) -> list[float]:
        """Return the log of the summed probability of every sentence's hypotheses; -inf if it has none."""
        bounds = self.bounds(n_sentences).tolist()
        return [float(np.logaddexp.reduce(self.logps[i:j])) if i < j else -inf for i, j in pairwise(bounds)]

    def hypotheses(self, n_sentences: int) -> list[list[Hypothesis]]:
        """Return the hypotheses of every sentence."""
        values, sizes = self.actions.values.tolist(), self.actions.sizes.tolist()
        rows = zip(self.logps.tolist(), values, sizes, self.n_words.tolist(), self.complete.tolist(), strict=True)
        every = [Hypothesis(logp, tuple(of_row[:n]), words, whole) for logp, of_row, n, words, whole in rows]
        return [every[i:j] for i, j in pairwise(self.bounds(n_sentences).tolist())]


def first_pool(before: Any, last: Sequence[int], logp: float = 0.0, stack: Sequence[int] = ()) -> Pool:
    """Return one hypothesis without actions for every sentence, from its state and the action that it reads first."""
    count = len(last)
    none, zeros = lists([()] * count), np.zeros(count, np.int64)
    stacks = lists([stack] * count)
    return Pool(
        np.arange(count), np.full(count, logp), none, zeros, zeros > 0, stacks, before, np.array(last, np.int64)
    )  # fmt: skip


@dataclass(frozen=True)
class Step:
    """The actions that may come next after each of R hypotheses, in a fixed order. Spec: WS-1, WS-5."""

    states: Any  # [R], after the last action of the hypothesis
    actions: np.ndarray  # [R, C]
    logps: np.ndarray  # [R, C] float64, nats; -inf: impossible
    words: np.ndarray  # [C] bool: the action generates a word
    last: np.ndarray  # [R, C] bool: the action completes the tree, or ends the text
    changes: np.ndarray  # [C] by how much the action changes the height of the stack
    pushed: np.ndarray  # [R, C] what an action that raises the stack puts on top of it

    def after(self, pool: Pool, rows: np.ndarray, columns: np.ndarray, logps: np.ndarray) -> Pool:
        """Return the hypotheses in these rows with the actions in these columns added, and with these log p."""
        h, actions, change = taken(pool, rows), self.actions[rows, columns], self.changes[columns]
        stack = h.stack.longer(self.pushed[rows, columns], change)
        return Pool(
            h.owners, logps, h.actions.longer(actions), h.n_words + self.words[columns], self.last[rows, columns],
            stack, taken(self.states, rows), actions,
        )  # fmt: skip


class Actions(Protocol):
    """A model with the sentences to search; it stores a row of arrays for every action that it has read."""

    @property
    def size(self) -> int:
        """How many rows there are."""

    def begin(self) -> Pool:
        """Return the hypothesis of every sentence before its first action."""

    def explore(self, pool: Pool) -> Step:
        """Return what may come next after the hypotheses."""

    def keep(self, states: Any) -> Any:
        """Delete all rows that these states do not use, and return the states with the new numbers of their rows."""


class Parses(NamedTuple):
    """The best parses of a sentence, the best first, and log p of each of its prefixes summed over hypotheses."""

    hypotheses: list[Hypothesis]
    prefix_logps: list[float]


def draw(pool: Pool, seed: int, step: int) -> Pool:
    """Return one hypothesis, drawn from the pool of one sentence in proportion to its probability; its log p is 0."""
    shares = np.cumsum(np.exp(pool.logps - pool.totals(1)[0]))
    u = (mix(seed, step) >> 11) / 2**53
    sample = taken(pool, [min(int((shares <= u).sum()), pool.size - 1)])
    return sample._replace(logps=np.zeros(1))


def bits(prefix_logps: Sequence[float]) -> list[float]:
    """Return the surprisal of every word; infinite from the first word on that no hypothesis reaches.

    Examples
    --------
    >>> [round(x, 12) for x in bits([log(0.5), log(0.125), -inf])]
    [1.0, 2.0, inf]
    """
    possible = [logp for logp in prefix_logps if logp > -inf]
    return [*(np.diff([0.0, *possible]) / -log(2)).tolist(), *[inf] * (len(prefix_logps) - len(possible))]


def log_softmax(xp: ModuleType, logits: Array) -> Array:
    """Return the log-probabilities of the logits of every row [R, V], which take their place."""
    logits -= logits.max(axis=1, keepdims=True)
    logits -= xp.log(xp.exp(logits).sum(axis=1, keepdims=True))
    return logits


def most_probable(xp: ModuleType, logps: Array, count: int) -> Array:
    """Return the numbers of the `count` most probable columns of every row, in rising order; of equal ones the first.

    A NaN counts as equal to the least probable of them, so that a later check of the log-probabilities finds it.
    """
    count = min(count, logps.shape[1])
    least = -xp.partition(-logps, count - 1, axis=1)[:, count - 1 : count]
    above, below = logps > least, logps < least
    level, n_free = ~(above | below), count - above.sum(axis=1, keepdims=True)
    is_chosen = above | (level & (xp.cumsum(level, axis=1) <= n_free))
    return xp.nonzero(is_chosen)[1].reshape(-1, count)
