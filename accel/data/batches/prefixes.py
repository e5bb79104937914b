"""Trees that begin alike as one batch: every different prefix of their actions is one row, whatever goes on from it.

What a model makes of a position depends on nothing after it, so trees that share their first actions share all that is
computed of them. Neither segments nor memories remain: the rows that a position attends to are named one by one, those
that a memory would hold among them. Memory: 8 bytes a pair of positions that may attend, 4 a place in a tree.
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
    """What prefixes must know of a model."""

    n_layers: int
    n_heads: int

    def restricted_heads(self, layer: int) -> int:
        """Return how many heads of a layer, the first ones, follow the STACK/COMPOSE rules."""


Sets = tuple[Array, Array, Array]  # row_offsets [N+1] int64, keys [E] int32, relative [E] int32


@dataclass(frozen=True)
class Prefixes:
    """N prefixes of T trees that something follows, and the A different actions that follow them.

    Attributes
    ----------
    ids : [N] int32
        The last action of each prefix; closing ones come twice where the model reads them twice.
    compose : [N] bool
        The first readings of closing actions.
    restricted, unrestricted : (row_offsets [N+1] int64, keys [E] int32, relative [E] int32) or None
        The rows that each row attends to by the rules of the stack, and by none; None if no head needs it.
    n_distances : int
        More than any relative position that is a distance.
    parents [A] int64, labels [A] int32
        Each action, and the row that it follows.
    trees : [T] int (NumPy)
        Which trees of the corpus these are.
    action_of : [events] int64 (NumPy), offsets : [T+1] int64 (NumPy)
        Which action each event of each tree is.
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
    """Return trees in an order in which those that begin alike are neighbours, and the actions shared with the last."""
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

    A batch has at most `n_actions` different actions, or four times those of the longest tree. Cutting a sentence reads
    one path again, which is to remain a small part.
    """
    if sum(groups) != len(corpus):
        raise ValueError(f"groups of {sum(groups)} trees, but the corpus has {len(corpus)}")
    most = max(n_actions, 4 * int(np.diff(corpus.offsets).max(initial=0)))
    batch: list[int] = []
    shared: list[int] = []
    size = 0
    for end, count in zip(accumulate(groups), groups, strict=True):
        for place, (tree, common) in enumerate(zip(*alike_first(corpus, range(end - count, end)), strict=True)):
            length = 1 + len(corpus[tree])
            known = 1 + common if place and batch else 0  # the start symbol is shared, too
            if batch and size + length - known > most:
                yield _prefixes(corpus, vocabulary, config, ops, batch, shared)
                batch, shared, size, known = [], [], 0, 0
            batch.append(tree)
            shared.append(known)
            size += length - known
    if batch:
        yield _prefixes(corpus, vocabulary, config, ops, batch, shared)


def _prefixes(
    corpus: Corpus, vocabulary: Vocabulary, config: Config, ops: ModuleType, trees: list[int], shared: list[int]
) -> Prefixes:
    """Return the batch of trees of which each shares its first `shared` places with the tree before it."""
    parts = [corpus[tree] for tree in trees]
    ids = np.concatenate([piece for part in parts for piece in ([START_ID], part)]).astype(np.int32)
    offsets = offsets_of([1 + len(part) for part in parts])
    lengths = np.diff(offsets)
    place = _ranges(np.zeros(len(trees), np.int64), lengths)
    new = place >= np.repeat(shared, lengths)
    goes_on = place + 1 < np.repeat(lengths, lengths)

    walk = _walk(config, ops, vocabulary.type_of[ids], offsets)
    read = (new & goes_on)[walk.source]
    row_of = _numbered(read, walk.offsets)
    last_reading = np.searchsorted(walk.source, np.arange(len(ids)), side="right") - 1
    action = place > 0
    here = np.flatnonzero(new & action)
    restricted, unrestricted, n_distances = _sets(config, walk, read, row_of)
    device = ops.xp.asarray
    return Prefixes(
        ids=device(ids[walk.source[read]]),
        compose=device((walk.types == ActionType.CNT1)[read] & (config.model == "tg")),
        restricted=restricted and tuple(map(device, restricted)),
        unrestricted=unrestricted and tuple(map(device, unrestricted)),
        n_distances=n_distances,
        parents=device(row_of[last_reading[here - 1]]),
        labels=device(ids[here]),
        trees=np.array(trees),
        action_of=_numbered(new & action, offsets)[action],
        offsets=offsets - np.arange(len(offsets)),
    )


@dataclass(frozen=True)
class _Walk:
    """How a model reads T trees, P positions in all: segment by segment, with a memory."""

    types: np.ndarray  # [P] int8
    source: np.ndarray  # [P] which place of the trees is read
    offsets: np.ndarray  # [T+1]
    segment_offsets: np.ndarray  # [T+1]
    remembered: np.ndarray  # [segments, M] which position of the tree is in the memory; none if -1
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray] | None  # who attends to which column, by the rules of the stack


def _walk(config: Config, ops: ModuleType, types: np.ndarray, offsets: np.ndarray) -> _Walk:
    length, depth = config.segment_length, config.memory_length
    if config.model != "tg":
        segments = -(-np.diff(offsets) // length)
        first = _ranges(np.zeros(len(segments), np.int64), segments) * length
        return _Walk(types, np.arange(len(types)), offsets, offsets_of(segments), _last_positions(first, depth), None)
    doubled = ops.double_closing(ops.xp.asarray(types), ops.xp.asarray(offsets))
    rest = ops.segments(doubled[0], doubled[2], length, depth, config.memory, config.positions)
    types, source, offsets = (host(x) for x in doubled)
    row_offsets, columns, relative, segment_offsets, moves = (host(x) for x in rest)
    number = _ranges(np.zeros(len(offsets) - 1, np.int64), np.diff(segment_offsets))
    remembered = np.full(moves.shape, -1, np.int64)
    for n in range(1, int(number.max()) + 1):
        here = np.flatnonzero(number == n)
        moved, before = moves[here - 1], remembered[here - 1]
        kept = np.take_along_axis(before, np.clip(moved, 0, max(depth - 1, 0)), axis=1)
        remembered[here] = np.where(moved < depth, np.where(moved < 0, -1, kept), moved - depth + (n - 1) * length)
    return _Walk(types, source, offsets, segment_offsets, remembered, (row_offsets, columns, relative))


def _last_positions(first: np.ndarray, depth: int) -> np.ndarray:
    """Return the last `depth` positions before each segment's first one; -1 before the beginning."""
    return np.maximum(first[:, None] - depth + np.arange(depth), -1)


