"""The actions of GPST for the word-level search: COMP where there are two sub-trees, then the words of GEN.

Mirrors `refimpl.word_level_search.gpst_actions` (clause WS-1), for many hypotheses of many sentences at once. For a
GPT-2, COMP is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from accel.search.gpst_steps import COMP, State, Steps
from accel.search.lists import lists
from accel.search.pools import Limits, Pool, Step, first_pool
from accel.trained.opening import Model

Context = Sequence[Sequence[int]]
"""Sentences, each of one word or more."""


class GpstActions:
    """A GPST or a GPT-2 with sentences to search, or with the beginning of a text; see `accel.search.pools.Actions`."""

    def __init__(
        self, ops: ModuleType, model: Model, sentences: Sequence[Sequence[int]], limits: Limits, *, more: bool,
        end: int | None, contexts: Sequence[Context] | None, begins_word: Sequence[Sequence[bool]] | None,
    ) -> None:  # fmt: skip
        self._contexts = [()] * len(sentences) if contexts is None else contexts
        if len(self._contexts) != len(sentences):
            raise ValueError(f"contexts: {len(self._contexts)} for {len(sentences)} sentences")
        for b, (context, sentence) in enumerate(zip(self._contexts, sentences, strict=True)):
            for k, earlier in enumerate(context):
                _check(f"context {b}, sentence {k}", earlier, model.config, 0)
            name = "prefix" if more else f"sentence {b}"
            if len(sentence) or not more:
                _check(name, sentence, model.config, sum(map(len, context)))
            if end in sentence:
                raise ValueError(f"{name}: holds word {end}, the end of a text")
        self._steps = Steps(ops, model.config, model.parameters)
        self._words, self._begins_word = lists([[*sentence, 0] for sentence in sentences]).values, begins_word
        self._lengths = np.array([len(sentence) for sentence in sentences])
        if begins_word is not None:
            self._begins = lists([[*begins, 1] for begins in begins_word]).values > 0
            self._n_begins = np.cumsum(self._begins, axis=1)
        self._more, self._end, self._n_drawn = more, end, limits.beam + limits.fast_track

    @property
    def size(self) -> int:
        return self._steps.size

    def keep(self, states: State) -> State:
        return self._steps.keep(states)

    def begin(self) -> Pool:
        return first_pool(*self._steps.after(self._contexts))

    def explore(self, pool: Pool) -> Step:
        can_comp, can_generate = self._can(pool)
        states, type_logps, hidden = self._steps.read(pool.before, pool.last, can_generate)
        if self._more and pool.n_words[0] >= self._lengths[0]:
            words, word_logps = self._steps.best_words(hidden, self._n_drawn)
        else:
            words = self._words[pool.owners, pool.n_words][can_generate][:, None]
            word_logps = self._steps.word_logps(hidden, words[:, 0])[:, None] if len(words) else np.zeros((0, 1))
        actions = np.full((pool.size, 1 + words.shape[1]), COMP)
        actions[can_generate, 1:] = words
        logps = np.full(actions.shape, -np.inf)
        logps[can_comp, 0] = type_logps[can_comp, 0]
        logps[can_generate, 1:] = type_logps[can_generate, 1:] + word_logps
        last = np.zeros(actions.shape, bool) if self._end is None else actions == self._end
        if not self._more:
            last |= (2 * self._lengths[pool.owners] - pool.actions.sizes == 2)[:, None]
        is_word = np.arange(actions.shape[1]) > 0
        pushed = np.broadcast_to(pool.n_words[:, None], actions.shape)
        return Step(states, actions, logps, is_word, last, np.where(is_word, 1, -1), pushed)

    def _can(self, pool: Pool) -> tuple[np.ndarray, np.ndarray]:
        """Return where COMP and GEN are possible: no sub-tree may hold a part of a word and something outside it."""
        b, n, inner = pool.owners, pool.n_words, pool.stack.sizes > 1
        more = (n < self._lengths[b]) | self._more
        if self._begins_word is None:
            return inner, more
        left, right = pool.stack.last(2), pool.stack.last()
        word_ends = self._begins[b, n]
        within = self._n_begins[b, n] - word_ends == self._n_begins[b, left]
        can_comp = inner & (within | (self._begins[b, left] & word_ends))
        return can_comp, more & (~word_ends | (n == 0) | self._begins[b, right])


def _check(name: str, sentence: Sequence[int], config: Any, n_before: int) -> None:
    """Raise ValueError for a sentence that is empty, does not fit after `n_before` words, or has an unknown word."""
    room, place = config.n_positions - 1 - n_before, f" after {n_before} words" if n_before else ""
    if not 0 < len(sentence) <= room:
        raise ValueError(f"{name}: {len(sentence)} words, but a context has room for 1 to {room}{place}")
    for n, word in enumerate(sentence):
        if not 0 <= word < config.vocabulary_size:
            raise ValueError(f"{name}: word {n} is {word}, outside 0..{config.vocabulary_size - 1}")
