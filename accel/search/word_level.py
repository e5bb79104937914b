"""Search that compares hypotheses of equally many words, for many sentences at once: parses, surprisals, samples.

Mirrors `refimpl.word_level_search` (clauses WS-2 to WS-4, WS-6, WS-7), with GPST, GPT-2, TG or TXL as its model. The
hypotheses of all sentences that lack the next word are continued together, one action a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.files.progress import progress
from accel.search.gpst_actions import Context, GpstActions
from accel.search.pools import Actions, Hypothesis, Limits, Parses, Step, bits, draw, total
from accel.search.tree_actions import TreeActions
from accel.trained.kinds import CONTEXTS, GPST_TREES, LABELLED_TREES, can, require
from accel.trained.opening import Model

Pool = list[Hypothesis]


def limits_of(beam: int = 100, word_beam: int | None = None, fast_track: int | None = None, **most: Any) -> Limits:
    """Return the limits of a search by WS-6; by default a tenth of the beam is kept of a word, a twentieth fast."""
    of_word = max(beam // 10, 1) if word_beam is None else word_beam
    return Limits(beam, of_word, beam // 20 if fast_track is None else fast_track, **most)


def word_level_search(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[int]],
    limits: Limits,
    *,
    complete: bool = True,
    sync: bool = True,
    begins_word: Sequence[Sequence[bool]] | None = None,
    contexts: Sequence[Context] | None = None,
    **ensemble: Any,
) -> list[Parses]:
    """Return what the reference returns for every sentence; where nothing is possible, no hypotheses, and -inf.

    Parameters
    ----------
    complete : bool
        False: hypotheses end with their last word, where prefixes alone are wanted.
    sync : bool
        False: the best are kept after every action, instead of every word (ablation); no prefixes.
    begins_word : sequence of sequences of bool, or None
        Of a GPST: where words of several pieces begin. No constituent then has a part of one and something outside it.
    contexts : sequence of sequences of sentences, or None
        Of a GPST or a GPT-2: the whole sentences before each one, which are read with the trees that they induce.
    ensemble
        Of a TG or a TXL: `others` and `ensemble`, as `TreeActions` takes them.

    Raises
    ------
    ValueError
        If the model has no such trees, a sentence is empty, has more words than there is room for, or one that the
        model does not know, or a log-probability is NaN or above 0.
    """
    if not can(model, CONTEXTS):
        require(model, LABELLED_TREES)
    elif complete:
        require(model, GPST_TREES)
    special: dict[str, Any] = {"contexts": contexts, "begins_word": begins_word, **ensemble}
    search = _Search(_actions(ops, model, sentences, limits, **special), limits)
    lengths = [len(sentence) for sentence in sentences]
    pools, prefix_logps, longest = search.begin(), [list[float]() for _ in sentences], max(lengths, default=0)
    times = range(0 if sync else longest, longest + complete)
    for t in progress(times, len(times), "word", label=f"searching {len(sentences)} sentences"):
        targets: dict[int, float] = {b: t + 1 for b, n in enumerate(lengths) if t < n}
        if complete and (limits.one_pool or t == longest):
            targets = {b: targets.get(b, inf) for b in range(len(lengths))}
        search.advance(pools, targets)
        for b in np.flatnonzero(np.array(lengths) > t).tolist():
            prefix_logps[b].append(total(pools[b]))
    return [Parses(*both) for both in zip(pools, prefix_logps, strict=True)]


def surprisals(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[int]],
    limits: Limits,
    *,
    batch_size: int = 4,
    contexts: Sequence[Context] | None = None,
    **ensemble: Any,
) -> Iterator[list[float]]:
    """Yield for every sentence how unexpected each of its words is after those before it, in bits.

    Spec: WS-3, WS-7. The sums over the hypotheses of `word_level_search`, with its errors. Infinite from the first word
    on that no hypothesis can reach.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} is below 1")
    for start in range(0, len(sentences), batch_size):
        chunk = slice(start, start + batch_size)
        of_chunk = None if contexts is None else contexts[chunk]
        options = {"complete": False, "contexts": of_chunk, **ensemble}
        for _, logps in word_level_search(ops, model, sentences[chunk], limits, **options):
            yield bits(logps)


