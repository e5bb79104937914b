"""A long sequence segment by segment, with a memory between them (section 2.2, Appendix A, Figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refimpl.transformer_grammars.stack_compose import Reading, attend_sets, depths
from refimpl.trees import ActionType

ONT, T, CNT1, CNT2 = ActionType


@dataclass(frozen=True)
class Segment:
    """What one segment of L positions needs. Columns 0..M-1 are the memory, most recent last; then the segment.

    Spec: SEG-1.

    Attributes
    ----------
    mask : [L, M+L] bool
        The attention mask; rows past the end of the sequence attend to nothing.
    relative : [L, M+L] int
        The relative position where the mask is true, 0 elsewhere.
    seq_to_memory : [M, L] int
        1 at (y, x) if position x of the segment becomes row y of the next memory.
    memory_to_memory : [M, M] int
        1 at (y, x) if row x of the memory becomes row y of the next memory.
    """

    mask: NDArray[np.bool_]
    relative: NDArray[np.int_]
    seq_to_memory: NDArray[np.int_]
    memory_to_memory: NDArray[np.int_]


def segments(
    types: Sequence[int],
    segment_length: int,
    memory_length: int,
    reading: Reading = "corrected",
    memory: Literal["stack", "shift"] = "stack",
    positions: Literal["depth", "linear"] = "depth",
) -> list[Segment]:
    """Return the segments of a sequence with the moves that update the memory after each of them.

    Spec: SEG-1, SEG-2, SEG-3, SEG-4.

    Parameters
    ----------
    types : [T'] ActionType
        Types of the positions; the first is the start symbol's, ONT.
    segment_length, memory_length : int
        L >= 1 and M >= 0.
    reading : "corrected" or "printed"
        As printed, CNT2 does not attend to itself, and what stays in memory twice is lost from view.
    memory : "stack" or "shift"
        Keep the top of the stack (Appendix A), or the last M positions as a Transformer-XL does (section 3.5).
    positions : "depth" or "linear"
        Depth differences, or (only with "shift") distances between columns (section 3.5).

    Raises
    ------
    ValueError
        L < 1, M < 0, "linear" with "stack", or ill-formed types (see
        `refimpl.transformer_grammars.stack_compose.check_types`).

    Examples
    --------
    ``<s> (NP | bird NP) | NP)`` with L = 2 and M = 2: the last segment sees the start symbol in the memory, and itself.

    >>> last = segments([ONT, ONT, T, CNT1, CNT2], 2, 2)[2]
    >>> last.mask.astype(int)
    array([[1, 1, 1, 0],
           [0, 0, 0, 0]])
    """
    _check(segment_length, memory_length, memory, positions)
    sets, depth = attend_sets(types, reading), depths(types)
    n_segments = ceil(len(types) / segment_length)
    out = []
    slots: dict[int, int] = {}  # seq2mem: position in the sequence -> row of the memory
    for tau in range(n_segments):
        begin, end = tau * segment_length, min((tau + 1) * segment_length, len(types))
        mask = np.zeros((segment_length, memory_length + segment_length), dtype=bool)
        relative = np.zeros(mask.shape, dtype=int)
        for i in range(begin, end):
            for j in sets[i]:
                if j >= begin:
                    column = memory_length + j - begin
                elif j in slots:
                    column = slots[j]
                else:
                    continue
                x = i - begin
                mask[x, column] = True
                relative[x, column] = depth[i] - depth[j] if positions == "depth" else memory_length + x - column
        kept = _stack(types[:end]) if memory == "stack" else list(range(end))
        seq_to_memory, memory_to_memory, slots = _memory_moves(
            kept, begin, slots, segment_length, memory_length, loses_memory=reading == "printed"
        )
        out.append(Segment(mask, relative, seq_to_memory, memory_to_memory))
    return out


def _memory_moves(
    kept: Sequence[int], begin: int, slots: dict[int, int], segment_length: int, memory_length: int, loses_memory: bool
) -> tuple[NDArray[np.int_], NDArray[np.int_], dict[int, int]]:
    """Return U^{h->m}, U^{m->m} and the next seq2mem: the end of Figure 8's loop, from the last kept position back."""
    seq_to_memory = np.zeros((memory_length, segment_length), dtype=int)
    memory_to_memory = np.zeros((memory_length, memory_length), dtype=int)
    next_slots: dict[int, int] = {}
    y = memory_length - 1
    for j in reversed(kept):
        if y < 0:
            break
        if j >= begin:
            seq_to_memory[y, j - begin] = 1
            next_slots[j] = y
            y -= 1
        elif j in slots:
            memory_to_memory[y, slots[j]] = 1
            if not loses_memory:
                next_slots[j] = y
            y -= 1
    return seq_to_memory, memory_to_memory, next_slots


def _stack(types: Sequence[int]) -> list[int]:
    """Return the stack of Algorithm 1 after the last of the given positions."""
    stack: list[int] = []
    for i, kind in enumerate(types):
        if kind == CNT1:
            while types[stack.pop()] != ONT:
                continue
        if kind != CNT2:
            stack.append(i)
    return stack


def _check(segment_length: int, memory_length: int, memory: str, positions: str) -> None:
    if segment_length < 1:
        raise ValueError(f"segment_length must be at least 1, not {segment_length}")
    if memory_length < 0:
        raise ValueError(f"memory_length must be at least 0, not {memory_length}")
    if memory not in ("stack", "shift"):
        raise ValueError(f'memory must be "stack" or "shift", not {memory!r}')
    if positions not in ("depth", "linear"):
        raise ValueError(f'positions must be "depth" or "linear", not {positions!r}')
    if positions == "linear" and memory == "stack":
        raise ValueError('positions "linear" needs memory "shift": gathered memory has lost the distances')
