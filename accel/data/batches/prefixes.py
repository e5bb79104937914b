"""Trees with common prefixes as one batch: every different prefix of their actions is one row, computed once.

The states of a model at a position do not depend on later positions, so trees that share their first actions share
their states. A batch has neither segments nor memories: it lists the rows that each position attends to, those of the
memory included. Memory: 8 bytes a pair of positions that may attend, 4 a place in a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import ModuleType
from typing import Protocol

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.data.batches import assemble
from accel.data.batches.assemble import relative_rows
from accel.data.corpora.treebank import Corpus
from accel.data.vocabularies.vocabulary import START_ID, Vocabulary
from refimpl.trees import ActionType


class Config(assemble.Config, Protocol):
    """The fields of a model that prefixes depend on."""

    n_layers: int
    n_heads: int

    def restricted_heads(self, layer: int) -> int:
        """Return how many heads of a layer, the first ones, follow the STACK/COMPOSE rules."""


Sets = tuple[Array, Array, Array]  # row_offsets [N+1] int64, keys [E] int32, relative [E] int32


@dataclass(frozen=True)
class Prefixes:
    """N prefixes of T trees, without the whole trees, and the A different actions that follow the prefixes.

    Attributes
    ----------
    ids : [N] int32
        The last action of each prefix; closing actions come twice if the model reads them twice.
    compose : [N] bool
        Whether a position is the first reading of a closing action.
    restricted, unrestricted : (row_offsets [N+1] int64, keys [E] int32, relative [E] int32) or None
        The rows that each row attends to, with the STACK/COMPOSE rules and without; None if no head needs them.
    n_distances : int
        An upper bound of the distances, exclusive.
    parents [A] int64, labels [A] int32
        The row that each action follows, and the action.
    trees : [T] int (NumPy)
        The numbers of the trees in the corpus.
    action_of : [events] int64 (NumPy), offsets : [T+1] int64 (NumPy)
        For each event (an action of a tree), its number among the A actions; and where the events of each tree begin.
    """

    ids: Array
    compose: Array
    restricted: Sets | None
    unrestricted: Sets | None
    n_distances: int
    parents: Array
    labels: Array
    trees: np.ndarray
    action_of: np.ndarray
    offsets: np.ndarray


def alike_first(corpus: Corpus, trees: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the trees ordered by their actions, and the number of actions that each shares with the tree before it."""
    order = sorted(trees, key=lambda tree: corpus[tree].tobytes())
    return order, [0, *(_n_shared(corpus[a], corpus[b]) for a, b in zip(order, order[1:], strict=False))][: len(order)]


def _n_shared(a: np.ndarray, b: np.ndarray) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length


def read_prefixes(
    corpus: Corpus,
    vocabulary: Vocabulary,
    config: Config,
    ops: ModuleType,
    groups: Sequence[int],
    *,
    n_actions: int = 8192,
) -> Iterator[Prefixes]:
    """Yield batches of the trees, sentence by sentence: `groups` says how many trees each sentence has.

    A batch has at most `n_actions` different actions, or four times the actions of the longest tree if that is more. A
    sentence may be cut between two batches: the second one reads the shared prefix again. The limit keeps that part
    small.
    """
    if sum(groups) != len(corpus):
        raise ValueError(f"groups of {sum(groups)} trees, but the corpus has {len(corpus)}")
    max_actions = max(n_actions, 4 * int(np.diff(corpus.offsets).max(initial=0)))
    batch: list[int] = []
    shared: list[int] = []
    size = 0
    for end, count in zip(accumulate(groups), groups, strict=True):
        for place, (tree, common) in enumerate(zip(*alike_first(corpus, range(end - count, end)), strict=True)):
            length = 1 + len(corpus[tree])
            n_shared = 1 + common if place and batch else 0  # the start symbol is shared, too
            if batch and size + length - n_shared > max_actions:
                yield _prefixes(corpus, vocabulary, config, ops, batch, shared)
                batch, shared, size, n_shared = [], [], 0, 0
            batch.append(tree)
            shared.append(n_shared)
            size += length - n_shared
    if batch:
        yield _prefixes(corpus, vocabulary, config, ops, batch, shared)


def _prefixes(
    corpus: Corpus, vocabulary: Vocabulary, config: Config, ops: ModuleType, trees: list[int], shared: list[int]
) -> Prefixes:
    """Return the batch of trees; each shares its first `shared` places with the tree before it."""
    parts = [corpus[tree] for tree in trees]
    ids = np.concatenate([piece for part in parts for piece in ([START_ID], part)]).astype(np.int32)
    offsets = offsets_of([1 + len(part) for part in parts])
    lengths = np.diff(offsets)
    place = _ranges(np.zeros(len(trees), np.int64), lengths)
    is_new = place >= np.repeat(shared, lengths)
    has_next = place + 1 < np.repeat(lengths, lengths)

    walk = _walk(config, ops, vocabulary.type_of[ids], offsets)
    is_read = (is_new & has_next)[walk.source]
    row_of = _numbered(is_read, walk.offsets)
    last_reading = np.searchsorted(walk.source, np.arange(len(ids)), side="right") - 1
    is_action = place > 0
    new_actions = np.flatnonzero(is_new & is_action)
    restricted, unrestricted, n_distances = _sets(config, walk, is_read, row_of)
    device = ops.xp.asarray
    return Prefixes(
        ids=device(ids[walk.source[is_read]]),
        compose=device((walk.types == ActionType.CNT1)[is_read] & (config.model == "tg")),
        restricted=restricted and tuple(map(device, restricted)),
        unrestricted=unrestricted and tuple(map(device, unrestricted)),
        n_distances=n_distances,
        parents=device(row_of[last_reading[new_actions - 1]]),
        labels=device(ids[new_actions]),
        trees=np.array(trees),
        action_of=_numbered(is_new & is_action, offsets)[is_action],
        offsets=offsets - np.arange(len(offsets)),
    )


