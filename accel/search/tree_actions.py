"""The actions of TG and the two TXL for the word-level search: words, labels that open, the label that closes.

Mirrors `refimpl.word_level_search.tree_actions` (clause WS-5), for many hypotheses of many sentences at once. A TXL
(terminals) has no constituents: only words and the end are possible. For a model of documents, every sentence is the
first of a document (MARG-6, point g): the document is open, and the tree is complete when the sentence is.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.search.ensemble_steps import EnsembleSteps, States
from accel.search.lists import lists, taken
from accel.search.pools import Limits, Pool, Step, first_pool, most_probable
from accel.trained.kinds import LABELLED_TREES, can
from accel.trained.opening import Model
from accel.trained.words import before_sentence


class TreeActions:
    """A TG or a TXL with sentences to search, or with the beginning of a text; see `accel.search.pools.Actions`.

    `others` are models of the same vocabulary and the same actions, with which the model forms an ensemble.
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
        self._words = lists([[*sentence, END_ID] for sentence in sentences]).values
        self._lengths = np.array([len(sentence) for sentence in sentences])
        self._limits, self._more, self._xp = limits, more, ops.xp
        self._n_labels, self._first_label = len(model.vocabulary.labels), 2 + len(model.vocabulary.terminals)
        self._begins_word, self._has_trees = model.vocabulary.begins_word, can(model, LABELLED_TREES)
        for b, sentence in enumerate(sentences):
            self._check("prefix" if more else f"sentence {b}", sentence)
        self._opening = [] if more else before_sentence(model)
        self._steps = EnsembleSteps(ops, [model, *others], ensemble)

    @property
    def size(self) -> int:
        return self._steps.size

    def keep(self, states: States) -> States:
        return self._steps.keep(states)

    def begin(self) -> Pool:
        state, logp, last = self._steps.begin(1), 0.0, START_ID
        for action in self._opening:
            state, hidden = self._steps.read(state, np.array([last]))
            logp, last = logp + float(self._steps.logps_of(hidden, np.array([[action]]))[0, 0]), action
        count = len(self._lengths)
        stack = [action - self._first_label for action in self._opening]
        return first_pool(taken(state, np.zeros(count, int)), [last] * count, logp, stack)

    def explore(self, pool: Pool) -> Step:
        states, hidden = self._steps.read(pool.before, pool.last)
        limits, n_labels, n_rows = self._limits, self._n_labels, pool.size
        if self._more and pool.n_words[0] >= self._lengths[0]:
            words, can_generate = self._best_words(pool, self._steps.logps(hidden))
            is_within, more, may_end = np.array([[False]]), np.array([[True]]), np.array([[True]])
        else:
            words, can_generate, is_within, more = self._next_words(pool)
            may_end = ~more
        depth, n_opens = pool.stack.sizes[:, None] - len(self._opening), self._n_opens(pool)
        can_open = more & ~is_within & (depth < limits.max_open) & (n_opens < limits.max_opens) & self._has_trees
        can_close = (depth > 0) & (n_opens == 0) & ~is_within & ((depth > 1) | may_end)
        innermost = np.where(pool.stack.sizes > 0, pool.stack.last(), 0)[:, None]
        opening = np.tile(self._first_label + np.arange(n_labels), (n_rows, 1))
        closing = (self._first_label + n_labels + innermost)[:, :n_labels]  # no column if there are no labels
        actions = np.concatenate([words, opening, closing], axis=1)
        inside = (depth > 0) | (not self._has_trees)
        opens, closes = np.repeat(can_open, n_labels, axis=1), can_close[:, : closing.shape[1]]
        possible = np.concatenate([can_generate & inside, opens, closes], axis=1)
        logps = np.where(possible, self._steps.logps_of(hidden, actions), -np.inf)
        last = actions == END_ID
        last[:, words.shape[1] + n_labels :] = depth == 1
        changes = np.repeat([0, 1, -1], [words.shape[1], n_labels, closing.shape[1]])
        return Step(states, actions, logps, np.arange(actions.shape[1]) < words.shape[1], last, changes,
                    actions - self._first_label)  # fmt: skip

    def _next_words(self, pool: Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the next token, and whether it is possible, whether it continues a word, whether it exists [R, 1]."""
        more = (pool.n_words < self._lengths[pool.owners])[:, None]
        words = self._words[pool.owners, pool.n_words][:, None].astype(np.int64)
        is_within = more & ~self._begins_word[words]
        return words, more & (~is_within | self._follow_word(pool)), is_within, more

    def _best_words(self, pool: Pool, logps: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable of all words [R, W], and whether each is possible [R, W]."""
        xp, first = self._xp, 2 if self._has_trees else END_ID
        terminals = np.arange(first, self._first_label)
        is_drawn = (pool.n_words > self._lengths[0])[:, None]  # the prefix ends with whole words
        follows = self._begins_word[terminals] | (self._follow_word(pool) & is_drawn)
        scores = xp.where(xp.asarray(follows), logps[:, first : self._first_label], -np.inf)
        columns = host(most_probable(xp, scores, self._limits.beam + self._limits.fast_track))
        return terminals[columns], np.take_along_axis(follows, columns, axis=1)

    def _follow_word(self, pool: Pool) -> np.ndarray:
        """Return whether the last action is a terminal [R, 1]."""
        is_terminal: np.ndarray = (pool.last >= 2) & (pool.last < self._first_label)
        return is_terminal[:, None]

    def _n_opens(self, pool: Pool) -> np.ndarray:
        """Return how many of the last actions, without a gap, open a constituent, at most `max_opens` [R, 1]."""
        columns = pool.actions.sizes[:, None] - 1 - np.arange(self._limits.max_opens)
        actions = np.take_along_axis(pool.actions.values, columns.clip(0), axis=1) - self._first_label
        opens = (columns >= 0) & (actions >= 0) & (actions < self._n_labels)
        counts: np.ndarray = opens.cumprod(axis=1).sum(axis=1, keepdims=True)
        return counts

    def _check(self, name: str, sentence: Sequence[int]) -> None:
        """Raise ValueError for a sentence that is empty, has a token that is no terminal, or begins within a word."""
        if not len(sentence) and not self._more:
            raise ValueError(f"{name}: no words")
        for n, word in enumerate(sentence):
            if not 2 <= word < self._first_label:
                raise ValueError(f"{name}: word {n} is {word}, not a terminal, 2 to {self._first_label - 1}")
            if n == 0 and not self._begins_word[word]:
                raise ValueError(f"{name}: word 0 is {word}, not a piece that begins a word")
