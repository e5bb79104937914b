"""Who attends to whom, for whole batches. Mirrors `refimpl.transformer_grammars.stack_compose`, and
`refimpl.trees.double_closing`.

Attend sets are those of `segments` where every sequence is one segment: one Numba CUDA thread a sequence.
"""

from __future__ import annotations

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.segments import CNT1, CNT2, ONT, walk
from accel.cuda.support import check


def double_closing(types: Array, offsets: Array) -> tuple[Array, Array, Array]:
    """Return (types [N], source [N] int32, offsets [B+1]): a CNT2 after every CNT1, and the action that each came from.

    types [A] int8 with ONT, T and CNT1 only; offsets [B+1] int64.
    Raises ValueError naming the argument, or the sequence and position of a type that is none of these.
    """
    xp = device.xp()
    (types,) = check.integers(np.int8, types=types)
    host = check.sequence_offsets(offsets, len(types))
    wrong = xp.flatnonzero((types < ONT) | (types > CNT1))
    if len(wrong):
        first = int(wrong[0])
        b = int(np.searchsorted(host, first, side="right")) - 1
        position = first - int(host[b])
        raise ValueError(f"sequence {b}: position {position}: type {int(types[first])} is not ONT, T or CNT1")
    closing = types == CNT1
    before = xp.zeros(len(types) + 1, np.int64)  # closing non-terminals before each action
    before[1:] = xp.cumsum(closing, dtype=np.int64)
    actions = xp.arange(len(types), dtype=np.int32)
    place = actions + before[:-1]
    doubled = xp.full(len(types) + int(before[-1]), CNT2, np.int8)
    source = xp.empty(len(doubled), np.int32)
    doubled[place] = types
    source[place] = actions
    source[place[closing] + 1] = actions[closing]
    return doubled, source, offsets + before[offsets]


def attend_sets(types: Array, offsets: Array) -> tuple[Array, Array, Array, Array]:
    """Return (row_offsets [N+1], keys [E], relative [E], depths [N]): a row's keys ascend within its own sequence.

    types [N] int8, offsets [B+1] int64; relative is the depth of the row minus the depth of the key.
    Raises ValueError naming the argument, or the sequence and position of an ill-formed type.
    """
    row_offsets, keys, relative, _, _, depths = walk(types, offsets, max(1, len(types)), 0, shift=False, linear=False)
    return row_offsets, keys, relative, depths
