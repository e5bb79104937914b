"""Search that compares hypotheses of equally many words, for many sentences at once: parses, surprisals, samples.

Mirrors `refimpl.beam_search` (clauses WS-*) with GPST as its model. The hypotheses of all sentences that lack the next
word are continued together, one action a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.layers import mix
from accel.models.gpst_steps import COMP, START, State, Steps
from accel.tape import Array

Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Hypothesis:
    """A parse, or the beginning of one. Spec: WS-1."""

    logp: float = 0.0  # of all its actions, nats
    actions: tuple[int, ...] = ()  # a word for GEN, -1 for COMP
    n_words: int = 0
    begins: tuple[int, ...] = ()  # the first word of every sub-tree on the stack
    before: State = field(default=State(), compare=False)  # its last action, read when it is explored

    def longer(self, action: int, logp: float, state: State) -> Hypothesis:
        """Return it with one more action."""
        gen = action >= 0
        begins = (*self.begins, self.n_words) if gen else self.begins[:-1]
        return Hypothesis(self.logp + logp, (*self.actions, action), self.n_words + gen, begins, state)


class Parses(NamedTuple):
    """The best parses of a sentence, the best first, and log p of each of its prefixes summed over hypotheses."""

    hypotheses: list[Hypothesis]
    prefix_logps: list[float]


Done = Callable[[int, Hypothesis], bool]
"""Whether a hypothesis of sentence b waits for the others."""


def word_level_search(
    ops: ModuleType,
    config: Any,
    parameters: dict[str, Array],
    sentences: Sequence[Sequence[int]],
    *,
    beam: int,
    sync: bool = True,
    complete: bool = True,
    begins_word: Sequence[Sequence[bool]] | None = None,
) -> list[Parses]:
    """Return what the reference returns for every sentence.

    Parameters
    ----------
    beam : int
        How many hypotheses of each sentence are kept.
    sync : bool
        False: the best are kept after every action, instead of every word (ablation); no prefixes.
    complete : bool
        False: hypotheses end with their last word, where prefixes alone are wanted.
    begins_word : sequence of sequences of bool, or None
        Where words of several pieces begin: no constituent then has a part of one and something outside of it.

    Raises
    ------
    ValueError
        If the beam is below 1, a sentence is empty, has more words than a context or one that the model does not
        know, a log-probability is NaN or above 0, or nothing is possible.
    """
    search = _Search(Steps(ops, config, parameters), beam, sentences, begins_word)
    lengths, prefix_logps = [len(sentence) for sentence in sentences], [list[float]() for _ in sentences]
    pools = [[Hypothesis()] for _ in sentences]
    for t in range(0 if sync else max(lengths, default=0), max(lengths, default=0) + complete):

        def done(b: int, h: Hypothesis, t: int = t) -> bool:
            """Return whether word t is there, or where there is no such word the parse is complete."""
            return h.n_words > t if t < lengths[b] else not complete or len(h.actions) == 2 * lengths[b] - 1

        pools = search.advance(pools, done)
        for b in np.flatnonzero(np.array(lengths) > t).tolist():
            prefix_logps[b].append(_total(pools[b]))
    return [Parses(*both) for both in zip(pools, prefix_logps, strict=True)]


def surprisals(
    ops: ModuleType,
    config: Any,
    parameters: dict[str, Array],
    sentences: Sequence[Sequence[int]],
    *,
    beam: int,
    batch_size: int = 4,
) -> Iterator[list[float]]:
    """Yield for every sentence how unexpected each of its words is after those before it, in bits.

    Spec: WS-3. The sums over the hypotheses of `word_level_search`, with its errors.
    """
    for start in _starts(sentences, batch_size):
        chunk = sentences[start : start + batch_size]
        for _, logps in word_level_search(ops, config, parameters, chunk, beam=beam, complete=False):
            yield (np.diff([0.0, *logps]) / -log(2)).tolist()


def sample(
    ops: ModuleType,
    config: Any,
    parameters: dict[str, Array],
    *,
    beam: int,
    seed: int,
    prefix: Sequence[int] = (),
    end: int | None = None,
) -> Iterator[tuple[int, ...]]:
    """Yield the actions of a text after every word that is drawn, until `end` is.

    Spec: WS-4. The words of the prefix are parsed with `beam` hypotheses, and behind every other word one of as many
    is drawn by its probability.

    Raises
    ------
    ValueError
        As `word_level_search`; if the text becomes longer than a context.
    """
    search = _Search(Steps(ops, config, parameters), beam, [prefix] if len(prefix) else [], None)
    pools, t = [[Hypothesis()]], 0
    while end is None or end not in pools[0][0].actions:
        if t == len(prefix):
            search.sentences = None
        pools = search.advance(pools, lambda b, h, t=t: h.n_words > t)
        if t >= len(prefix):
            pool = pools[0]
            shares = np.cumsum([exp(h.logp - _total(pool)) for h in pool])
            u = (mix(seed, t) >> 11) / 2**53
            drawn = pool[min(int((shares <= u).sum()), len(pool) - 1)]
            pools = [[replace(drawn, logp=0.0)]]
            yield drawn.actions
        t += 1


def left_to_right_trees(
    ops: ModuleType,
    config: Any,
    parameters: dict[str, Array],
    sentences: Sequence[Sequence[Sequence[int]]],
    *,
    beam: int = 20,
    sync: bool = True,
    batch_size: int = 16,
) -> Iterator[Spans]:
    """Yield the constituents of two words or more of every sentence's best parse, in the order in which they open.

    Parameters
    ----------
    sentences : of words, of ids
        One word or more, each of one piece or more; no word is split.
    """
    for start in _starts(sentences, batch_size):
        chunk = sentences[start : start + batch_size]
        ids = [[i for pieces in words for i in pieces] for words in chunk]
        begins_word = [[k == 0 for pieces in words for k in range(len(pieces))] for words in chunk]
        found = word_level_search(ops, config, parameters, ids, beam=beam, sync=sync, begins_word=begins_word)
        for parses, begins in zip(found, begins_word, strict=True):
            word = np.cumsum(begins) - 1
            spans = [(int(word[i]), int(word[j])) for i, j in _constituents(parses.hypotheses[0].actions)]
            yield sorted({(i, j) for i, j in spans if i < j}, key=lambda span: (span[0], -span[1]))


def _starts(sentences: Sequence[object], batch_size: int) -> range:
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} is below 1")
    return range(0, len(sentences), batch_size)


def _constituents(actions: Sequence[int]) -> Spans:
    """Return first and last word of what every COMP completes."""
    stack, last, found = list[int](), -1, Spans()
    for action in actions:
        if action >= 0:
            last += 1
            stack.append(last)
        else:
            stack.pop()
            found.append((stack[-1], last))
    return found


def _total(pool: Sequence[Hypothesis]) -> float:
    return float(np.logaddexp.reduce([h.logp for h in pool]))


class _Search:
    """The hypotheses of several sentences, or without sentences of texts of any words."""

    def __init__(
        self, steps: Steps, beam: int, sentences: Sequence[Sequence[int]], begins_word: Sequence[Sequence[bool]] | None
    ) -> None:
        if beam < 1:
            raise ValueError(f"beam: {beam} hypotheses: nothing to search")
        size, longest = steps.config.vocabulary_size, steps.config.n_positions - 1
        for b, sentence in enumerate(sentences):
            if not 0 < len(sentence) <= longest:
                raise ValueError(f"sentence {b}: {len(sentence)} words, not 1 to {longest} as a context may have")
            for n, word in enumerate(sentence):
                if not 0 <= word < size:
                    raise ValueError(f"sentence {b}: word {n} is {word}, outside 0..{size - 1}")
        self.steps, self.beam, self.begins_word = steps, beam, begins_word
        self.sentences: Sequence[Sequence[int]] | None = sentences
        self._kept = 0

    def advance(self, pools: list[list[Hypothesis]], done: Done) -> list[list[Hypothesis]]:
        """Return the best hypotheses that are done: explore the others, pool, rank, until there are no others."""
        while True:
            others = [(b, h) for b, pool in enumerate(pools) for h in pool if not done(b, h)]
            if not others:
                return pools
            longer: list[list[Hypothesis]] = [[] for _ in pools]
            for b, found in self._explore(others):
                longer[b].append(found)
            for b, pool in enumerate(pools):
                if not all(done(b, h) for h in pool):
                    ranked = [*longer[b], *(h for h in pool if done(b, h))]
                    pools[b] = sorted(ranked, key=lambda h: -h.logp)[: self.beam]
                    if not pools[b]:
                        raise ValueError(f"sentence {b}: nothing is possible")
            pools = self._keep(pools)

    def _explore(self, others: Sequence[tuple[int, Hypothesis]]) -> Iterator[tuple[int, Hypothesis]]:
        """Yield what is one action longer, with its sentence: of each COMP first, then words. Nothing impossible."""
        last = [h.actions[-1] if h.actions else START for _, h in others]
        can = np.array([self._can(b, h) for b, h in others])
        states, kinds, hidden = self.steps.read([h.before for _, h in others], last, can[:, 1])
        if self.sentences is None:
            words, logps = self.steps.best_words(hidden, self.beam)
        else:
            own = (self.sentences[b][h.n_words] for (b, h), may in zip(others, can[:, 1].tolist(), strict=True) if may)
            words = np.array(list(own), np.int64)[:, None]
            logps = self.steps.word_logps(hidden, words[:, 0])[:, None] if len(words) else np.zeros((0, 1))
        row = np.cumsum(can[:, 1]) - 1
        for i, ((b, h), state) in enumerate(zip(others, states, strict=True)):
            comp, gen = kinds[i].tolist()
            found = [(COMP, comp)] if can[i, 0] else []
            if can[i, 1]:
                found += zip(words[row[i]].tolist(), (gen + logps[row[i]]).tolist(), strict=True)
            for action, logp in found:
                if not logp <= 1e-6:
                    raise ValueError(f"model: log p {logp} of action {action} behind {h.actions}")
                if logp > -inf:
                    yield b, h.longer(action, logp, state)

    def _can(self, b: int, h: Hypothesis) -> tuple[bool, bool]:
        """Return whether COMP and GEN are possible: without sub-trees that hold words in part and something else."""
        n, inner = h.n_words, len(h.begins) > 1
        if self.sentences is None:
            return inner, True
        more = n < len(self.sentences[b])
        if self.begins_word is None or not n:
            return inner, more
        begins = self.begins_word[b]
        word_ends, whole = not more or begins[n], inner and begins[h.begins[-2]]
        within = inner and not any(begins[h.begins[-2] + 1 : n])
        return inner and (within or (whole and word_ends)), more and (not begins[n] or begins[h.begins[-1]])

    def _keep(self, pools: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Return the hypotheses; what no longer belongs to any of them is forgotten once it is half of all."""
        if self.steps.size <= 2 * self._kept:
            return pools
        states = iter(self.steps.keep([h.before for pool in pools for h in pool]))
        self._kept = self.steps.size
        return [[replace(h, before=next(states)) for h in pool] for pool in pools]
