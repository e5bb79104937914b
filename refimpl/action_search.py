"""Word-level search for generative parsers: hypotheses are the beginnings of trees, compared when they have equally
many words (Stern et al. 2017; GPST, section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from refimpl.checks import Float
from refimpl.layers import softmax
from refimpl.randomness import uniform
from refimpl.trees import START, ActionType, action_type

END = "</s>"
# From the actions so far to [V] log p(action), in the order of the symbols.
Model = Callable[[Sequence[str]], Float]


@dataclass(frozen=True)
class Limits:
    """How much is searched, and which trees. Spec: WS-5, WS-6."""

    beam: int  # b, beginnings that are continued at a time
    word_beam: int | None = None  # b_w, what is kept of those with the next word; None: b
    fast_track: int = 0  # b_s, beginnings with the next word that none without it can displace
    max_open: int = 50  # constituents that are open at a time
    max_opens: int = 10  # ... that are opened one behind the other
    goes_on: Container[str] = ()  # terminals that go on with a word, and so stand right behind another one

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("word_beam", 1), ("fast_track", 0), ("max_open", 1), ("max_opens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: {value} is below {least}")


@dataclass(frozen=True)
class Hypothesis:
    """A tree, or the beginning of one. Spec: WS-5."""

    logp: float = 0.0  # of all its actions, nats
    actions: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The terminals that it has generated."""
        return tuple(a for a in self.actions if action_type(a) == ActionType.T)

    @property
    def opened(self) -> tuple[str, ...]:
        """The labels of the constituents that are open, the outermost first."""
        labels: list[str] = []
        for action in self.actions:
            if action_type(action) == ActionType.ONT:
                labels.append(action[1:])
            elif action_type(action) == ActionType.CNT1:
                labels.pop()
        return tuple(labels)

    @property
    def complete(self) -> bool:
        """Whether its root is closed."""
        return bool(self.actions) and not self.opened


def possible_actions(
    h: Hypothesis, symbols: Sequence[str], limits: Limits, rest: Sequence[str] | None = None
) -> list[int]:
    r"""Return which actions may come next, ascending.

    Spec: WS-5.  What builds one tree with the next word first, within the limits; no constituent is empty

    Parameters
    ----------
    h : Hypothesis
    symbols : list of V str
        Every action as it is written. The start and the end symbol are never possible.
    limits : Limits
    rest : list of str, or None
        The terminals still to come: the root is closed behind all of them. None: any terminals.

    Returns
    -------
    list of int
        Numbers of symbols; none once the root is closed.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> symbols = ["<s>", "</s>", "a", "b", "(X", "(Y", "X)", "Y)"]
    >>> def show(actions, rest):
    ...     return [symbols[i] for i in possible_actions(Hypothesis(0.0, actions), symbols, Limits(1), rest)]
    >>> show((), ["a"]), show(("(X",), ["a", "b"]), show(("(X", "a"), ["b"]), show(("(X", "a"), [])
    (['(X', '(Y'], ['a', '(X', '(Y'], ['b', '(X', '(Y'], ['X)'])
    """
    if h.complete:
        return []
    opened, more = h.opened, rest is None or len(rest) > 0
    before = [action_type(action) for action in h.actions]
    fresh = next((n for n, kind in enumerate(reversed(before)) if kind != ActionType.ONT), len(before))
    within = bool(rest) and rest[0] in limits.goes_on  # type: ignore[index]
    found = []
    for number, symbol in enumerate(symbols):
        kind = action_type(symbol)
        if symbol in (START, END):
            can = False
        elif kind == ActionType.T:
            follows = symbol not in limits.goes_on or before[-1:] == [ActionType.T]
            can = bool(opened) and follows and (rest is None or list(rest[:1]) == [symbol])
        elif kind == ActionType.ONT:
            can = more and not within and len(opened) < limits.max_open and fresh < limits.max_opens
        else:
            can = opened[-1:] == (symbol[:-1],) and not fresh and not within and (len(opened) > 1 or not rest)
        if can:
            found.append(number)
    return found


def action_search(
    model: Model, symbols: Sequence[str], sentence: Sequence[str], limits: Limits
) -> tuple[list[Hypothesis], list[float]]:
    r"""Return the best trees over a sentence, and the probability of every prefix of it.

    Spec: WS-5, WS-6.  Continue what lacks the next word, until b have it; keep the best b_w of them; go on to the next

    Parameters
    ----------
    model : function
        From the actions so far to [V] log p(action).
    symbols : list of V str
    sentence : list of n str
        Terminals.
    limits : Limits

    Returns
    -------
    hypotheses : list of at most b_w Hypothesis
        The best first; each a tree over the sentence.
    prefix_logps : [n] float
        $\log p(x_{\le t})$ summed over the hypotheses that have just generated word t, nats: a lower bound, exact for
        trees within the limits where nothing is pruned.

    Raises
    ------
    ValueError
        If there are no words, one is no terminal, a log-probability is NaN or above 0, or nothing is possible.

    Examples
    --------
    Four actions, 1/4 each: a word has the trees (X a), (X (X a)), ... up to the limit, here of two.

    >>> symbols = ["a", "b", "(X", "X)"]
    >>> trees, prefix_logps = action_search(lambda _: np.log(np.full(4, 0.25)), symbols, ["a"], Limits(9, max_open=2))
    >>> [(" ".join(h.actions), round(math.exp(h.logp), 9)) for h in trees]
    [('(X a X)', 0.015625), ('(X (X a X) X)', 0.000976562)]
    >>> np.exp(prefix_logps).tolist()  # of (X a and (X (X a
    [0.078125]
    """
    for n, word in enumerate(sentence):
        if word not in symbols or action_type(word) != ActionType.T:
            raise ValueError(f"sentence: word {n} is {word!r}, not a terminal")
    if not sentence:
        raise ValueError("sentence: no words")
    pool, prefix_logps = [Hypothesis()], []
    for t in range(len(sentence)):
        pool = _advance(model, symbols, pool, sentence, limits, partial(_has_word, t))
        prefix_logps.append(float(np.logaddexp.reduce([h.logp for h in pool])))
    return _advance(model, symbols, pool, sentence, limits, lambda h: h.complete), prefix_logps


