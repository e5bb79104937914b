"""Search that compares hypotheses of equally many words, for many sentences at once: parses, surprisals, samples.

Mirrors `refimpl.word_level_search` (clauses WS-1 to WS-4) with GPST as its model. The hypotheses of all sentences that
lack the next word are continued together, one action a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array
from accel.search.gpst_steps import COMP, START, State, Steps
from accel.search.pools import Parses, best, bits, draw, total

Context = Sequence[Sequence[int]]
"""Sentences, each of one word or more."""


@dataclass(frozen=True)
class Hypothesis:
    """A parse, or the beginning of one. Spec: WS-1."""

    logp: float = 0.0  # of all its actions, nats
    actions: tuple[int, ...] = ()  # a word for GEN, -1 for COMP
    n_words: int = 0
    begins: tuple[int, ...] = ()  # the first word of every sub-tree on the stack
    before: State = field(default=State(), compare=False)  # its last action, which is read when it is explored
    last: int = field(default=START, compare=False)

    def longer(self, action: int, logp: float, state: State) -> Hypothesis:
        """Return it with one more action."""
        gen = action >= 0
        begins = (*self.begins, self.n_words) if gen else self.begins[:-1]
        return Hypothesis(self.logp + logp, (*self.actions, action), self.n_words + gen, begins, state, action)


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
    contexts: Sequence[Context] | None = None,
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
    contexts : sequence of sequences of sentences, or None
        The whole sentences before each one, which are read with the trees that they induce.

    Raises
    ------
    ValueError
        If the beam is below 1, a sentence is empty, has more words than there is room for, or one that the model does
        not know, a log-probability is NaN or above 0, or nothing is possible.
    """
    if complete and config.model != "gpst":
        raise ValueError(f"model: {config.model} has no trees")
    if contexts is not None and len(contexts) != len(sentences):
        raise ValueError(f"contexts: {len(contexts)} for {len(sentences)} sentences")
    search = _Search(Steps(ops, config, parameters), beam, sentences, contexts, begins_word)
    lengths, prefix_logps = [len(sentence) for sentence in sentences], [list[float]() for _ in sentences]
    pools = search.begin()
    for t in range(0 if sync else max(lengths, default=0), max(lengths, default=0) + complete):

        def done(b: int, h: Hypothesis, t: int = t) -> bool:
            """Return whether word t is there, or where there is no such word the parse is complete."""
            return h.n_words > t if t < lengths[b] else not complete or len(h.actions) == 2 * lengths[b] - 1

        pools = search.advance(pools, done)
        for b in np.flatnonzero(np.array(lengths) > t).tolist():
            prefix_logps[b].append(total(pools[b]))
    return [Parses(*both) for both in zip(pools, prefix_logps, strict=True)]


