"""Structure of a whole batch: attend sets as CSR lists, relative positions, memory moves.

Mirrors `refimpl.transformer_grammars.segments` and `refimpl.transformer_grammars.stack_compose`.
Parallel over trees: a counting pass and a filling pass of the same walk; memory is the output and 20 bytes a position.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_offsets, contiguous
from accel.cpu.support.kernels import kernel
from accel.cpu.support.team import share, team_kernel

ONT, T, CNT1, CNT2 = 0, 1, 2, 3
_REASONS = (
    "",
    "the first type is not ONT",
    "unknown type {type}",
    "CNT1 and CNT2 must come in pairs",
    "CNT1 closes no open non-terminal",
)
Structure = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]


@contiguous
def segments(
    types: NDArray[np.int8],
    offsets: NDArray[np.int64],
    segment_length: int,
    memory_length: int,
    memory: Literal["stack", "shift"] = "stack",
    positions: Literal["depth", "linear"] = "depth",
) -> Structure:
    """Return the attend sets, segment by segment, and the columns that every segment leaves in the memory.

    Spec: SEG-1 to SEG-4, of a batch.

    Parameters
    ----------
    types : [N] int8, offsets : [B+1] int64
        Types of the positions of B sequences, one after the other.
    segment_length, memory_length
        L and M, in positions.

    Returns
    -------
    row_offsets [N+1] int64, columns [E] int32, relative [E] int32
        Position i attends to `columns[row_offsets[i]:row_offsets[i+1]]` of [memory | segment], in ascending order.
        `relative` has the relative position of each.
    segment_offsets [B+1] int64, memory_columns [n_segments, M] int32
        Sequence b has the segments `segment_offsets[b]` to `segment_offsets[b+1]`; row y of the memory after a segment
        is the column `memory_columns[segment, y]` of its [memory | segment], or empty if -1.

    Raises
    ------
    ValueError
        L < 1, M < 0, unknown or contradictory options, ill-formed types (naming sequence and position).
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
    shift, linear = memory == "shift", positions == "linear"
    return walk(types, offsets, segment_length, memory_length, shift, linear)[:5]


