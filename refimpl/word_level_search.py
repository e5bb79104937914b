"""Search among hypotheses with equally many words (GPST, section 3.3): parses, surprisals, samples."""

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from refimpl.checks import Float, check_least
from refimpl.randomness import uniform
from refimpl.trees import CNT1, ONT, START, T, action_type


class Step(NamedTuple):
    """An action that may come next. Spec: WS-1, WS-5."""

    action: Any  # a number or a string
    logp: float  # nats
    word: bool  # it generates a word
    last: bool  # it completes the tree, or ends the text


Model = Callable[[Sequence[Any]], list[Step]]  # from the actions so far to the possible next steps
Texts = Sequence[str]
Gpst = Callable[[Sequence[int]], tuple[float, float, Float]]


@dataclass(frozen=True)
class Limits:
    """How much is searched, and which trees. Spec: WS-2, WS-5, WS-6."""

    beam: int  # b, hypotheses that are kept after an action
    word_beam: int | None = None  # b_w, hypotheses that are kept after a word; None: b
    fast_track: int = 0  # b_s, hypotheses with the next word that are set aside before the beam is cut
    one_pool: bool = False  # hypotheses with the next word compete with those that lack it
    max_open: int = 50  # o, constituents that are open at a time
    max_opens: int = 10  # c, constituents that open one directly after the other
    goes_on: Container[str] = ()  # terminals that continue a word, directly after another terminal

    def __post_init__(self) -> None:
        check_least(1, beam=self.beam, word_beam=self.word_beam, max_open=self.max_open, max_opens=self.max_opens)
        check_least(0, fast_track=self.fast_track)


@dataclass(frozen=True)
class Hypothesis:
    """A tree, or the beginning of one. Spec: WS-1, WS-5."""

    logp: float = 0.0  # of all its actions, nats
    actions: tuple[Any, ...] = ()
    n_words: int = 0
    complete: bool = False


def gpst_actions(logps: Gpst, sentence: Sequence[int] = (), more: bool = False, end: int | None = None) -> Model:
    """Return GPST as a search model: its steps are COMP (-1), if there are two sub-trees, then the words of GEN.

    Spec: WS-1.

    logps : from the actions so far to log p(COMP), log p(GEN), and [V] log p(word | GEN)
    sentence : [n] int, the words; more : any words may follow; end : the word that ends a text, or None
    Raises ValueError if `end` is in the sentence; the returned model raises it for a word outside 0..V-1.
    """
    if end in sentence:
        raise ValueError(f"end: {end} is a word of the sentence")

    def model(actions: Sequence[int]) -> list[Step]:
        n = sum(action >= 0 for action in actions)
        sub_trees = 2 * n - len(actions)
        comp, gen, word_logps = logps(actions)
        words = range(len(word_logps)) if more and n >= len(sentence) else sentence[n : n + 1]
        if not all(0 <= word < len(word_logps) for word in words):
            raise ValueError(f"sentence: word {n} is {words[0]}, outside 0..{len(word_logps) - 1}")
        one_tree, one_word = (n, sub_trees) == (len(sentence), 2), (n, len(sentence)) == (0, 1)
        steps = [Step(-1, comp, False, one_tree and not more)] if sub_trees > 1 else []
        return steps + [Step(x, float(gen + word_logps[x]), True, x == end or (one_word and not more)) for x in words]

    return model