def surprisals(
    ops: ModuleType,
    config: Any,
    parameters: dict[str, Array],
    sentences: Sequence[Sequence[int]],
    *,
    beam: int,
    batch_size: int = 4,
    contexts: Sequence[Context] | None = None,
) -> Iterator[list[float]]:
    """Yield for every sentence how unexpected each of its words is after those before it, in bits.

    Spec: WS-3. The sums over the hypotheses of `word_level_search`, with its errors.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} is below 1")
    for start in range(0, len(sentences), batch_size):
        chunk = slice(start, start + batch_size)
        before = None if contexts is None else contexts[chunk]
        held = ops, config, parameters, sentences[chunk]
        for _, logps in word_level_search(*held, beam=beam, complete=False, contexts=before):
            yield bits(logps)


def sample(
    ops: ModuleType,
    config: Any,
    parameters: dict[str, Array],
    *,
    beam: int,
    seed: int,
    prefix: Sequence[int] = (),
    end: int | None = None,
    context: Context = (),
) -> Iterator[tuple[int, ...]]:
    """Yield the actions of a text after every word that is drawn, until `end` is.

    Spec: WS-4. The words of the prefix are parsed with `beam` hypotheses, and behind every other word one of as many
    is drawn by its probability. The context is of whole sentences before the prefix.

    Raises
    ------
    ValueError
        As `word_level_search`; if the text becomes longer than a context.
    """
    search = _Search(Steps(ops, config, parameters), beam, [prefix] if len(prefix) else [], [context], None)
    pools, t = search.begin(), 0
    while end is None or end not in pools[0][0].actions:
        if t == len(prefix):
            search.sentences = None
        pools = search.advance(pools, lambda b, h, t=t: h.n_words > t)
        if t >= len(prefix):
            drawn = draw(pools[0], seed, t)
            pools = [[drawn]]
            yield drawn.actions
        t += 1


def _check(name: str, sentence: Sequence[int], config: Any, before: int) -> None:
    """Raise ValueError for a sentence that is empty, has no room behind so many words, or one that is unknown."""
    room, place = config.n_positions - 1 - before, f" behind {before}" if before else ""
    if not 0 < len(sentence) <= room:
        raise ValueError(f"{name}: {len(sentence)} words, not 1 to {room} as a context may have{place}")
    for n, word in enumerate(sentence):
        if not 0 <= word < config.vocabulary_size:
            raise ValueError(f"{name}: word {n} is {word}, outside 0..{config.vocabulary_size - 1}")


class _Search:
    """The hypotheses of several sentences, or without sentences of texts of any words."""

    def __init__(
        self, steps: Steps, beam: int, sentences: Sequence[Sequence[int]], contexts: Sequence[Context] | None,
        begins_word: Sequence[Sequence[bool]] | None,
    ) -> None:  # fmt: skip
        if beam < 1:
            raise ValueError(f"beam: {beam} hypotheses: nothing to search")
        self.contexts = [()] * len(sentences) if contexts is None else contexts
        for b, context in enumerate(self.contexts):
            for k, before in enumerate(context):
                _check(f"context {b}, sentence {k}", before, steps.config, 0)
            for sentence in sentences[b : b + 1]:
                _check(f"sentence {b}", sentence, steps.config, sum(map(len, context)))
        self.steps, self.beam, self.begins_word = steps, beam, begins_word
        self.sentences: Sequence[Sequence[int]] | None = sentences
        self._kept = 0

    def begin(self) -> list[list[Hypothesis]]:
        """Return what there is of every sentence before its first action."""
        return [[Hypothesis(before=state, last=action)] for state, action in self.steps.after(self.contexts)]

    def advance(self, pools: list[list[Hypothesis]], done: Done) -> list[list[Hypothesis]]:
        """Return the best hypotheses that are done: explore the others, pool, rank, until there are no others."""
        while True:
            others = [(b, h) for b, pool in enumerate(pools) for h in pool if not done(b, h)]
            if not others:
                return pools
            longer: list[list[Hypothesis]] = [[] for _ in pools]
            for b, hypothesis in self._explore(others):
                longer[b].append(hypothesis)
            for b, pool in enumerate(pools):
                if not all(done(b, h) for h in pool):
                    ranked = [*longer[b], *(h for h in pool if done(b, h))]
                    pools[b] = best(ranked, self.beam)
                    if not pools[b]:
                        raise ValueError(f"sentence {b}: nothing is possible")
            pools = self._keep(pools)

    def _explore(self, others: Sequence[tuple[int, Hypothesis]]) -> Iterator[tuple[int, Hypothesis]]:
        """Yield what is one action longer, with its sentence: of each COMP first, then words. Nothing impossible."""
        can = np.array([self._can(b, h) for b, h in others])
        read = [h.before for _, h in others], [h.last for _, h in others]
        states, action_logps, hidden = self.steps.read(*read, can[:, 1])
        if self.sentences is None:
            words, logps = self.steps.best_words(hidden, self.beam)
        else:
            following = [
                self.sentences[b][h.n_words] for (b, h), may in zip(others, can[:, 1].tolist(), strict=True) if may
            ]
            words = np.array(following, np.int64)[:, None]
            logps = self.steps.word_logps(hidden, words[:, 0])[:, None] if len(words) else np.zeros((0, 1))
        row = np.cumsum(can[:, 1]) - 1
        for i, ((b, h), state) in enumerate(zip(others, states, strict=True)):
            comp, gen = action_logps[i].tolist()
            actions = [(COMP, comp)] if can[i, 0] else []
            if can[i, 1]:
                actions += zip(words[row[i]].tolist(), (gen + logps[row[i]]).tolist(), strict=True)
            for action, logp in actions:
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
