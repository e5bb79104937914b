"""The actions of GPST for the word-level search: COMP where there are two sub-trees, then the words of GEN.

Mirrors `refimpl.word_level_search.gpst_actions` (clause WS-1), for many hypotheses of many sentences at once. To a
GPT-2 COMP is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from accel.search.gpst_steps import COMP, State, Steps
from accel.search.pools import Hypothesis, Limits, Step
from accel.trained.opening import Model

Context = Sequence[Sequence[int]]
"""Sentences, each of one word or more."""


class GpstActions:
    """A GPST or a GPT-2 with sentences, or with the beginning of one text; see `accel.search.pools.Actions`."""

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
            if len(sentence) or not more:
                _check("prefix" if more else f"sentence {b}", sentence, model.config, sum(map(len, context)))
        self._steps = Steps(ops, model.config, model.parameters)
        self._sentences, self._begins_word = sentences, begins_word
        self._more, self._end, self._n_drawn = more, end, limits.beam + limits.fast_track

    @property
    def size(self) -> int:
        return self._steps.size

    def keep(self, states: Sequence[State]) -> list[State]:
        return self._steps.keep(states)

    def begin(self) -> list[Hypothesis]:
        return [Hypothesis(before=state, last=action) for state, action in self._steps.after(self._contexts)]

    def stack_after(self, hypothesis: Hypothesis, action: int) -> tuple[int, ...]:
        return hypothesis.stack[:-1] if action == COMP else (*hypothesis.stack, hypothesis.n_words)

    def explore(self, owners: Sequence[int], hypotheses: Sequence[Hypothesis]) -> Step:
        can = np.array([self._can(b, h) for b, h in zip(owners, hypotheses, strict=True)])
        generating = np.flatnonzero(can[:, 1])
        states, type_logps, hidden = self._steps.read(
            [h.before for h in hypotheses], [h.last for h in hypotheses], can[:, 1]
        )
        if self._more and hypotheses[0].n_words >= len(self._sentences[0]):
            words, word_logps = self._steps.best_words(hidden, self._n_drawn)
        else:
            following = [self._sentences[owners[i]][hypotheses[i].n_words] for i in generating.tolist()]
            words = np.array(following, np.int64)[:, None]
            word_logps = self._steps.word_logps(hidden, words[:, 0])[:, None] if len(words) else np.zeros((0, 1))
        actions = np.full((len(hypotheses), 1 + words.shape[1]), COMP)
        actions[generating, 1:] = words
        logps = np.full(actions.shape, -np.inf)
        logps[can[:, 0], 0] = type_logps[can[:, 0], 0]
        logps[generating, 1:] = type_logps[generating, 1:] + word_logps
        last = actions == self._end
        if not self._more:
            n_left = [2 * len(self._sentences[b]) - 1 - len(h.actions) for b, h in zip(owners, hypotheses, strict=True)]
            last |= np.array(n_left)[:, None] == 1
        return Step(states, actions, logps, np.arange(actions.shape[1]) > 0, last)

    def _can(self, b: int, h: Hypothesis) -> tuple[bool, bool]:
        """Return whether COMP and GEN are possible: without sub-trees that hold words in part and something else."""
        n, inner = h.n_words, len(h.stack) > 1
        more = self._more or n < len(self._sentences[b])
        if self._begins_word is None or not n:
            return inner, more
        begins = self._begins_word[b]
        word_ends, whole = not more or begins[n], inner and begins[h.stack[-2]]
        within = inner and not any(begins[h.stack[-2] + 1 : n])
        return inner and (within or (whole and word_ends)), more and (not begins[n] or begins[h.stack[-1]])


def _check(name: str, sentence: Sequence[int], config: Any, n_before: int) -> None:
    """Raise ValueError for a sentence that is empty, has no room after so many words, or one that is unknown."""
    room, place = config.n_positions - 1 - n_before, f" after {n_before}" if n_before else ""
    if not 0 < len(sentence) <= room:
        raise ValueError(f"{name}: {len(sentence)} words, not 1 to {room} as a context may have{place}")
    for n, word in enumerate(sentence):
        if not 0 <= word < config.vocabulary_size:
            raise ValueError(f"{name}: word {n} is {word}, outside 0..{config.vocabulary_size - 1}")
