"""Doubled closing non-terminals and attend sets of a whole batch.

Mirrors `refimpl.transformer_grammars.stack_compose` and `refimpl.trees.double_closing`.
Parallel over trees (`accel.cpu.segments.walk`, with one segment a sequence and no memory).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.cpu.segments import CNT1, CNT2, ONT, check_types, walk
from accel.cpu.support.arguments import contiguous


@contiguous
def double_closing(
    types: NDArray[np.int8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int64]]:
    """Return the types [N] with a CNT2 after every CNT1, the action [N] from which each comes, and the offsets [B+1].

    Parameters
    ----------
    types : [A] int8, offsets : [B+1] int64
        Types (ONT, T, CNT1) of the actions of B sequences, one after the other.

    Raises
    ------
    ValueError
        A type other than these three, naming sequence and position.
    """
    check_types(types, offsets)
    bad = (types < ONT) | (types > CNT1)
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        sequence = int(np.searchsorted(offsets, where, side="right")) - 1
        position = where - int(offsets[sequence])
        raise ValueError(f"types: sequence {sequence}, position {position}: {types[where]} is not ONT, T or CNT1")
    closing = types == CNT1
    source = np.repeat(np.arange(types.size, dtype=np.int32), 1 + closing)
    doubled = types[source]
    doubled[1:][source[1:] == source[:-1]] = CNT2
    n_doubled = np.zeros(types.size + 1, dtype=np.int64)
    np.cumsum(closing, out=n_doubled[1:])
    return doubled, source, offsets + n_doubled[offsets]


@contiguous
def attend_sets(
    types: NDArray[np.int8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the positions that every position attends to, their relative positions, and all depths.

    Spec: SC-1, SC-3, SC-4, of a batch.

    Parameters
    ----------
    types : [N] int8, offsets : [B+1] int64
        Types of the positions of B sequences, one after the other.

    Returns
    -------
    row_offsets [N+1] int64, keys [E] int32, relative [E] int32, depths [N] int32
        Position i attends to `keys[row_offsets[i]:row_offsets[i+1]]`, counted from the start of its own sequence.

    Raises
    ------
    ValueError
        Ill-formed types, naming sequence and position.
    """
    longest = max(1, int(np.diff(offsets).max(initial=0)))
    row_offsets, keys, relative, _, _, depths = walk(types, offsets, longest, 0, shift=False, linear=False)
    return row_offsets, keys, relative, depths
