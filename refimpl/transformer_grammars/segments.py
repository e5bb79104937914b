"""A long sequence segment by segment, with a memory between them (section 2.2, Appendix A, Figure 8)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from refimpl.checks import Int, check_known, check_least
from refimpl.transformer_grammars.stack_compose import Reading, attend_sets, depths
from refimpl.trees import CNT1, CNT2, ONT, T  # noqa: F401 - T stands in an example


@dataclass(frozen=True)
class Segment:
    """Masks over the memory, most recent last, then the segment; and moves that update the memory. Spec: SEG-1."""

    mask: NDArray[np.bool_]  # [L, M+L]; rows past the end of the sequence attend to nothing
    relative: Int  # [L, M+L]; 0 where the mask is false
    seq_to_memory: Int  # [M, L]; 1 at (y, x): position x of the segment becomes row y of the next memory
    memory_to_memory: Int  # [M, M]; 1 at (y, x): row x of the memory becomes row y of the next memory


def segments(
    types: Sequence[int], segment_length: int, memory_length: int, reading: Reading = "corrected",
    memory: Literal["stack", "shift"] = "stack", positions: Literal["depth", "linear"] = "depth",
) -> list[Segment]:  # fmt: skip
    """Return the segments of a sequence; the memory between them keeps the top of the stack.

    Spec: SEG-1, SEG-2.  Figure 8, line by line; `memory="shift"` is `shifted_segments`.

    types : [T'] ActionType; segment_length : L >= 1; memory_length : M >= 0.
    reading : "corrected" or "printed"; as printed, CNT2 does not attend to itself, and an element that the
        memory keeps for a second segment can no longer be attended to (errata B).
    Raises ValueError as `check_segmentation`, `stack_compose.check_types`, and for another reading.

    <s> (NP | bird NP) | NP): the last segment sees the start symbol and NP) in the memory, and itself.

    >>> segments([ONT, ONT, T, CNT1, CNT2], 2, 2)[2].mask.astype(int)
    array([[1, 1, 1, 0],
           [0, 0, 0, 0]])
    """
    L, M = segment_length, memory_length
    check_segmentation(L, M, memory, positions)
    check_known("reading", reading, get_args(Reading))
    if memory == "shift":
        return shifted_segments(types, L, M, reading, positions)
    depth = depths(types)
    out, S, seq2mem = list[Segment](), list[int](), dict[int, int]()  # S: the stack; seq2mem: from sequence to memory
    for tau in range(ceil(len(types) / L)):
        A, R = np.zeros((L, M + L), bool), np.zeros((L, M + L), int)
        U_hm, U_mm = np.zeros((M, L), int), np.zeros((M, M), int)
        for x in range(L):
            i = x + tau * L
            if i >= len(types):
                break
            if types[i] == CNT1:  # COMPOSE attention
                j = i
                while types[j] != ONT:
                    _allow_attention(A, R, i, x, j, tau, seq2mem, depth)
                    j = S.pop()
                _allow_attention(A, R, i, x, j, tau, seq2mem, depth)
                S.append(i)
            else:  # STACK attention
                if types[i] != CNT2:
                    S.append(i)
                for j in S:
                    _allow_attention(A, R, i, x, j, tau, seq2mem, depth)
                if reading == "corrected":  # not printed: see errata, A
                    _allow_attention(A, R, i, x, i, tau, seq2mem, depth)
        next_seq2mem = {}
        next_y = M - 1
        for j in reversed(S):
            if next_y < 0:
                break
            if j >= L * tau:  # the position on the stack is in the current segment
                U_hm[next_y, j - L * tau] = 1
                next_seq2mem[j] = next_y
                next_y -= 1
            elif j in seq2mem:  # the position on the stack is in the memory
                U_mm[next_y, seq2mem[j]] = 1
                if reading == "corrected":  # not printed: see errata, B
                    next_seq2mem[j] = next_y
                next_y -= 1
            # else: the position on the stack is too far back, not in the memory
        out.append(Segment(A, R, U_hm, U_mm))
        seq2mem = next_seq2mem
    return out


def _allow_attention(
    A: NDArray[np.bool_], R: Int, i: int, x: int, j: int, tau: int, seq2mem: dict[int, int], depth: list[int]
) -> None:
    """Let row x of the segment, position i, attend to position j if j is in the segment or in the memory: Figure 8."""
    L, M = len(A), A.shape[1] - len(A)
    if j >= L * tau:  # attention to the segment
        y = M + j - L * tau
    elif j in seq2mem:  # attention to the memory
        y = seq2mem[j]
    else:
        return
    A[x, y] = True
    R[x, y] = depth[i] - depth[j]


def shifted_segments(
    types: Sequence[int], segment_length: int, memory_length: int, reading: Reading, positions: str
) -> list[Segment]:
    r"""Return the segments of a sequence; the memory between them keeps the last M positions, as in a Transformer-XL.

    Spec: SEG-3, SEG-4.  $m_{\tau+1}$ = the last M rows of $[m_\tau, h_\tau]$   (section 3.5)

    positions : "depth" differences, or "linear": i - j.
    Other arguments and errors as `segments`. In the example of `segments`, the last segment would see NP) and itself.
    """
    L, M = segment_length, memory_length
    check_segmentation(L, M, "shift", positions)
    sets, depth, out = attend_sets(types, reading), depths(types), list[Segment]()
    for tau in range(ceil(len(types) / L)):
        begin, end = L * tau, min(L * (tau + 1), len(types))
        A, R = np.zeros((L, M + L), bool), np.zeros((L, M + L), int)
        U = np.zeros((M, M + L), int)  # U_mm, then U_hm
        for i in range(begin, end):
            for j in sets[i]:
                if j >= begin - M:  # column 0 is position begin - M
                    A[i - begin, j - begin + M] = True
                    R[i - begin, j - begin + M] = depth[i] - depth[j] if positions == "depth" else i - j
        for j in range(max(0, end - M), end):  # row M - 1 of the next memory is position end - 1
            U[j - end + M, j - begin + M] = 1
        out.append(Segment(A, R, seq_to_memory=U[:, M:], memory_to_memory=U[:, :M]))
    return out


def check_segmentation(segment_length: int, memory_length: int, memory: str, positions: str) -> None:
    """Raise ValueError for lengths out of range, unknown names, "linear" with "stack". Spec: SEG-1, SEG-4."""
    check_least(1, segment_length=segment_length)
    check_least(0, memory_length=memory_length)
    if (memory, positions) not in (("stack", "depth"), ("shift", "depth"), ("shift", "linear")):
        rule = 'use "stack" or "shift", and "depth" or "linear"; positions "linear" needs memory "shift"'
        raise ValueError(f"memory {memory!r}, positions {positions!r}: {rule}")
