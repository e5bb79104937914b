"""Word-level search for TG and TXL (CC), for many sentences at once: parses, surprisals, samples; samples of words too.

Mirrors `refimpl.word_level_search` (clauses WS-5 to WS-7). The hypotheses of all sentences that lack the next word are
continued together, one action a step. A Transformer-XL of words has no constituents: words alone are possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.search.pools import Parses, best, bits, draw, total
from accel.search.transformer_grammar_steps import State, Steps
from accel.trained.kinds import LABELLED_TREES, can, require
from accel.trained.opening import Model


@dataclass(frozen=True)
class Limits:
    """How much is searched, and which trees. Spec: WS-5, WS-6."""

    beam: int  # beginnings that are continued at a time
    word_beam: int | None = None  # what is kept of those with the next word; None: as many
    fast_track: int = 0  # beginnings with the next word that none without it can displace
    max_open: int = 50  # constituents that are open at a time
    max_opens: int = 10  # ... that are opened one behind the other

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("word_beam", 1), ("fast_track", 0), ("max_open", 1), ("max_opens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: {value} is below {least}")


def limits_of(beam: int = 100, word_beam: int | None = None, fast_track: int | None = None, **most: int) -> Limits:
    """Return the limits of a search; if not said, a tenth of the beam is kept of a word, a twentieth fast-tracked."""
    of_word = max(beam // 10, 1) if word_beam is None else word_beam
    return Limits(beam, of_word, beam // 20 if fast_track is None else fast_track, **most)


@dataclass(frozen=True)
class Hypothesis:
    """A tree, or the beginning of one. Spec: WS-5."""

    logp: float = 0.0  # of all its actions, nats
    actions: tuple[int, ...] = ()
    n_words: int = 0
    opened: tuple[int, ...] = ()  # the labels of the constituents that are open, the outermost first
    fresh: int = 0  # how many of them have just been opened
    complete: bool = False
    before: State = field(default=State(), compare=False)  # its last action, which is read when it is continued
    last: int = field(default=START_ID, compare=False)


Pool = list[Hypothesis]


def action_search(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[int]], limits: Limits, *, complete: bool = True
) -> list[Parses]:
    """Return what the reference returns for every sentence; where nothing is possible, no hypotheses, and -inf.

    Parameters
    ----------
    sentences : sequence of sequences of int
        Their terminals.
    complete : bool
        False: hypotheses end with their last word, where prefixes alone are wanted.

    Raises
    ------
    ValueError
        If the model is none of trees, a sentence is empty or holds what is no terminal, or a log-probability is NaN or
        above 0.
    """
    require(model, LABELLED_TREES)
    search = _Search(ops, model, limits)
    for b, sentence in enumerate(sentences):
        search.check(f"sentence {b}", sentence)
    search.sentences = sentences
    pools, prefix_logps = [[Hypothesis()] for _ in sentences], [list[float]() for _ in sentences]
    for t in range(max(map(len, sentences), default=0)):
        waiting = [b for b, sentence in enumerate(sentences) if len(sentence) > t]
        search.advance(pools, waiting)
        for b in waiting:
            prefix_logps[b].append(total(pools[b]))
    if complete:
        search.advance(pools, list(range(len(sentences))))
    return [Parses(*both) for both in zip(pools, prefix_logps, strict=True)]


def surprisals(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[int]], limits: Limits, *, batch_size: int = 4
) -> Iterator[list[float]]:
    """Yield for every sentence how unexpected each of its terminals is after those before it, in bits.

    Spec: WS-7. The sums over the hypotheses of `action_search`, with its errors. Infinite from the first terminal on
    that no hypothesis can reach.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} is below 1")
    for start in range(0, len(sentences), batch_size):
        for _, logps in action_search(ops, model, sentences[start : start + batch_size], limits, complete=False):
            yield bits(logps)