def possible_actions(
    actions: Texts, symbols: Texts, limits: Limits, sentence: Texts = (), more: bool = False
) -> list[int]:
    """Return the numbers of the symbols that may come next, ascending; none once the root is closed.

    Spec: WS-5.

    symbols : [V] str, every action; sentence : [n] str, the terminals; more : any terminals may follow

    >>> symbols = ["<s>", "</s>", "a", "b", "(X", "(Y", "X)", "Y)"]
    >>> [symbols[i] for i in possible_actions(["(X", "a"], symbols, Limits(1), ["a", "b"])]
    ['b', '(X', '(Y']
    """
    types, stack = [action_type(action) for action in actions], list[str]()
    for action, kind in zip(actions, types, strict=True):
        stack = [*stack, action[1:]] if kind == ONT else stack[:-1] if kind == CNT1 else stack
    n, opens = types.count(T), next((k for k, kind in enumerate(reversed(types)) if kind != ONT), len(types))
    rest = sentence[n:]
    words_come = bool(rest) or (more and bool(stack or not actions))
    within_word = bool(rest) and rest[0] in limits.goes_on

    def can(symbol: str) -> bool:
        if action_type(symbol) == T:  # no sampled terminal continues a word of the sentence
            fits = symbol not in limits.goes_on or (types[-1:] == [T] and (bool(rest) or n > len(sentence)))
            return bool(stack) and fits and (symbol == rest[0] if rest else more)
        if action_type(symbol) == ONT:
            return words_come and not within_word and len(stack) < limits.max_open and opens < limits.max_opens
        return stack[-1:] == [symbol[:-1]] and opens == 0 and not within_word and (len(stack) > 1 or not rest)

    return [i for i, symbol in enumerate(symbols) if symbol not in (START, "</s>") and can(symbol)]


def tree_actions(
    logps: Callable[[Texts], Float], symbols: Texts, limits: Limits, sentence: Texts = (), more: bool = False
) -> Model:
    """Return a Transformer Grammar as a model: its possible actions, in the order of the symbols.

    Spec: WS-5.

    logps : from the actions so far to [V] log p(action); the rest as `possible_actions`
    Raises ValueError if a word is no terminal among the symbols, or the first one continues a word.
    """
    for n, word in enumerate(sentence):
        if word not in symbols or word == "</s>" or action_type(word) != T or (n == 0 and word in limits.goes_on):
            raise ValueError(f"sentence: word {n} is {word!r}, not a terminal that may stand there")

    def model(actions: Texts) -> list[Step]:
        types, p = [action_type(action) for action in actions], logps(actions)
        depth = types.count(ONT) - types.count(CNT1)
        kinds = [(i, action_type(symbols[i])) for i in possible_actions(actions, symbols, limits, sentence, more)]
        return [Step(symbols[i], float(p[i]), kind == T, kind == CNT1 and depth == 1) for i, kind in kinds]

    return model


def word_level_search(
    model: Model, limits: Limits, n_words: int, *, complete: bool = True, sync: bool = True
) -> tuple[list[Hypothesis], list[float]]:
    r"""Return the best hypotheses, the best first, and the probability of every prefix.

    Spec: WS-2, WS-6.  $\log p(x_{\le t}) \ge \log \sum_{\text{pool}} p(a)$

    n_words : int, at most the words of the model's sentence, if it has one
    complete : after the last word go on until the trees are complete; with `more`, a text of GPST is complete only with
        `end`, and without an `end` this search never returns
    sync : False: compare hypotheses after every action only, not after every word
    -> at most b_w hypotheses; [n] float, nats, empty without `sync`; after a text's end its own probability stays
    Raises ValueError if there are no words, a log-probability is NaN or above 0 (by more than 1e-6, for rounding), or
    nothing is possible.

    >>> limits, symbols = Limits(9, max_open=2), ["a", "b", "(X", "X)"]
    >>> model = tree_actions(lambda actions: np.log(np.full(4, 0.25)), symbols, limits, ["a"])
    >>> trees, prefix_logps = word_level_search(model, limits, 1)
    >>> [(" ".join(h.actions), round(math.exp(h.logp), 9)) for h in trees]
    [('(X a X)', 0.015625), ('(X (X a X) X)', 0.000976562)]
    >>> np.exp(prefix_logps).tolist()  # of (X a and (X (X a
    [0.078125]
    """
    if n_words < 1 or not (complete or sync):
        raise ValueError(f"{n_words} words, complete {complete}, sync {sync}: nothing to search")
    pool, prefix_logps = [Hypothesis()], []
    for t in range(n_words if sync else 0):
        pool = _advance(model, pool, limits, t + 1)
        prefix_logps.append(float(np.logaddexp.reduce([h.logp for h in pool])))
    return _advance(model, pool, limits, math.inf) if complete else pool, prefix_logps


