"""What the searches from word to word share: hypotheses of equally many words, pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf, log
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from accel.autodiff.layers import mix


class Scored(Protocol):
    """A hypothesis, a frozen dataclass."""

    @property
    def logp(self) -> float:
        """Of all its actions, nats."""


H = TypeVar("H", bound=Scored)


class Parses(NamedTuple):
    """The best parses of a sentence, the best first, and log p of each of its prefixes summed over hypotheses."""

    hypotheses: list[Any]
    prefix_logps: list[float]


def total(pool: Sequence[Scored]) -> float:
    """Return log p of a pool: the sum over its hypotheses; -inf without any."""
    return float(np.logaddexp.reduce([h.logp for h in pool])) if pool else -inf


def best(pool: Sequence[H], count: int) -> list[H]:
    """Return so many of the most probable hypotheses, the first of equals before the others."""
    return sorted(pool, key=lambda h: -h.logp)[:count]


def draw(pool: Sequence[H], seed: int, step: int) -> H:
    """Return one hypothesis, drawn by its probability in the pool, as one that is certain."""
    shares = np.cumsum([exp(h.logp - total(pool)) for h in pool])
    u = (mix(seed, step) >> 11) / 2**53
    drawn: Any = pool[min(int((shares <= u).sum()), len(pool) - 1)]
    certain: H = replace(drawn, logp=0.0)
    return certain


def bits(prefix_logps: Sequence[float]) -> list[float]:
    """Return how unexpected each word is after those before it; infinite from the first one that nothing can reach.

    Examples
    --------
    >>> [round(x, 12) for x in bits([log(0.5), log(0.125), -inf])]
    [1.0, 2.0, inf]
    """
    possible = [logp for logp in prefix_logps if logp > -inf]
    return [*(np.diff([0.0, *possible]) / -log(2)).tolist(), *[inf] * (len(prefix_logps) - len(possible))]
