"""Whole batches cut into segments with a memory between them. Mirrors `refimpl.transformer_grammars.segments`.

One Numba CUDA thread a sequence, twice: it counts the keys, and after the counts are summed it writes them. Extra
memory: [N] int32 twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from refimpl.trees import ActionType

ONT, T, CNT1, CNT2 = (int(kind) for kind in ActionType)
PROBLEMS = (
    "the first type is not ONT",
    "unknown type",
    "CNT1 and CNT2 must come in pairs",
    "CNT1 closes no open non-terminal",
)


def segments(
    types: Array,
    offsets: Array,
    segment_length: int,
    memory_length: int,
    memory: str = "stack",
    positions: str = "depth",
) -> tuple[Array, Array, Array, Array, Array]:
    """Return (row_offsets [N+1], columns [E], relative [E], segment_offsets [B+1], memory_columns [n_segments, M]).

    types [N] int8, offsets [B+1] int64. Columns 0..M-1 are the memory, most recent last, then the segment; row y of
    the memory after segment s was column memory_columns[s, y] of that segment, -1 for none.
    Raises ValueError naming the argument, or the sequence and position of an ill-formed type.
    """
    if segment_length < 1:
        raise ValueError(f"segment_length must be at least 1, not {segment_length}")
    if memory_length < 0:
        raise ValueError(f"memory_length must be at least 0, not {memory_length}")
    if memory not in ("stack", "shift"):
        raise ValueError(f'memory must be "stack" or "shift", not {memory!r}')
    if positions not in ("depth", "linear"):
        raise ValueError(f'positions must be "depth" or "linear", not {positions!r}')
    if positions == "linear" and memory == "stack":
        raise ValueError('positions "linear" needs memory "shift": the rows of a stack memory lose their distances')
    return walk(types, offsets, segment_length, memory_length, memory == "shift", positions == "linear")[:5]


def walk(
    types: Array, offsets: Array, segment_length: int, memory_length: int, shift: bool, linear: bool
) -> tuple[Array, ...]:
    """Return the outputs of `segments`, and the depths [N]."""
    xp = device.xp()
    (types,) = check.integers(np.int8, types=types)
    lengths = np.diff(check.sequence_offsets(offsets, len(types)))
    n, n_sequences = len(types), len(lengths)
    starts = np.concatenate([[0], np.cumsum(-(-lengths // segment_length))]).astype(np.int64)
    segment_offsets = xp.asarray(starts)
    row_offsets, problems = xp.zeros(n + 1, np.int64), xp.zeros(n_sequences, np.int64)
    stack, depths = xp.empty(n, np.int32), xp.empty(n, np.int32)
    memory_columns = xp.empty((int(starts[-1]), memory_length), np.int32)
    inputs = (types, xp.ascontiguousarray(offsets), segment_length, memory_length, int(shift), int(linear))
    work = (stack, depths, row_offsets, segment_offsets, memory_columns, problems)
    nothing = xp.empty(0, np.int32)
    device.each(walk_sequence, n_sequences, *inputs, 0, *work, nothing, nothing)
    _raise_problem(device.to_host(problems))
    row_offsets = xp.cumsum(row_offsets)
    columns, relative = xp.empty((2, int(row_offsets[-1])), np.int32)
    work = (stack, depths, row_offsets, segment_offsets, memory_columns, problems)
    device.each(walk_sequence, n_sequences, *inputs, 1, *work, columns, relative)
    return row_offsets, columns, relative, segment_offsets, memory_columns, depths


def walk_sequence(
    types: Any, offsets: Any, segment_length: int, memory_length: int, shift: int, linear: int, fill: int,
    stack: Any, depths: Any, row_offsets: Any, segment_offsets: Any, memory_columns: Any, problems: Any,
    columns: Any, relative: Any,
) -> None:  # fmt: skip
    """Walk through sequence b; a kernel for Numba CUDA.

    With fill = 0, look for problems (4 * position + 1 + number of the problem) and put the number of keys of row i into
    row_offsets[i + 1]; with fill = 1 write everything else. The stack holds positions, from offsets[b] on. At the start
    of the segment it held `old_size` positions; the lowest `floor` of these are no longer in the memory.
    """
    b = cuda.grid(1)
    if b >= offsets.size - 1:
        return
    start, length = offsets[b], offsets[b + 1] - offsets[b]
    if length == 0:
        problems[b] = 1
    size = n_open = old_size = floor = 0
    for i in range(length):
        kind = types[start + i]
        problem = _problem(types, start, i, n_open)
        if problem >= 0:
            problems[b] = 4 * i + 1 + problem
            return
        begin = i - i % segment_length
        if i == begin:
            old_size = size
            floor = max(floor, size - memory_length)

        low, high = 0, size  # row i sees these places of the stack, and itself
        if kind == CNT1:
            size -= 1
            while types[start + stack[start + size]] != ONT:
                size -= 1
            low = size
            n_open -= 1
        depths[start + i] = n_open
        count = 0
        for place in range(low, high + 1):
            j = i if place == high else stack[start + place]
            column = _column(j, place, begin, old_size, floor, memory_length, shift)
            if column >= 0:
                if fill == 1:
                    edge = row_offsets[start + i] + count
                    columns[edge] = column
                    relative[edge] = memory_length + i - begin - column if linear == 1 else n_open - depths[start + j]
                count += 1
        if fill == 0:
            row_offsets[start + i + 1] = count

        floor = min(floor, size)
        if kind != CNT2:
            stack[start + size] = i
            size += 1
        if kind == ONT:
            n_open += 1
        if fill == 1 and (i == begin + segment_length - 1 or i == length - 1):
            segment = segment_offsets[b] + i // segment_length
            for y in range(memory_length):
                place = size - memory_length + y
                j = i + 1 - memory_length + y
                if shift == 0:
                    j = stack[start + place] if place >= 0 else -1
                column = _column(j, place, begin, old_size, floor, memory_length, shift)
                memory_columns[segment, y] = column if j >= 0 else -1


@cuda.jit(device=True, inline="always")
def _column(j: int, place: int, begin: int, old_size: int, floor: int, memory_length: int, shift: int) -> int:
    """Return the column of position j, which stands at `place` in the stack; negative if it is in no memory."""
    if j >= begin or shift == 1:
        return memory_length + j - begin
    return memory_length - old_size + place if place >= floor else -1


@cuda.jit(device=True, inline="always")
def _problem(types: Any, start: int, i: int, n_open: int) -> int:
    """Return the number in PROBLEMS of what is wrong with position i, or -1."""
    kind = types[start + i]
    if i == 0 and kind != ONT:
        return 0
    if kind < ONT or kind > CNT2:
        return 1
    if (i > 0 and types[start + i - 1] == CNT1) != (kind == CNT2):
        return 2
    return 3 if kind == CNT1 and n_open == 1 else -1


def _raise_problem(problems: Any) -> None:
    if problems.any():
        b = int(np.flatnonzero(problems)[0])
        position, number = divmod(int(problems[b]) - 1, 4)
        raise ValueError(f"sequence {b}: position {position}: {PROBLEMS[number]}")