def surprisals(model: Model, symbols: Sequence[str], sentence: Sequence[str], limits: Limits) -> list[float]:
    r"""Return how unexpected every word is after those before it, in bits.

    Spec: WS-7.  $-\log_2 p(x_t \mid x_{<t}) = \log_2 p(x_{\le t-1}) - \log_2 p(x_{\le t})$

    Parameters
    ----------
    model, symbols, sentence, limits
        As `action_search`.

    Returns
    -------
    [n] float
        Bits. A word's do not depend on later words.

    Raises
    ------
    ValueError
        As `action_search`.

    Examples
    --------
    >>> symbols = ["a", "b", "(X", "X)"]
    >>> surprisals(lambda _: np.log(np.full(4, 0.25)), symbols, ["a"], Limits(1, max_open=1))
    [4.0]
    """
    logps = [0.0, *action_search(model, symbols, sentence, limits)[1]]
    return [(before - after) / math.log(2) for before, after in zip(logps[:-1], logps[1:], strict=True)]


def sample(
    model: Model, symbols: Sequence[str], limits: Limits, n_words: int, seed: int, prefix: Sequence[str] = ()
) -> tuple[str, ...]:
    r"""Return the actions of a text whose words are drawn one by one from the best hypotheses.

    Spec: WS-7.  After every word one of the hypotheses, with probability $\propto p$, goes on alone

    Parameters
    ----------
    model, symbols, limits
        As `action_search`.
    n_words : int
        How many words to draw; fewer, where the root is closed before.
    seed : int
    prefix : list of str
        Terminals that come first; none that is drawn goes on with the last of them.

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        As `action_search`; if there is nothing to draw.

    Examples
    --------
    >>> symbols = ["a", "b", "(X", "X)"]
    >>> sample(lambda _: np.log(np.array([0.1, 0.4, 0.3, 0.2])), symbols, Limits(1), 2, seed=0)
    ('(X', 'b', 'b')
    """
    if n_words < 1:
        raise ValueError(f"n_words: {n_words}: nothing to draw")
    pool, whole = [Hypothesis()], [START if symbol in limits.goes_on else symbol for symbol in symbols]
    for t in range(len(prefix) + n_words):
        given, possible = prefix if t < len(prefix) else None, whole if t == len(prefix) else symbols
        pool = _advance(model, possible, pool, given, limits, partial(_has_word, t, or_complete=True))
        if t >= len(prefix):
            u = uniform(t, seed)
            shares = np.cumsum(softmax(np.array([h.logp for h in pool])))
            pool = [Hypothesis(0.0, pool[min(int((shares <= u).sum()), len(pool) - 1)].actions)]
    return pool[0].actions


def _has_word(t: int, h: Hypothesis, or_complete: bool = False) -> bool:
    return len(h.words) > t or (or_complete and h.complete)


def _advance(
    model: Model, symbols: Sequence[str], pool: list[Hypothesis], sentence: Sequence[str] | None, limits: Limits,
    done: Callable[[Hypothesis], bool],
) -> list[Hypothesis]:  # fmt: skip
    """Return the best hypotheses that are done: continue the others until b are, or none is left."""
    ahead, others = list(filter(done, pool)), [h for h in pool if not done(h)]
    while others and len(ahead) < limits.beam:
        longer = [more for h in others for more in _explore(model, symbols, h, sentence, limits)]
        ranked = sorted(longer, key=lambda h: -h.logp)
        fast = list(filter(done, ranked))[: limits.fast_track]
        kept = [h for h in ranked if h not in fast][: limits.beam]
        ahead += [*fast, *filter(done, kept)]
        others = [h for h in kept if not done(h)]
    if not ahead:
        raise ValueError("model: nothing is possible")
    return sorted(ahead, key=lambda h: -h.logp)[: limits.word_beam or limits.beam]


def _explore(
    model: Model, symbols: Sequence[str], h: Hypothesis, sentence: Sequence[str] | None, limits: Limits
) -> list[Hypothesis]:
    """Return the hypotheses that are one action longer, in the order of the symbols. Impossible ones are left out."""
    logps = model(h.actions)
    rest = None if sentence is None else sentence[len(h.words) :]
    found = [(float(logps[i]), symbols[i]) for i in possible_actions(h, symbols, limits, rest)]
    if not all(logp <= 1e-6 for logp, _ in found):
        raise ValueError(f"model: after {h.actions} not all of {found} are log-probabilities")
    return [Hypothesis(h.logp + logp, (*h.actions, action)) for logp, action in found if logp > -math.inf]
