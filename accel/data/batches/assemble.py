"""One batch without padding: segments of several trees joined, with the structure that a model reads.

Positions, keys and allowed pairs of all rows are concatenated; nothing is as wide as the longest row.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Protocol

import numpy as np

from accel.autodiff.arrays import Array, host, joined, offsets_of, on_device
from accel.data.corpora.treebank import Corpus
from accel.data.vocabularies.vocabulary import END_ID, START_ID, Vocabulary
from refimpl.trees import ActionType


class Config(Protocol):
    """The fields of a model that a batch depends on."""

    model: str
    vocabulary_size: int
    segment_length: int
    memory_length: int
    memory: str
    positions: str
    relative_min: int
    relative_max: int

    @property
    def reads_distances(self) -> bool: ...


@dataclass(frozen=True)
class Batch:
    """One segment of each of B rows, concatenated: N positions, S keys, E allowed pairs.

    Attributes
    ----------
    ids, labels : [N] int32
        The action at each position, and the next action; -1 where none is predicted.
    compose : [N] bool
        Positions of type CNT1.
    query_offsets, key_offsets : [B+1] int64
        Where each row's positions begin, and where its keys begin: the keys are its memory, then its positions.
    row_offsets : [N+1] int64;  keys, relative : [E] int32
        The keys that a position may attend to, and their rows in the table of relative positions; None for a
        Transformer-XL.
    key_order : [S] int64
        The place of each key in the memories of all rows followed by all positions; None if no row has a memory.
    next_memory : [S'] int64
        The keys that are the memory of the next batch.
    trees, segment : [B] int32 (NumPy)
        The tree that a row reads, and which segment of it.
    n_labels, n_tokens : int
        The number of positions with a label, and of all positions but the padding.
    """

    ids: Array
    labels: Array
    compose: Array
    query_offsets: Array
    key_offsets: Array
    row_offsets: Array | None
    keys: Array | None
    relative: Array | None
    key_order: Array | None
    next_memory: Array
    trees: np.ndarray
    segment: np.ndarray
    n_labels: int
    n_tokens: int

    @property
    def n_memory(self) -> int:
        """The rows of the memory that the batch reads, in each layer."""
        return 0 if self.key_order is None else len(self.key_order) - len(self.ids)


@dataclass(frozen=True)
class Encoded:
    """The sequence of one tree for a model; only a Transformer Grammar has the last four fields."""

    ids: np.ndarray  # [n] int32
    labels: np.ndarray  # [n] int32
    types: np.ndarray  # [n] int8
    row_offsets: np.ndarray | None = None  # [n+1] int64, into columns and relative
    columns: np.ndarray | None = None
    relative: np.ndarray | None = None
    memory_columns: np.ndarray | None = None  # [n_segments, M]


def sequence_lengths(corpus: Corpus, model: str) -> np.ndarray:
    """Return [n] int64: the positions that each tree takes in a model, the start symbol included."""
    n_actions = np.diff(corpus.offsets)
    terminals = np.asarray(corpus.terminals, np.int64)
    if model == "txl_terminals":
        return 1 + terminals
    if model == "txl_cc":
        return 1 + n_actions
    if model == "tg":
        return 1 + n_actions + (n_actions - terminals) // 2
    raise ValueError(f'unknown model {model!r}: choose "tg", "txl_cc" or "txl_terminals"')


def encode_sequences(
    corpus: Corpus, vocabulary: Vocabulary, config: Config, ops: ModuleType, trees: list[int]
) -> list[Encoded]:
    """Return the sequences of the trees; one call computes the structure of all of them."""
    parts = [corpus.actions[corpus.offsets[t] : corpus.offsets[t + 1]] for t in trees]
    if config.model == "txl_terminals":
        parts = [part[vocabulary.type_of[part] == ActionType.T] for part in parts]
    ids = joined([piece for part in parts for piece in ([START_ID], part)], np.int32)
    offsets = offsets_of([1 + len(part) for part in parts])
    labels = np.empty_like(ids)
    labels[:-1] = ids[1:]
    labels[offsets[1:] - 1] = END_ID if config.model == "txl_terminals" else -1
    types = vocabulary.type_of[ids]
    if config.model != "tg":
        return [Encoded(ids[a:b], labels[a:b], types[a:b]) for a, b in zip(offsets, offsets[1:], strict=False)]
    if not trees:
        return []
    doubled = ops.double_closing(ops.xp.asarray(types), ops.xp.asarray(offsets))
    structure = ops.segments(
        doubled[0], doubled[2], config.segment_length, config.memory_length, config.memory, config.positions
    )
    types, source, offsets = (host(x) for x in doubled)
    row_offsets, columns, relative, segment_offsets, memory_columns = (host(x) for x in structure)
    ids, labels = ids[source], np.where(types == ActionType.CNT1, np.int32(-1), labels[source])
    sequences = []
    for b in range(len(trees)):
        span = slice(offsets[b], offsets[b + 1])
        rows = row_offsets[offsets[b] : offsets[b + 1] + 1]
        pairs = slice(rows[0], rows[-1])
        memories = memory_columns[segment_offsets[b] : segment_offsets[b + 1]]
        sequences.append(
            Encoded(ids[span], labels[span], types[span], rows - rows[0], columns[pairs], relative[pairs], memories)
        )
    return sequences


def assemble(sequences: list[Encoded], trees: np.ndarray, segment: np.ndarray, config: Config) -> Batch:
    """Return the batch of one segment [B] of each tree [B]: slices are joined, and columns become numbers of keys."""
    length, depth = config.segment_length, config.memory_length
    begin = [int(s) * length for s in segment]
    end = [min(a + length, len(sequence.ids)) for a, sequence in zip(begin, sequences, strict=True)]
    n_queries = np.array(end, np.int64) - np.array(begin, np.int64)
    n_memory = np.array([_n_memory(q, s, length, depth) for q, s in zip(sequences, segment, strict=True)], np.int64)
    query_offsets, memory_offsets = offsets_of(n_queries), offsets_of(n_memory)
    key_offsets = query_offsets + memory_offsets
    first_column = key_offsets[:-1] - depth + n_memory  # the key row of column 0 if the memory were full
    rows = list(zip(sequences, begin, end, strict=True))

    next_memory, key_order = [], []
    for b, (sequence, s, stop) in enumerate(zip(sequences, segment, end, strict=True)):
        key_order.append(np.arange(memory_offsets[b], memory_offsets[b + 1]))
        key_order.append(np.arange(query_offsets[b], query_offsets[b + 1]) + memory_offsets[-1])
        if stop == len(sequence.ids):
            continue
        if sequence.memory_columns is None:
            next_memory.append(np.arange(max(key_offsets[b], key_offsets[b + 1] - depth), key_offsets[b + 1]))
        else:
            columns_kept = sequence.memory_columns[s]
            next_memory.append(columns_kept[columns_kept >= 0] + first_column[b])

    row_offsets = keys = relative = None
    if config.model == "tg":
        sizes = joined([np.diff(q.row_offsets[a : e + 1]) for q, a, e in rows], np.int64)
        pairs = [slice(q.row_offsets[a], q.row_offsets[e]) for q, a, e in rows]
        n_pairs = [p.stop - p.start for p in pairs]
        columns = joined([q.columns[p] for q, p in zip(sequences, pairs, strict=True)], np.int32)
        row_offsets = offsets_of(sizes)
        keys = columns + np.repeat(first_column, n_pairs).astype(np.int32)
        relative = relative_rows(
            joined([q.relative[p] for q, p in zip(sequences, pairs, strict=True)], np.int32), config
        )
    labels = joined([q.labels[a:e] for q, a, e in rows], np.int32)
    return Batch(
        ids=joined([q.ids[a:e] for q, a, e in rows], np.int32),
        labels=labels,
        compose=joined([q.types[a:e] for q, a, e in rows], np.int8) == ActionType.CNT1,
        query_offsets=query_offsets,
        key_offsets=key_offsets,
        row_offsets=row_offsets,
        keys=keys,
        relative=relative,
        key_order=joined(key_order, np.int64) if memory_offsets[-1] else None,
        next_memory=joined(next_memory, np.int64),
        trees=trees,
        segment=segment,
        n_labels=int(np.count_nonzero(labels >= 0)),
        n_tokens=len(labels),
    )


def relative_rows(relative: np.ndarray, config: Config) -> np.ndarray:
    """Return the row of each relative position in the table."""
    if config.positions == "linear":
        return relative
    return np.clip(relative, config.relative_min, config.relative_max) - np.int32(config.relative_min)


def _n_memory(sequence: Encoded, segment: int, length: int, depth: int) -> int:
    """Return how many slots of the memory are filled before a segment; they are the last ones."""
    if segment == 0:
        return 0
    if sequence.memory_columns is None:
        return min(depth, int(segment) * length)
    return int(np.count_nonzero(sequence.memory_columns[segment - 1] >= 0))


def to_backend(ops: ModuleType, batch: Batch) -> Batch:
    """Return the batch with its arrays in the backend's memory."""
    host_fields = ("trees", "segment", "n_labels", "n_tokens")
    arrays = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name not in host_fields}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    attention, groups = [("query_offsets", "key_offsets")], [x for x in ("ids", "keys", "relative") if x in arrays]
    return replace(batch, **on_device(ops, arrays, attention=attention, groups=groups, labels=["labels"]))