def sample(
    ops: ModuleType, model: Model, limits: Limits, *, seed: int, prefix: Sequence[int] = ()
) -> Iterator[tuple[int, ...]]:
    """Yield the actions of a text after every terminal that is drawn, until its root is closed or its end is drawn.

    Spec: WS-7. The terminals of the prefix come first, and are parsed without drawing.

    Raises
    ------
    ValueError
        As `action_search`; if nothing is possible.
    """
    search = _Search(ops, model, limits, len(prefix))
    pools, t = [[Hypothesis()]], 0
    if prefix:
        search.check("prefix", prefix)
    while not pools[0][0].complete:
        search.sentences = [prefix] if t < len(prefix) else None
        search.advance(pools, [0])
        if not pools[0]:
            raise ValueError(f"{model.path}: nothing is possible behind {t} terminals")
        if t >= len(prefix):
            drawn = draw(pools[0], seed, t)
            pools = [[drawn]]
            yield drawn.actions
        t += 1


class _Search:
    """The hypotheses of several sentences, or without sentences of texts of any words."""

    def __init__(self, ops: ModuleType, model: Model, limits: Limits, n_given: int = 0) -> None:
        self.sentences: Sequence[Sequence[int]] | None = None
        self._limits, self._vocabulary, self._xp = limits, model.vocabulary, ops.xp
        self._steps = Steps(ops, model.config, model.parameters, model.vocabulary.type_of)
        self._n_terminals, self._n_labels = len(model.vocabulary.terminals), len(model.vocabulary.labels)
        self._first_label = 2 + self._n_terminals
        self._has_trees = can(model, LABELLED_TREES)
        self._n_given = n_given  # terminals of a prefix, with which none that is drawn goes on
        self._kept = 0

    def check(self, name: str, sentence: Sequence[int]) -> None:
        """Raise ValueError for a sentence that is empty or holds what is no terminal."""
        if not len(sentence):
            raise ValueError(f"{name}: no words")
        for n, word in enumerate(sentence):
            if not 2 <= word < self._first_label:
                raise ValueError(f"{name}: word {n} is {word}, not a terminal, 2 to {self._first_label - 1}")

    def advance(self, pools: list[Pool], which: Sequence[int]) -> None:
        """Set those pools to their best hypotheses with one more word, or where there is none, to complete ones."""
        ahead: dict[int, Pool] = {b: [] for b in which}
        others = {b: pools[b] for b in which}
        while any(others.values()):
            for b, (done, rest) in self._continue({b: pool for b, pool in others.items() if pool}).items():
                ahead[b] += done
                others[b] = rest if len(ahead[b]) < self._limits.beam else []
            self._forget([ahead, others, {b: pool for b, pool in enumerate(pools) if b not in ahead}])
        for b in which:
            pools[b] = best(ahead[b], self._limits.word_beam or self._limits.beam)

    def _continue(self, pools: dict[int, Pool]) -> dict[int, tuple[Pool, Pool]]:
        """Return for every sentence what is kept of all that is one action longer: with the next word, and without."""
        owners = [b for b, pool in pools.items() for _ in pool]
        rows = [h for pool in pools.values() for h in pool]
        states, hidden = self._steps.read([h.before for h in rows], [h.last for h in rows])
        ids, can, done = self._possible(owners, rows, logps := self._steps.logps(hidden))
        taken = self._xp.take_along_axis(logps, self._xp.asarray(ids), axis=1)
        new_logps = host(taken).astype(np.float64)
        if not (new_logps[can] <= 1e-6).all():
            row, column = np.argwhere(can & ~(new_logps <= 1e-6))[0].tolist()
            action = f"action {ids[row, column]} behind {rows[row].actions}"
            raise ValueError(f"model: log p {new_logps[row, column]} of {action}")
        scores = np.where(can, new_logps + np.array([[h.logp] for h in rows]), -inf)
        longer, begin = {}, 0
        for b, pool in pools.items():
            here = slice(begin, begin + len(pool))
            picked = [
                [self._longer(pool[i], int(ids[here][i, c]), float(scores[here][i, c]), states[begin + i])
                 for i, c in zip(*np.divmod(chosen, ids.shape[1]), strict=True)]
                for chosen in self._best(scores[here].ravel(), done[here].ravel())
            ]  # fmt: skip
            longer[b] = picked[0], picked[1]
            begin = here.stop
        return longer

    def _best(self, scores: np.ndarray, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which are kept: those that are done, fast-tracked ones first, and the others."""
        ranked = np.argsort(-scores, kind="stable")[: int(np.count_nonzero(scores > -inf))]
        is_fast = done[ranked]
        is_fast &= np.cumsum(is_fast) <= self._limits.fast_track
        others = ranked[~is_fast][: self._limits.beam]
        return np.concatenate([ranked[is_fast], others[done[others]]]), others[~done[others]]

    def _possible(
        self, owners: Sequence[int], rows: Sequence[Hypothesis], logps: Array
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return actions, ascending [R, C], which of them are possible, and which of those bring the next word.

        They are words, one for a sentence, labels that open, and the label that closes.
        """
        limits, n = self._limits, self._n_labels
        depth, fresh = (np.array([x(h) for h in rows])[:, None] for x in (lambda h: len(h.opened), lambda h: h.fresh))
        inside = (depth > 0) | (not self._has_trees)
        words, possible_word, more, within = self._words(owners, rows, logps)
        opens = more & ~within & (depth < limits.max_open) & (fresh < limits.max_opens) & self._has_trees
        ends = ~more | (self.sentences is None)  # where the root may be closed
        closes = (depth > 0) & (fresh == 0) & ~within & ((depth > 1) | ends)
        innermost = np.array([h.opened[-1] if h.opened else 0 for h in rows])[:, None]
        ids = np.concatenate([
            words, np.tile(self._first_label + np.arange(n), (len(rows), 1)), self._first_label + n + innermost
        ], axis=1)  # fmt: skip
        can = np.concatenate([possible_word & inside, np.repeat(opens, n, axis=1), closes], axis=1)
        done = np.concatenate([np.ones(words.shape, bool), np.zeros((len(rows), n), bool), depth == 1], axis=1)
        return ids, can, done

    def _words(
        self, owners: Sequence[int], rows: Sequence[Hypothesis], logps: Array
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return words [R, W], which are possible, whether any is to come, and whether it goes on with the last."""
        begins = self._vocabulary.begins_word
        if self.sentences is not None:
            rests = [self.sentences[b][h.n_words :] for b, h in zip(owners, rows, strict=True)]
            more = np.array([len(rest) > 0 for rest in rests])[:, None]
            words = np.array([rest[0] if len(rest) else END_ID for rest in rests])[:, None]
            within = more & ~begins[words]
            return words, more & (~within | self._behind_word(rows)), more, within
        terminals = np.arange(2 if self._has_trees else END_ID, self._first_label)
        drawn = np.array([h.n_words > self._n_given for h in rows])[:, None]
        follows = begins[terminals] | (self._behind_word(rows) & drawn)
        xp, count = self._xp, min(self._limits.beam + self._limits.fast_track, len(terminals))
        score = xp.where(xp.asarray(follows), logps[:, terminals[0] : self._first_label], -inf)
        chosen = host(xp.sort(xp.argpartition(-score, count - 1, axis=1)[:, :count], axis=1))
        whole = np.ones((len(rows), 1), bool)
        return terminals[chosen], np.take_along_axis(follows, chosen, axis=1), whole, ~whole

    def _behind_word(self, rows: Sequence[Hypothesis]) -> np.ndarray:
        """Return whether the last action is a terminal [R, 1]."""
        return np.array([2 <= h.last < self._first_label for h in rows])[:, None]

    def _longer(self, h: Hypothesis, action: int, logp: float, state: State) -> Hypothesis:
        """Return the hypothesis with one more action, which makes it that probable."""
        label, given = action - self._first_label, (logp, (*h.actions, action))
        if label < 0:
            return Hypothesis(*given, h.n_words + 1, h.opened, 0, action == END_ID, state, action)
        if label < self._n_labels:
            return Hypothesis(*given, h.n_words, (*h.opened, label), h.fresh + 1, False, state, action)
        return Hypothesis(*given, h.n_words, h.opened[:-1], 0, len(h.opened) == 1, state, action)

    def _forget(self, held: Sequence[dict[int, Pool]]) -> None:
        """Forget what no longer belongs to any hypothesis, once it is half of all."""
        if self._steps.size <= 2 * self._kept:
            return
        states = iter(self._steps.keep([h.before for pools in held for pool in pools.values() for h in pool]))
        self._kept = self._steps.size
        for pools in held:
            for pool in pools.values():
                pool[:] = [replace(h, before=next(states)) for h in pool]