def surprisals(model: Model, limits: Limits, n_words: int) -> list[float]:
    r"""Return how unexpected every word is after those before it, in bits.

    Spec: WS-3, WS-7.  $-\log_2 p(x_t \mid x_{<t}) = \log_2 p(x_{\le t-1}) - \log_2 p(x_{\le t})$

    Raises ValueError as `word_level_search`, and if the sentence has fewer words.

    >>> surprisals(gpst_actions(lambda actions: (-1.0, 0.0, np.log([0.5, 0.5])), [0, 1]), Limits(1), 2)
    [1.0, 1.0]
    """
    pool, logps = word_level_search(model, limits, n_words, complete=False)
    if all(h.n_words < n_words for h in pool):
        raise ValueError(f"n_words: the sentence has no word {n_words - 1}")
    return [float(bits) for bits in np.diff([0.0, *logps]) / -math.log(2)]


def sample(model: Model, limits: Limits, n_words: int, seed: int, n_given: int = 0) -> tuple[Any, ...]:
    r"""Return the actions of a text: after every word but the first `n_given`, one hypothesis is drawn and continued.

    Spec: WS-4, WS-7.  Each with probability $\propto p$

    model, limits : as `word_level_search`; n_words : int, words after the prefix, at least 1; fewer if the text ends
    seed : int in 0..2^64-1; n_given : int, words of the prefix: as many as the model's sentence has
    -> tuple of actions, those of the prefix included
    Raises ValueError if `n_words` is below 1 or `n_given` below 0, and as `word_level_search`.

    >>> limits, symbols = Limits(1), ["a", "b", "(X", "X)"]
    >>> model = tree_actions(lambda actions: np.log([0.1, 0.4, 0.3, 0.2]), symbols, limits, more=True)
    >>> sample(model, limits, 2, seed=0)
    ('(X', 'b', 'b')
    """
    if n_words < 1 or n_given < 0:
        raise ValueError(f"n_words, n_given: {n_words}, {n_given}: nothing to draw")
    pool = [Hypothesis()]
    for t in range(n_given + n_words):
        pool = _advance(model, pool, limits, t + 1)
        if t >= n_given:
            p = np.exp([h.logp - pool[0].logp for h in pool])
            choice = pool[min(int((np.cumsum(p / p.sum()) <= uniform(t, seed)).sum()), len(pool) - 1)]
            pool = [Hypothesis(0.0, choice.actions, choice.n_words, choice.complete)]
    return pool[0].actions


def _advance(model: Model, pool: list[Hypothesis], limits: Limits, n_words: float) -> list[Hypothesis]:
    """Return the best hypotheses that are complete or have `n_words` words; extend the others action by action."""

    def is_done(h: Hypothesis) -> bool:
        return h.complete or h.n_words >= n_words

    results, others = list(filter(is_done, pool)), [h for h in pool if not is_done(h)]
    while others and (limits.one_pool or len(results) < limits.beam):
        rivals, results = (results, []) if limits.one_pool else ([], results)
        longer = [more for h in others for more in _explore(model, h)]
        ranked = sorted([*longer, *rivals], key=lambda h: -h.logp)
        fast = list(filter(is_done, ranked))[: limits.fast_track]
        best = [h for h in ranked if h not in fast][: limits.beam]
        results = [*results, *fast, *filter(is_done, best)]
        others = [h for h in best if not is_done(h)]
    if not results:
        raise ValueError("model: nothing is possible")
    return sorted(results, key=lambda h: -h.logp)[: limits.word_beam or limits.beam]


def _explore(model: Model, h: Hypothesis) -> list[Hypothesis]:
    """Return the hypotheses that are one action longer; impossible ones are left out."""
    steps = model(h.actions)
    if not all(step.logp <= 1e-6 for step in steps):
        raise ValueError(f"model: after {h.actions} not all of {steps} are log-probabilities")
    return [Hypothesis(h.logp + logp, (*h.actions, action), h.n_words + word, last)
            for action, logp, word, last in steps if logp > -math.inf]  # fmt: skip
