"""GPST's inference (section 3.3): search that keeps hypotheses of equally many words, surprisal, sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from refimpl.checks import Float
from refimpl.layers import softmax
from refimpl.randomness import uniform

# From the actions so far to log p(COMP), log p(GEN), and [V] log p(word | GEN).
Model = Callable[[Sequence[int]], tuple[float, float, Float]]


@dataclass(frozen=True)
class Hypothesis:
    """A parse, or the beginning of one. Spec: WS-1."""

    logp: float = 0.0  # log p of all its actions, nats
    actions: tuple[int, ...] = ()  # a word for GEN, -1 for COMP

    @property
    def words(self) -> tuple[int, ...]:
        """The words that it has generated."""
        return tuple(a for a in self.actions if a >= 0)


def word_level_search(
    model: Model, beam: int, sentence: Sequence[int] | None = None, *,
    n_words: int | None = None, end: int | None = None, sync: bool = True,
) -> tuple[list[Hypothesis], list[float]]:  # fmt: skip
    r"""Return the best parses of a sentence, or the best beginnings of texts, and the probability of every prefix.

    Spec: WS-1, WS-2.  Explore all hypotheses that lack the next word, pool, keep the best b; go on to the next word
    when all have this one

    Parameters
    ----------
    model : function
        From the actions so far to log p(COMP), log p(GEN), and [V] log p(word | GEN).
    beam : int
        b, how many hypotheses are kept.
    sentence : list of n int, or None
        The words, whose parses are sought; None: any words.
    n_words : int or None
        How many words to generate if there is no sentence.
    end : int or None
        A word behind which a text does not go on.
    sync : bool
        False: keep the best b after every action instead (ablation; of a sentence only).

    Returns
    -------
    hypotheses : list of at most b Hypothesis
        The best first: complete parses of the sentence, each one tree; without a sentence, texts that end in a GEN.
    prefix_logps : [n] float
        $\log p(x_{\le t})$ summed over the hypotheses that have just generated word t, nats: a lower bound, exact if
        b is at least the number of binary trees over n words. Empty without `sync`.

    Raises
    ------
    ValueError
        If b < 1, there are no words to parse or to generate, a word is unknown to the model, a log-probability is NaN
        or above 0, or nothing is possible.

    Examples
    --------
    COMP or GEN, 1/2 each, and two words: a sentence of three words has two parses, of five actions each. Where COMP is
    impossible, its half is lost.

    >>> def model(actions):
    ...     return math.log(0.5), math.log(0.5), np.log(np.array([0.5, 0.5]))
    >>> parses, prefix_logps = word_level_search(model, 9, [0, 1, 0])
    >>> [(round(math.exp(h.logp), 12), h.actions) for h in parses]
    [(0.00390625, (0, 1, 0, -1, -1)), (0.00390625, (0, 1, -1, 0, -1))]
    >>> np.exp(prefix_logps).round(6).tolist()  # 1/4; 1/4 of it; 1/4 of that, and half of that with COMP in between
    [0.25, 0.0625, 0.023438]
    """
    total = n_words if sentence is None else len(sentence)
    if beam < 1 or not total or total < 1 or (sentence is None and not sync):
        raise ValueError(f"beam, words: {beam} hypotheses, {total} words, sync {sync}: nothing to search")
    pool, prefix_logps = [Hypothesis()], []
    for t in range(total if sync else 0):
        pool = _advance(model, pool, beam, sentence, partial(_has_word, t, end))
        prefix_logps.append(float(np.logaddexp.reduce([h.logp for h in pool])))
    if sentence is not None:
        pool = _advance(model, pool, beam, sentence, lambda h: len(h.actions) == 2 * total - 1)
    return pool, prefix_logps


def surprisals(model: Model, beam: int, sentence: Sequence[int]) -> list[float]:
    r"""Return how unexpected every word is after those before it, in bits.

    Spec: WS-3.  $-\log_2 p(x_t \mid x_{<t}) = \log_2 p(x_{\le t-1}) - \log_2 p(x_{\le t})$

    Parameters
    ----------
    model, beam
        As `word_level_search`.
    sentence : list of n int
        n >= 1.

    Returns
    -------
    [n] float
        Bits; the first word's too. A word's does not depend on later words.

    Raises
    ------
    ValueError
        As `word_level_search`.

    Examples
    --------
    >>> def model(actions):
    ...     return math.log(0.5), math.log(0.5), np.log(np.array([0.5, 0.5]))
    >>> np.round(surprisals(model, 9, [0, 1]), 9).tolist()
    [2.0, 2.0]
    """
    logps = [0.0, *word_level_search(model, beam, sentence)[1]]
    return [(before - after) / math.log(2) for before, after in zip(logps[:-1], logps[1:], strict=True)]


def sample(
    model: Model, beam: int, n_words: int, seed: int, prefix: Sequence[int] = (), end: int | None = None
) -> tuple[int, ...]:
    r"""Return the actions of a text whose words are drawn one by one from the best hypotheses.

    Spec: WS-4.  After every word one of the b hypotheses, with probability $\propto p$, goes on alone

    Parameters
    ----------
    model, beam, end
        As `word_level_search`.
    n_words : int
        How many words to draw.
    seed : int
    prefix : list of int
        Words that come first; they are parsed with b hypotheses.

    Returns
    -------
    tuple of int
        A word for GEN, -1 for COMP.

    Raises
    ------
    ValueError
        As `word_level_search`.

    Examples
    --------
    >>> def model(actions):
    ...     return math.log(0.5), math.log(0.5), np.log(np.array([0.5, 0.5]))
    >>> sample(model, 1, 2, seed=0, prefix=[1])
    (1, 0, -1, 0)
    """
    if beam < 1 or n_words < 1:
        raise ValueError(f"beam, n_words: {beam} hypotheses, {n_words} words: nothing to draw")
    pool = [Hypothesis()]
    for t in range(len(prefix) + n_words):
        pool = _advance(model, pool, beam, prefix if t < len(prefix) else None, partial(_has_word, t, end))
        if t >= len(prefix):
            u = uniform(t, seed)
            shares = np.cumsum(softmax(np.array([h.logp for h in pool])))
            pool = [Hypothesis(0.0, pool[min(int((shares <= u).sum()), len(pool) - 1)].actions)]
    return pool[0].actions


def _has_word(t: int, end: int | None, h: Hypothesis) -> bool:
    """Return whether word t has been generated, or the text has ended before."""
    return len(h.words) > t or end in h.words


def _advance(
    model: Model, pool: list[Hypothesis], beam: int, sentence: Sequence[int] | None, done: Callable[[Hypothesis], bool]
) -> list[Hypothesis]:
    """Return the best hypotheses that are done: explore the others, pool, rank, until there are no others."""
    while not all(map(done, pool)):
        longer = [more for h in pool if not done(h) for more in _explore(model, h, sentence)]
        pool = sorted([*longer, *filter(done, pool)], key=lambda h: -h.logp)[:beam]
        if not pool:
            raise ValueError("model: nothing is possible")
    return pool


def _explore(model: Model, h: Hypothesis, sentence: Sequence[int] | None) -> list[Hypothesis]:
    """Return the hypotheses that are one action longer: COMP first, then the words. Impossible ones are left out."""
    comp, gen, word_logps = model(h.actions)
    n = len(h.words)
    words = range(len(word_logps)) if sentence is None else sentence[n : n + 1]
    if not all(0 <= word < len(word_logps) for word in words):
        raise ValueError(f"sentence: word {n} is {words[0]}, outside 0..{len(word_logps) - 1}")
    found = [(comp, -1)] * (2 * n - len(h.actions) > 1) + [(float(gen + word_logps[word]), word) for word in words]
    if not all(logp <= 1e-6 for logp, _ in found):
        raise ValueError(f"model: after {h.actions} not all of {found} are log-probabilities")
    return [Hypothesis(h.logp + logp, (*h.actions, action)) for logp, action in found if logp > -math.inf]
