"""The actions of TG and the two TXL for the word-level search: words, labels that open, the label that closes.

Mirrors `refimpl.word_level_search.tree_actions` (clause WS-5), for many hypotheses of many sentences at once. A TXL
(terminals) has no constituents: words alone are possible, and the end. Of a model of documents a sentence is the first
of one (MARG-6, point g): the document is open, and the tree is complete when the sentence is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.search.ensemble_steps import EnsembleSteps, States
from accel.search.pools import Hypothesis, Limits, Step, most_probable
from accel.trained.kinds import LABELLED_TREES, can
from accel.trained.opening import Model
from accel.trained.words import before_sentence


class TreeActions:
    """A TG or a TXL with sentences, or with the beginning of one text; see `accel.search.pools.Actions`.

    `others` are models of the same vocabulary and the same actions, with which it makes an ensemble.
    """

    def __init__(
        self,
        ops: ModuleType,
        model: Model,
        sentences: Sequence[Sequence[int]],
        limits: Limits,
        *,
        more: bool,
        others: Sequence[Model] = (),
        ensemble: str = "mixture",
    ) -> None:
        self._sentences, self._limits, self._more, self._xp = sentences, limits, more, ops.xp
        self._n_labels, self._first_label = len(model.vocabulary.labels), 2 + len(model.vocabulary.terminals)
        for b, sentence in enumerate(sentences):
            self._check("prefix" if more else f"sentence {b}", sentence)
        self._opening = [] if more else before_sentence(model)
        self._begins_word, self._has_trees = model.vocabulary.begins_word, can(model, LABELLED_TREES)
        self._steps = EnsembleSteps(ops, [model, *others], ensemble)

    @property
    def size(self) -> int:
        return self._steps.size

    def keep(self, states: Sequence[States]) -> list[States]:
        return self._steps.keep(states)

    def begin(self) -> list[Hypothesis]:
        first = Hypothesis(before=self._steps.begin(), last=START_ID)
        for action in self._opening:
            (before,), hidden = self._steps.read([first.before], [first.last])
            logp = float(host(self._steps.logps(hidden))[0, action])
            stack = self.stack_after(first, action)
            first = replace(first, logp=first.logp + logp, before=before, last=action, stack=stack)
        return [first] * len(self._sentences)

    def stack_after(self, hypothesis: Hypothesis, action: int) -> tuple[int, ...]:
        label = action - self._first_label
        if label < 0:
            return hypothesis.stack
        return (*hypothesis.stack, label) if label < self._n_labels else hypothesis.stack[:-1]

    def explore(self, owners: Sequence[int], hypotheses: Sequence[Hypothesis]) -> Step:
        states, hidden = self._steps.read([h.before for h in hypotheses], [h.last for h in hypotheses])
        all_logps = self._steps.logps(hidden)
        rests = [self._sentences[b][h.n_words :] for b, h in zip(owners, hypotheses, strict=True)]
        if self._more and not len(rests[0]):
            words, can_generate = self._best_words(hypotheses, all_logps)
            is_within, more, may_end = np.array([[False]]), np.array([[True]]), np.array([[True]])
        else:
            words, can_generate, is_within, more = self._next_words(rests, hypotheses)
            may_end = ~more
        limits, n_labels, n_rows = self._limits, self._n_labels, len(hypotheses)
        depth = _column(len(h.stack) - len(self._opening) for h in hypotheses)
        n_opens = _column(map(self._n_opens, hypotheses))
        can_open = more & ~is_within & (depth < limits.max_open) & (n_opens < limits.max_opens) & self._has_trees
        can_close = (depth > 0) & (n_opens == 0) & ~is_within & ((depth > 1) | may_end)
        innermost = _column(h.stack[-1] if h.stack else 0 for h in hypotheses)
        opening = np.tile(self._first_label + np.arange(n_labels), (n_rows, 1))
        closing = (self._first_label + n_labels + innermost)[:, :n_labels]  # no column if there are no labels
        actions = np.concatenate([words, opening, closing], axis=1)
        inside = (depth > 0) | (not self._has_trees)
        opens, closes = np.repeat(can_open, n_labels, axis=1), can_close[:, : closing.shape[1]]
        possible = np.concatenate([can_generate & inside, opens, closes], axis=1)
        chosen_logps = host(self._xp.take_along_axis(all_logps, self._xp.asarray(actions), axis=1)).astype(np.float64)
        last = actions == END_ID
        last[:, words.shape[1] + n_labels :] = depth == 1
        is_word = np.arange(actions.shape[1]) < words.shape[1]
        return Step(states, actions, np.where(possible, chosen_logps, -np.inf), is_word, last)

    def _next_words(
        self, rests: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the next word, and whether it is possible, it continues a word, and there is one [R, 1]."""
        more = _column(len(rest) > 0 for rest in rests)
        words = _column(rest[0] if len(rest) else END_ID for rest in rests)
        is_within = more & ~self._begins_word[words]
        return words, more & (~is_within | self._follow_word(hypotheses)), is_within, more

    def _best_words(self, hypotheses: Sequence[Hypothesis], logps: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable words of any, and whether they are possible [R, W]."""
        xp, first = self._xp, 2 if self._has_trees else END_ID
        terminals = np.arange(first, self._first_label)
        is_drawn = _column(h.n_words > len(self._sentences[0]) for h in hypotheses)  # the prefix ends with whole words
        follows = self._begins_word[terminals] | (self._follow_word(hypotheses) & is_drawn)
        scores = xp.where(xp.asarray(follows), logps[:, first : self._first_label], -np.inf)
        columns = host(most_probable(xp, scores, self._limits.beam + self._limits.fast_track))
        return terminals[columns], np.take_along_axis(follows, columns, axis=1)

    def _follow_word(self, hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        """Return whether the last action is a terminal [R, 1]."""
        return _column(2 <= h.last < self._first_label for h in hypotheses)

    def _n_opens(self, hypothesis: Hypothesis) -> int:
        """Return how many of the last actions open a constituent."""
        n, labels = 0, range(self._first_label, self._first_label + self._n_labels)
        for action in reversed(hypothesis.actions):
            if action not in labels:
                break
            n += 1
        return n

    def _check(self, name: str, sentence: Sequence[int]) -> None:
        """Raise ValueError for a sentence that is empty or holds what is no terminal."""
        if not len(sentence) and not self._more:
            raise ValueError(f"{name}: no words")
        for n, word in enumerate(sentence):
            if not 2 <= word < self._first_label:
                raise ValueError(f"{name}: word {n} is {word}, not a terminal, 2 to {self._first_label - 1}")


def _column(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values))[:, None]