def sample(
    ops: ModuleType,
    model: Model,
    limits: Limits,
    *,
    seed: int,
    prefix: Sequence[int] = (),
    end: int | None = None,
    context: Context = (),
    sync: bool = True,
) -> Iterator[tuple[int, ...]]:
    """Yield the actions of a text after every word that is drawn, until its root is closed or its end is drawn.

    Spec: WS-4, WS-7. The words of the prefix come first, and are parsed without drawing. Of a GPST or a GPT-2 the end
    is the word `end`, and whole sentences may come before the prefix (`context`). Without `sync` every action is drawn
    by itself, among the best of all that may come next.

    Raises
    ------
    ValueError
        As `word_level_search`; if nothing is possible, or the text becomes longer than a context.
    """
    contexts = [context] if can(model, CONTEXTS) else None
    search = _Search(_actions(ops, model, [prefix], limits, more=True, end=end, contexts=contexts), limits)
    pools, n_draws = search.begin(), 0
    while not pools[0][0].complete:
        n_words = pools[0][0].n_words
        is_drawn = n_words >= len(prefix)
        if is_drawn and not sync:
            search.add_action(pools)
        else:
            search.advance(pools, {0: n_words + 1})
        if not pools[0]:
            raise ValueError(f"{model.path}: nothing is possible after {n_words} words")
        if is_drawn:
            pools[0] = [draw(pools[0], seed, n_draws + len(prefix))]
            n_draws += 1
            if pools[0][0].n_words > n_words or pools[0][0].complete:
                yield pools[0][0].actions


def _actions(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[int]], limits: Limits, *, more: bool = False,
    end: int | None = None, contexts: Sequence[Context] | None = None,
    begins_word: Sequence[Sequence[bool]] | None = None, **ensemble: Any,
) -> Actions:  # fmt: skip
    """Return the model with sentences; `more`: with the beginning of one text, which any words may follow."""
    if can(model, CONTEXTS):
        if ensemble.get("others"):
            raise ValueError(f"{model.path}: a GPST or a GPT-2 makes no ensemble")
        return GpstActions(
            ops, model, sentences, limits, more=more, end=end, contexts=contexts, begins_word=begins_word
        )
    if contexts is not None or begins_word is not None:
        raise ValueError(f"{model.path}: contexts, begins_word: are for a GPST or a GPT-2")
    return TreeActions(ops, model, sentences, limits, more=more, **ensemble)