def _sets(config: Config, walk: _Walk, read: np.ndarray, row_of: np.ndarray) -> tuple[Sets | None, Sets | None, int]:
    """Return the rows that restricted and unrestricted heads attend to, and how many distances there are."""
    length, depth = config.segment_length, config.memory_length
    begin = np.repeat(walk.offsets[:-1], np.diff(walk.offsets))[read]
    place = np.flatnonzero(read) - begin
    segment = np.repeat(walk.segment_offsets[:-1], np.diff(walk.offsets))[read] + place // length
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
        counts = np.diff(row_offsets)[read]
        pairs = _ranges(row_offsets[:-1][read], counts)
        restricted = (offsets_of(counts), rows(columns[pairs], counts), relative_rows(relative[pairs], config))
    if min(heads) < config.n_heads:
        filled = np.count_nonzero(walk.remembered >= 0, axis=1)[segment]
        counts = column - depth + 1 + filled
        columns = _ranges(depth - filled, counts)
        distances = (np.repeat(column, counts) - columns).astype(np.int32)
        unrestricted = (offsets_of(counts), rows(columns, counts), distances)
    return restricted, unrestricted, n_distances


def _numbered(new: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return a number for every place: new ones count up, others have that of the same place in the tree before."""
    lengths = np.diff(offsets)
    here = np.arange(lengths.max()) < lengths[:, None]
    table = np.zeros(here.shape, np.int64)
    table[here] = np.where(new, np.cumsum(new), 0)
    return np.maximum.accumulate(table, axis=0)[here] - 1


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return start, start + 1, ... of every range, one after the other."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
