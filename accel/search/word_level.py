"""Search that compares hypotheses of equally many words, for many sentences at once: parses, surprisals, samples.

Mirrors `refimpl.word_level_search` (clauses WS-2 to WS-4, WS-6, WS-7), with GPST, GPT-2, TG or TXL as its model. In a
step, all hypotheses of all sentences that do not have the next word yet get one more action.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.files.progress import progress
from accel.search.gpst_actions import Context, GpstActions
from accel.search.lists import joined, taken
from accel.search.pools import Actions, Limits, Parses, Pool, Step, bits, draw
from accel.search.tree_actions import TreeActions
from accel.trained.kinds import CONTEXTS, GPST_TREES, LABELLED_TREES, can, require
from accel.trained.opening import Model
from accel.trained.options import check_number


def limits_of(beam: int = 100, word_beam: int | None = None, fast_track: int | None = None, **most: Any) -> Limits:
    """Return the limits of a search by WS-6; by default `word_beam` is a tenth of `beam`, `fast_track` a twentieth."""
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
    """Return the parses of every sentence, as the reference does; no hypotheses and -inf where none is possible.

    Parameters
    ----------
    complete : bool
        False: hypotheses end with their last word, for callers that need the prefixes only.
    sync : bool
        False: the best hypotheses are chosen after every action instead of every word (ablation); no `prefix_logps`.
    begins_word : sequence of sequences of bool, or None
        For a GPST: which tokens begin a word. No constituent then has a part of a word and something outside it.
    contexts : sequence of sequences of sentences, or None
        For a GPST or a GPT-2: the whole sentences before each sentence, read with the trees that they induce.
    ensemble
        For a TG or a TXL: `others` and `ensemble`, as `TreeActions` takes them.

    Raises
    ------
    ValueError
        If the model has no such trees, or does not take an option; if neither `complete` nor `sync` is true; if a
        sentence is empty, too long for the model, or has a word that the model does not know; if a log-probability is
        NaN or above 0.
    """
    if not (complete or sync):
        raise ValueError("complete, sync: with neither there is nothing to search")
    if not can(model, CONTEXTS):
        require(model, LABELLED_TREES)
    elif complete:
        require(model, GPST_TREES)
    special: dict[str, Any] = {"contexts": contexts, "begins_word": begins_word, **ensemble}
    actions, lengths = _actions(ops, model, sentences, limits, **special), np.array([len(x) for x in sentences], int)
    if not len(sentences):
        return []
    search, pool, longest = _Search(actions, limits, len(sentences)), actions.begin(), int(lengths.max())
    prefix_logps, alike = [list[float]() for _ in sentences], list(range(len(sentences)))
    times = range(0 if sync else longest, longest + complete)
    for t in progress(times, len(times), "word", label=f"searching {len(sentences)} sentences"):
        before, alike = alike, _alike(sentences, t, begins_word, contexts)
        pool = pool.copied({b: before[b] for b, first in enumerate(alike) if b == first}, len(sentences))
        last = inf if complete and (limits.one_pool or t == longest) else 0.0  # 0: the sentence waits
        pool = search.advance(pool, np.where(lengths > t, t + 1.0, last))
        totals = pool.totals(len(sentences))
        for b in np.flatnonzero(lengths > t).tolist():
            prefix_logps[b].append(totals[alike[b]])
    hypotheses = pool.hypotheses(len(sentences))
    return [Parses(hypotheses[first], logps) for first, logps in zip(alike, prefix_logps, strict=True)]


def _alike(
    sentences: Sequence[Sequence[int]],
    t: int,
    begins_word: Sequence[Sequence[bool]] | None,
    contexts: Sequence[Context] | None,
) -> list[int]:
    """Return for every sentence the first one with the same words up to word t, after which both end or both go on.

    Both then have the same hypotheses. A sentence after a context is never equal to another.

    >>> _alike([[3, 4, 5], [3, 4], [3, 4, 6], [3, 4]], 1, None, None)
    [0, 1, 0, 1]
    """
    first = dict[object, int]()
    keys = [
        (
            tuple(words[: t + 1]),
            len(words) > t + 1,
            tuple(begins_word[b][: t + 1]) if begins_word else (),
            b if contexts else 0,
        )
        for b, words in enumerate(sentences)
    ]
    return [first.setdefault(key, b) for b, key in enumerate(keys)]


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
    """Yield for every sentence the surprisals of its words, in bits.

    Spec: WS-3, WS-7. They follow from sums over the hypotheses of `word_level_search`, with the same errors, and are
    infinite from the first word on that no hypothesis can reach.
    """
    check_number("batch_size", batch_size)
    _actions(ops, model, sentences, limits, contexts=contexts, **ensemble)  # errors number all sentences, not a chunk's
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

    Spec: WS-4, WS-7. The words of the prefix come first, and are parsed without drawing. For a GPST or a GPT-2 the end
    is the word `end`, and whole sentences may come before the prefix (`context`); other models take neither. Without
    `sync` every action is drawn by itself, among the best of all that may come next.

    Raises
    ------
    ValueError
        As `word_level_search`; if no action is possible, or the text becomes longer than a context.
    """
    contexts = [context] if len(context) else None
    actions = _actions(ops, model, [prefix], limits, more=True, end=end, contexts=contexts)
    search, pool, n_draws = _Search(actions, limits, 1), actions.begin(), 0
    while not pool.complete[0]:
        n_words = int(pool.n_words[0])
        is_drawn = n_words >= len(prefix)
        pool = search.add_action(pool) if is_drawn and not sync else search.advance(pool, np.array([n_words + 1.0]))
        if not pool.size:
            raise ValueError(f"{model.path}: nothing is possible after {n_words} words")
        if is_drawn:
            pool = draw(pool, seed, n_draws + len(prefix))
            n_draws += 1
            if pool.n_words[0] > n_words or pool.complete[0]:
                yield pool.hypotheses(1)[0][0].actions