def walk(
    types: NDArray[np.int8], offsets: NDArray[np.int64], length: int, memory_length: int, shift: bool, linear: bool
) -> tuple[*Structure, NDArray[np.int32]]:
    """Return `segments`' arrays and the depths [N] of the positions."""
    check_types(types, offsets)
    segment_offsets = np.zeros(offsets.size, dtype=np.int64)
    np.cumsum(-(-np.diff(offsets) // length), out=segment_offsets[1:])
    moves = np.empty((int(segment_offsets[-1]), memory_length), dtype=np.int32)
    depths = np.empty(types.size, dtype=np.int32)
    row_offsets = np.zeros(types.size + 1, dtype=np.int64)
    scratch = np.empty((4, types.size), dtype=np.int32)
    errors = np.zeros((offsets.size - 1, 2), dtype=np.int64)
    options = (length, memory_length, shift, linear)
    outputs = (row_offsets, depths, segment_offsets, moves)
    nothing = np.empty(0, dtype=np.int32)
    _walk_all(types, offsets, *options, scratch, errors, *outputs, nothing, nothing, False)
    if errors[:, 0].any():
        sequence = int(np.flatnonzero(errors[:, 0])[0])
        reason, position = (int(x) for x in errors[sequence])
        kind = int(types[offsets[sequence] + position]) if reason > 1 else None
        raise ValueError(f"types: sequence {sequence}, position {position}: {_REASONS[reason].format(type=kind)}")
    np.cumsum(row_offsets, out=row_offsets)
    columns, relative = (np.empty(int(row_offsets[-1]), dtype=np.int32) for _ in range(2))
    _walk_all(types, offsets, *options, scratch, errors, *outputs, columns, relative, True)
    return row_offsets, columns, relative, segment_offsets, moves, depths


def check_types(types: NDArray[np.int8], offsets: NDArray[np.int64]) -> None:
    """Raise ValueError if the types are no batch of type codes."""
    if not isinstance(types, np.ndarray) or types.dtype != np.int8 or types.ndim != 1:
        raise ValueError("types: expected a vector of int8")
    check_offsets("offsets", offsets, None, types.size)


@team_kernel()
def _walk_all(
    part, types, offsets, length, memory_length, shift, linear, scratch, errors,
    row_offsets, depths, segment_offsets, moves, columns, relative, fill,
):  # fmt: skip
    for b in share(part, offsets.size - 1):
        begin, end = offsets[b], offsets[b + 1]
        errors[b, 0], errors[b, 1] = _walk_one(
            types[begin:end], length, memory_length, shift, linear,
            scratch[0][begin:end], scratch[1][begin:end], scratch[2][begin:end], scratch[3][begin:end],
            row_offsets[begin : end + 1], depths[begin:end], moves[segment_offsets[b] : segment_offsets[b + 1]],
            columns, relative, fill,
        )  # fmt: skip


@kernel()
def _walk_one(
    types, length, memory_length, shift, linear, stack, depth, column, opens,
    row_offsets, depths, moves, columns, relative, fill,
):  # fmt: skip
    """Walk over one sequence; return (reason, position) of the first error, reason 0 for none.

    Stack entries below `old` come from earlier segments; those of them that are below `floor` have left the memory.
    So the keys of a position are one run of the stack, from `low` to the top, plus the position itself if it is not on
    the stack. `stack`, `depth` and `column` have the position, the depth and the column of every stack entry; `opens`
    has the stack entries of the open non-terminals.
    """
    top, n_open, old, floor, begin, before = 0, 0, 0, 0, 0, CNT2
    if types.size == 0 or types[0] != ONT:
        return 1, 0
    for i in range(types.size):
        if i - begin == length:
            low = min(floor, old)
            if fill:
                _move_memory(moves[begin // length], stack, column, top, low, begin, length, memory_length, shift)
            begin += length
            old, floor = top, _forget(stack, column, top, low, begin, memory_length, shift)
        kind = types[i]
        if kind < ONT or kind > CNT2:
            return 2, i
        if (before == CNT1) != (kind == CNT2):
            return 3, i
        before = kind
        low = min(floor, old)
        if kind == CNT1:
            if n_open <= 1:
                return 4, i
            n_open -= 1
            bottom = opens[n_open]
            low = max(low, bottom)
            level = n_open
        else:
            if kind != CNT2:
                stack[top], depth[top], column[top] = i, n_open, memory_length + i - begin
                top += 1
            bottom, level = top, n_open
            if kind == ONT:
                opens[n_open] = top - 1
                n_open += 1
        extra = 1 if kind >= CNT1 else 0
        if fill:
            e = row_offsets[i]
            for p in range(top - low):
                columns[e + p] = column[low + p]
            if linear:
                for p in range(top - low):
                    relative[e + p] = memory_length + i - begin - column[low + p]
            else:
                for p in range(top - low):
                    relative[e + p] = level - depth[low + p]
            if extra:
                columns[e + top - low], relative[e + top - low] = memory_length + i - begin, 0
        else:
            row_offsets[i + 1] = top - low + extra
            depths[i] = level
        if kind == CNT1:
            old = min(old, bottom)
            stack[bottom], depth[bottom], column[bottom] = i, level, memory_length + i - begin
            top = bottom + 1
    if fill:
        low, n_positions = min(floor, old), types.size - begin
        _move_memory(moves[begin // length], stack, column, top, low, begin, n_positions, memory_length, shift)
    return 0, 0


@kernel()
def _move_memory(move, stack, column, top, low, begin, n_positions, memory_length, shift):
    """Set `move` to the columns that become the next memory: the top of the stack, or if `shift` the last positions."""
    for y in range(memory_length):
        if shift:
            from_column = n_positions + y
            move[y] = from_column if from_column >= memory_length - begin else -1
        else:
            p = top - memory_length + y
            move[y] = column[p] if p >= low else -1


@kernel()
def _forget(stack, column, top, floor, begin, memory_length, shift):
    """Set `column` to the columns in the next segment's memory; return the first stack entry that is still in it."""
    if shift:
        while floor < top and stack[floor] < begin - memory_length:
            floor += 1
        for p in range(floor, top):
            column[p] = memory_length + stack[p] - begin
    else:
        floor = max(floor, top - memory_length)
        for p in range(floor, top):
            column[p] = memory_length - top + p
    return floor
