"""Seeded errors of doubled actions, sets of keys and segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel import cpu


def keep_edges(row_offsets: Any, is_kept: Any, *per_edge: Any) -> tuple[Any, ...]:
    """Drop the edges that are not kept."""
    rows = np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets))[is_kept]
    counts = np.bincount(rows, minlength=len(row_offsets) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), *(x[is_kept] for x in per_edge)


def row_of_edges(row_offsets: Any) -> Any:
    return np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets))


def cnt2_misses_itself(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    rows = row_of_edges(row_offsets)
    first = np.repeat(offsets[:-1], np.diff(offsets))[rows]
    is_kept = ~((types[rows] == 3) & (keys + first == rows))
    return *keep_edges(row_offsets, is_kept, keys, relative), depths


def compose_misses_its_ont(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    is_kept = np.ones(len(keys), bool)
    is_kept[row_offsets[:-1][types == 2]] = False
    return *keep_edges(row_offsets, is_kept, keys, relative), depths


def swapped_i_and_j(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    return row_offsets, keys, -relative, depths


def keys_of_the_whole_batch(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    first = np.repeat(offsets[:-1], np.diff(offsets))[row_of_edges(row_offsets)]
    return row_offsets, (keys + first).astype(np.int32), relative, depths


def lost_memory_slot(*arguments: Any, **options: Any) -> Any:
    *rest, moves = cpu.segments(*arguments, **options)
    moves = moves.copy()
    moves[:, :1] = -1
    return *rest, moves


def memory_upside_down(*arguments: Any, **options: Any) -> Any:
    *rest, moves = cpu.segments(*arguments, **options)
    return *rest, moves[:, ::-1].copy()


def segment_cut_one_late(types: Any, offsets: Any, segment_length: int, *rest: Any) -> Any:
    return cpu.segments(types, offsets, segment_length + 1, *rest)


def rows_begin_at_5(types: Any, offsets: Any) -> Any:
    row_offsets, *others = cpu.attend_sets(types, offsets)
    return row_offsets + 5, *others


def segments_begin_at_2(*arguments: Any, **options: Any) -> Any:
    *rows, segment_offsets, moves = cpu.segments(*arguments, **options)
    return *rows, segment_offsets + 2, moves


def last_sequence_ends_late(types: Any, offsets: Any) -> Any:
    doubled, source, new_offsets = cpu.double_closing(types, offsets)
    return doubled, source, np.r_[new_offsets[:-1], new_offsets[-1:] + 3]


STRUCTURE = (
    ("double_closing", last_sequence_ends_late),
    ("attend_sets", rows_begin_at_5),
    ("segments", segments_begin_at_2),
    ("attend_sets", cnt2_misses_itself),
    ("attend_sets", compose_misses_its_ont),
    ("attend_sets", swapped_i_and_j),
    ("attend_sets", keys_of_the_whole_batch),
    ("segments", lost_memory_slot),
    ("segments", memory_upside_down),
    ("segments", segment_cut_one_late),
)