class _Search:
    """The hypotheses of several sentences: the pool of each is a list, the most probable first."""

    def __init__(self, actions: Actions, limits: Limits) -> None:
        self._actions, self._limits, self._n_kept = actions, limits, 0

    def begin(self) -> list[Pool]:
        return [[hypothesis] for hypothesis in self._actions.begin()]

    def advance(self, pools: list[Pool], targets: Mapping[int, float]) -> None:
        """Set the pool of each of these sentences to its best hypotheses with so many words, or complete ones."""
        limits, done, others = self._limits, dict[int, Pool](), dict[int, Pool]()
        for b, n_words in targets.items():
            done[b] = [h for h in pools[b] if h.complete or h.n_words >= n_words]
            others[b] = [h for h in pools[b] if not (h.complete or h.n_words >= n_words)]
        waiting = [pool for b, pool in enumerate(pools) if b not in targets]
        while others := {b: pool for b, pool in others.items() if pool}:
            rivals = {b: done[b] if limits.one_pool else [] for b in others}
            for b, (ended, unfinished) in self._continue(others, rivals, targets).items():
                done[b] = ended if limits.one_pool else done[b] + ended
                others[b] = unfinished if limits.one_pool or len(done[b]) < limits.beam else []
            self._forget([*done.values(), *others.values(), *waiting])
        for b, pool in done.items():
            pools[b] = sorted(pool, key=lambda h: -h.logp)[: limits.word_beam or limits.beam]

    def add_action(self, pools: list[Pool]) -> None:
        """Set every pool to the best hypotheses that are one action longer, with a word or without."""
        for b, ends in self._continue(dict(enumerate(pools)), {b: [] for b in range(len(pools))}, {}).items():
            pools[b] = sorted(chain(*ends), key=lambda h: -h.logp)
        self._forget(pools)

    def _continue(
        self, others: Mapping[int, Pool], rivals: Mapping[int, Pool], targets: Mapping[int, float]
    ) -> dict[int, tuple[Pool, Pool]]:
        """Return the best of every sentence, one action longer, and of its rivals: done ones, and the others."""
        hypotheses = [h for pool in others.values() for h in pool]
        step = self._actions.explore([b for b, pool in others.items() for _ in pool], hypotheses)
        _check(hypotheses, step)
        first, best = 0, dict[int, tuple[Pool, Pool]]()
        for b, pool in others.items():
            of_sentence = step.of_rows(slice(first, first + len(pool)))
            best[b] = self._best(pool, rivals[b], of_sentence, words_end=targets.get(b, inf) < inf)
            first += len(pool)
        return best

    def _best(self, pool: Pool, rivals: Pool, step: Step, words_end: bool) -> tuple[Pool, Pool]:
        """Return the best of one sentence: those that are done, fast-tracked ones first, and the others."""
        n_longer = step.logps.size
        scores = np.append(step.logps + np.array([[h.logp] for h in pool]), [h.logp for h in rivals])
        done = np.append(step.last | step.words if words_end else step.last, np.ones(len(rivals), bool))
        ranked = np.argsort(-scores, kind="stable")[: int(np.count_nonzero(scores > -inf))]
        is_fast = done[ranked]
        is_fast &= np.cumsum(is_fast) <= self._limits.fast_track
        in_beam = ranked[~is_fast][: self._limits.beam]

        def hypotheses_of(numbers: np.ndarray) -> Pool:
            return [
                rivals[i - n_longer] if i >= n_longer else self._longer(pool, step, i, float(scores[i]))
                for i in numbers.tolist()
            ]

        ended = np.append(ranked[is_fast], in_beam[done[in_beam]])
        return hypotheses_of(ended), hypotheses_of(in_beam[~done[in_beam]])

    def _longer(self, pool: Pool, step: Step, number: int, logp: float) -> Hypothesis:
        """Return the hypothesis of this log p with one more action, the one with this number in the step."""
        row, column = divmod(number, step.actions.shape[1])
        h, action = pool[row], int(step.actions[row, column])
        return Hypothesis(
            logp, (*h.actions, action), h.n_words + bool(step.words[column]), bool(step.last[row, column]),
            self._actions.stack_after(h, action), step.states[row], action,
        )  # fmt: skip

    def _forget(self, pools: Sequence[Pool]) -> None:
        """Forget what no longer belongs to any hypothesis, once it is half of all."""
        if self._actions.size > 2 * self._n_kept:
            states = iter(self._actions.keep([h.before for pool in pools for h in pool]))
            self._n_kept = self._actions.size
            for pool in pools:
                pool[:] = [replace(h, before=next(states)) for h in pool]


def _check(hypotheses: Sequence[Hypothesis], step: Step) -> None:
    """Raise ValueError for a number that is no log-probability."""
    if not (step.logps <= 1e-6).all():
        row, column = np.argwhere(~(step.logps <= 1e-6))[0].tolist()
        action = f"action {step.actions[row, column]} after {hypotheses[row].actions}"
        raise ValueError(f"model: log p {step.logps[row, column]} of {action}")