@dataclass(frozen=True)
class _Walk:
    """The positions of T trees, P in all, as a model reads them: segment by segment, with a memory."""

    types: np.ndarray  # [P] int8
    source: np.ndarray  # [P] the place, in all trees, that is read at each position
    offsets: np.ndarray  # [T+1]
    segment_offsets: np.ndarray  # [T+1]
    remembered: np.ndarray  # [segments, M] the position of the tree in each slot of the memory; -1: none
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray] | None  # columns that positions attend to, by STACK/COMPOSE


def _walk(config: Config, ops: ModuleType, types: np.ndarray, offsets: np.ndarray) -> _Walk:
    length, depth = config.segment_length, config.memory_length
    if config.model != "tg":
        segments = -(-np.diff(offsets) // length)
        segment_starts = _ranges(np.zeros(len(segments), np.int64), segments) * length
        return _Walk(
            types, np.arange(len(types)), offsets, offsets_of(segments), _last_positions(segment_starts, depth), None
        )
    doubled = ops.double_closing(ops.xp.asarray(types), ops.xp.asarray(offsets))
    structure = ops.segments(doubled[0], doubled[2], length, depth, config.memory, config.positions)
    types, source, offsets = (host(x) for x in doubled)
    row_offsets, pair_columns, relative, segment_offsets, memories = (host(x) for x in structure)
    number = _ranges(np.zeros(len(offsets) - 1, np.int64), np.diff(segment_offsets))
    remembered = np.full(memories.shape, -1, np.int64)
    for n in range(1, int(number.max()) + 1):
        segments = np.flatnonzero(number == n)
        columns, earlier = memories[segments - 1], remembered[segments - 1]
        old_positions = np.take_along_axis(earlier, np.clip(columns, 0, max(depth - 1, 0)), axis=1)
        remembered[segments] = np.where(
            columns < depth, np.where(columns < 0, -1, old_positions), columns - depth + (n - 1) * length
        )
    return _Walk(types, source, offsets, segment_offsets, remembered, (row_offsets, pair_columns, relative))


def _last_positions(segment_starts: np.ndarray, depth: int) -> np.ndarray:
    """Return the last `depth` positions before each segment's first one; -1 before the beginning."""
    return np.maximum(segment_starts[:, None] - depth + np.arange(depth), -1)


def _sets(config: Config, walk: _Walk, is_read: np.ndarray, row_of: np.ndarray) -> tuple[Sets | None, Sets | None, int]:
    """Return the rows that restricted and unrestricted heads attend to, and how many distances there are."""
    length, depth = config.segment_length, config.memory_length
    begin = np.repeat(walk.offsets[:-1], np.diff(walk.offsets))[is_read]
    place = np.flatnonzero(is_read) - begin
    segment = np.repeat(walk.segment_offsets[:-1], np.diff(walk.offsets))[is_read] + place // length
    column = depth + place % length  # of each position itself
    restricted = unrestricted = None
    n_distances = 1 + int(column.max(initial=0))

    def rows(columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
        position = columns + np.repeat(place - column, counts)
        remembered = np.flatnonzero(columns < depth)
        position[remembered] = walk.remembered[np.repeat(segment, counts)[remembered], columns[remembered]]
        return row_of[position + np.repeat(begin, counts)].astype(np.int32)

    heads = [config.restricted_heads(layer) for layer in range(config.n_layers)]
    if any(heads) and walk.pairs:
        row_offsets, columns, relative = walk.pairs
        counts = np.diff(row_offsets)[is_read]
        pairs = _ranges(row_offsets[:-1][is_read], counts)
        restricted = (offsets_of(counts), rows(columns[pairs], counts), relative_rows(relative[pairs], config))
    if min(heads) < config.n_heads:
        filled = np.count_nonzero(walk.remembered >= 0, axis=1)[segment]
        counts = column - depth + 1 + filled
        columns = _ranges(depth - filled, counts)
        distances = (np.repeat(column, counts) - columns).astype(np.int32)
        unrestricted = (offsets_of(counts), rows(columns, counts), distances)
    return restricted, unrestricted, n_distances


def _numbered(is_new: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return a number for every place: new places count up, others have the number of that place in the tree before."""
    lengths = np.diff(offsets)
    in_tree = np.arange(lengths.max()) < lengths[:, None]
    table = np.zeros(in_tree.shape, np.int64)
    table[in_tree] = np.where(is_new, np.cumsum(is_new), 0)
    return np.maximum.accumulate(table, axis=0)[in_tree] - 1


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return start, start + 1, ... of every range, one after the other."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