def _actions(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[int]], limits: Limits, *, more: bool = False,
    end: int | None = None, contexts: Sequence[Context] | None = None,
    begins_word: Sequence[Sequence[bool]] | None = None, **ensemble: Any,
) -> Actions:  # fmt: skip
    """Return the model with its sentences; with `more`, with the beginning of one text, which any words may follow."""
    if can(model, CONTEXTS):
        if ensemble:
            raise ValueError(f"{model.path}: {', '.join(ensemble)}: a GPST or a GPT-2 makes no ensemble")
        return GpstActions(
            ops, model, sentences, limits, more=more, end=end, contexts=contexts, begins_word=begins_word
        )
    if any(option is not None for option in (contexts, begins_word, end)):
        raise ValueError(f"{model.path}: contexts, begins_word, end: are for a GPST or a GPT-2")
    return TreeActions(ops, model, sentences, limits, more=more, **ensemble)


class _Search:
    """Continues the hypotheses of several sentences, all that lack the next word at once."""

    def __init__(self, actions: Actions, limits: Limits, n_sentences: int) -> None:
        self._actions, self._limits, self._n_sentences, self._n_kept = actions, limits, n_sentences, 0

    def advance(self, pool: Pool, targets: np.ndarray) -> Pool:
        """Return the best hypotheses of every sentence that are complete or have `targets` [B] words."""
        limits = self._limits
        is_done = pool.complete | (pool.n_words >= targets[pool.owners])
        results, others = taken(pool, is_done), taken(pool, ~is_done)
        while others.size:
            continued = np.zeros(self._n_sentences, bool)
            continued[others.owners] = True
            rivals = taken(results, continued[results.owners] & limits.one_pool)
            new_results, others = self._continue(others, rivals, targets < inf)
            if limits.one_pool:
                results = joined([taken(results, ~continued[results.owners]), new_results])
            else:
                results = joined([results, new_results])
                full = np.bincount(results.owners, minlength=self._n_sentences) >= limits.beam
                others = taken(others, ~(full | self._settled(results, others))[others.owners])
            results, others = self._forget(results, others)
        return results.best(limits.word_beam or limits.beam)

    def _settled(self, results: Pool, others: Pool) -> np.ndarray:
        """Return whether none of a sentence's `others` can still be among its best hypotheses, bool [B].

        No hypothesis becomes more probable, and of equal hypotheses those in `results` stay.
        """
        count = self._limits.word_beam or self._limits.beam
        best = results.best(count)
        bounds = best.bounds(self._n_sentences)
        most, least = np.full((2, self._n_sentences), -inf)
        np.maximum.at(most, others.owners, others.logps)
        enough = np.flatnonzero(np.diff(bounds) == count)
        least[enough] = best.logps[bounds[enough + 1] - 1]
        settled: np.ndarray = (least >= most) & (least > -inf)
        return settled

    def add_action(self, pool: Pool) -> Pool:
        """Return the best of every sentence's hypotheses after one more action, which counts as a word."""
        results, _ = self._continue(pool, taken(pool, slice(0)), None)
        (results,) = self._forget(results)
        return results.best(self._limits.word_beam or self._limits.beam)

    def _continue(self, pool: Pool, rivals: Pool, words_end: np.ndarray | None) -> tuple[Pool, Pool]:
        """Return the best of every sentence's rivals and hypotheses after one more action: those done, and the others.

        Rivals and complete hypotheses are done. Where `words_end` [B] is true, so are hypotheses with a new word. None:
        all are done.
        """
        step = self._actions.explore(pool)
        _check(pool, step)
        width = step.logps.shape[1]
        scores = np.append(step.logps + pool.logps[:, None], rivals.logps)
        owners = np.append(np.repeat(pool.owners, width), rivals.owners)
        ends = words_end is None or step.words & words_end[pool.owners, None]
        is_done = np.append(step.last | ends, np.ones(rivals.size, bool))
        ranked = np.flatnonzero(scores > -inf)
        ranked = ranked[np.lexsort((-scores[ranked], owners[ranked]))]
        first = np.searchsorted(owners[ranked], owners[ranked])
        is_fast = is_done[ranked]
        is_fast &= _count(is_fast, first) <= self._limits.fast_track
        in_beam = ~is_fast
        in_beam &= _count(in_beam, first) <= self._limits.beam
        best = ranked[is_fast | in_beam]
        is_longer = best < step.logps.size
        longer, waiting = best[is_longer], best[~is_longer] - step.logps.size
        place = np.argsort(np.append(np.flatnonzero(is_longer), np.flatnonzero(~is_longer)))
        rows, columns = np.divmod(longer, width)
        hypotheses = joined([step.after(pool, rows, columns, scores[longer]), taken(rivals, waiting)])
        has_ended = is_done[best]
        return taken(hypotheses, place[has_ended]), taken(hypotheses, place[~has_ended])

    def _forget(self, *pools: Pool) -> Sequence[Pool]:
        """Return the pools; if the rows have doubled since the last deletion, delete the rows that no pool uses."""
        if self._actions.size <= 2 * self._n_kept:
            return pools
        states = self._actions.keep(joined([pool.before for pool in pools]))
        self._n_kept = self._actions.size
        ends = offsets_of([pool.size for pool in pools]).tolist()
        parts = [slice(*bounds) for bounds in pairwise(ends)]
        return [pool._replace(before=taken(states, part)) for pool, part in zip(pools, parts, strict=True)]


def _count(mask: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return how many are true from the first place of the sentence up to and including each place."""
    total = np.cumsum(mask)
    counts: np.ndarray = total - (total - mask)[first]
    return counts


def _check(pool: Pool, step: Step) -> None:
    """Raise ValueError for a number that is no log-probability."""
    if not (step.logps <= 1e-6).all():
        row, column = np.argwhere(~(step.logps <= 1e-6))[0].tolist()
        actions = tuple(pool.actions.values[row, : pool.actions.sizes[row]].tolist())
        action = f"action {step.actions[row, column]} after {actions}"
        raise ValueError(f"model: log p {step.logps[row, column]} of {action}")
