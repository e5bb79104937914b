"""Beam search for a batch of sources at once, and with it the translation of sentences.

Mirrors `refimpl.transformer.beam_search` (ED-6). The unfinished sequences of all sources are continued together,
one token a step; a source takes part until none of its sequences can still beat the best finished one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.data.files.progress import progress
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.encoder_decoder.model import Config, Past
from accel.search.pools import most_probable

MOST_PENALTY = 10
"""The largest `length_penalty`: for a thousand tokens the divisor of log p is then about 10^22."""
Advance = Callable[[np.ndarray, np.ndarray, np.ndarray], Array]
"""A function that takes the indices that R sequences had in the step before [R], their newest tokens [R], and where the
sequences of each source begin [B+1]. It returns the log-probability of every next token [R, V]."""


def beam_search(
    xp: ModuleType,
    advance: Advance,
    max_lengths: Sequence[int],
    *,
    beam: int = 4,
    length_penalty: float = 0.6,
    start: int = START_ID,
    end: int = END_ID,
) -> list[list[int]]:
    """Return the best sequence of every source, without `end`.

    Parameters
    ----------
    advance : function
        Continues sequences by one token each. The sequences of one source stand together, in the order of the sources.
        In the first step every source has one sequence, whose newest token is `start`.
    max_lengths : sequence of int
        For every source: a sequence with this number of tokens counts as finished.
    beam, length_penalty
        As in the reference.

    Raises
    ------
    ValueError
        If a number is out of range, a log-probability is NaN or above 0, or no sequence of a source is possible.
    """
    if beam < 1 or not 0 <= length_penalty <= MOST_PENALTY or min(max_lengths, default=1) < 1:
        ranges = f"at least 1, 0 to {MOST_PENALTY}, at least 1"
        raise ValueError(f"beam, length_penalty, max_lengths: {beam}, {length_penalty}, {max_lengths}; use {ranges}")
    n, limits = len(max_lengths), np.array(max_lengths, np.int64)
    finished: list[tuple[float, list[int]]] = [(-np.inf, [])] * n
    owners, totals, histories = np.arange(n), np.zeros(n), [[start] for _ in range(n)]
    parents, length = np.arange(n), 0
    while len(owners):
        length += 1
        penalty = ((5 + length) / 6) ** length_penalty
        newest = np.array([history[-1] for history in histories], np.int32)
        logp = advance(parents, newest, np.searchsorted(owners, np.arange(n + 1)).astype(np.int64))
        tokens, longer = _candidates(xp, logp, 2 * beam)
        longer += totals[:, None]
        parents, columns = _best(owners, longer, 2 * beam)
        totals, newest, owners = longer[parents, columns], tokens[parents, columns], owners[parents]
        is_end = newest == end
        for i in np.flatnonzero(is_end | (limits[owners] == length)):
            if totals[i] / penalty > finished[owners[i]][0]:
                last = [] if is_end[i] else [int(newest[i])]
                finished[owners[i]] = float(totals[i] / penalty), [*histories[parents[i]][1:], *last]
        unfinished = np.flatnonzero(~is_end & (limits[owners] > length))
        rank = np.arange(len(unfinished)) - np.searchsorted(owners[unfinished], owners[unfinished])
        # no sequence becomes more probable, and the penalty of none is larger than that of the longest
        reachable = totals / ((5 + limits[owners]) / 6) ** length_penalty
        best = np.array([score for score, _ in finished])[owners]
        alive = unfinished[(rank < beam) & (reachable > best)[unfinished]]
        parents, owners, totals = parents[alive], owners[alive], totals[alive]
        histories = [[*histories[i], int(token)] for i, token in zip(parents, newest[alive], strict=True)]
    for b, (score, _) in enumerate(finished):
        if score == -np.inf:
            raise ValueError(f"source {b}: no sequence is possible")
    return [tokens for _, tokens in finished]


def _candidates(xp: ModuleType, logp: Array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return on the host the most probable tokens of every row [R, count], in rising order, and their logp."""
    if not bool((logp <= 1e-6).all()):
        raise ValueError("advance: a log-probability is NaN or above 0")
    tokens = most_probable(xp, logp, count)
    return host(tokens), host(xp.take_along_axis(logp, tokens, axis=1)).astype(np.float64)


def _best(owners: np.ndarray, totals: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of the `count` best possible candidates of every source, best first."""
    of_source = np.repeat(owners, totals.shape[1])
    order = np.lexsort((-totals.ravel(), of_source))  # equal candidates stay in their order
    order = order[totals.ravel()[order] > -np.inf]
    first = np.searchsorted(of_source[order], of_source[order])
    return np.divmod(order[np.arange(len(order)) - first < count], totals.shape[1])


def length_limit(source: Sequence[int] | np.ndarray, extra_length: int) -> int:
    """Return the most tokens that a target may have, its end symbol included, for a source without its end symbol."""
    return len(source) + 1 + extra_length


def translate(
    ops: ModuleType,
    config: Config,
    parameters: dict[str, Array],
    sources: Sequence[np.ndarray],
    *,
    beam: int = 4,
    length_penalty: float = 0.6,
    extra_length: int = 50,
    batch_size: int = 32,
) -> list[list[int]]:
    """Return the best target for every source, without its end symbol and with no start symbol in it.

    Sources are given without their end symbols. Sources of similar length are translated together, `batch_size` at a
    time. A target of `length_limit` tokens has no end: there the search gave up.
    """
    order = np.argsort([len(source) for source in sources], kind="stable")
    targets: dict[int, list[int]] = {}
    batches = np.array_split(order, -(-len(order) // batch_size)) if len(order) else []
    for numbers in progress(batches, len(batches), "step", label=f"translating {len(order)} sentences"):
        batch = [np.append(sources[i], END_ID).astype(np.int32) for i in numbers]
        offsets = ops.xp.asarray(offsets_of(map(len, batch)))
        ids = ops.xp.asarray(np.concatenate(batch))
        past = Past(*encoder_decoder.encode(ops, config, parameters, ids, offsets))

        def advance(parents: np.ndarray, tokens: np.ndarray, bounds: np.ndarray, past: Past = past) -> Array:
            where = (ops.xp.asarray(x) for x in (parents, tokens, bounds))
            logp = encoder_decoder.continue_sequences(ops, config, parameters, past, *where)
            logp[:, START_ID] = -ops.xp.inf  # no target has it
            return logp

        limits = [length_limit(sources[i], extra_length) for i in numbers]
        best = beam_search(ops.xp, advance, limits, beam=beam, length_penalty=length_penalty)
        targets |= dict(zip(numbers.tolist(), best, strict=True))
    return [targets[i] for i in range(len(sources))]
