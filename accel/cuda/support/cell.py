"""What recurrent layers share: their steps, the number of master gates, and the states of the previous steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check, known

KINDS = ("lstm", "on_lstm", "fasttrees")
Outputs = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class Steps:
    """Sequences sorted by length, the longest first: the first active[t] of `order` have a step t."""

    active: list[int]
    order: Array  # [B] int64 numbers of the sequences
    starts: Array  # [B] int64 the first row of each sequence of `order`


def steps_of(offsets: Array, n_rows: int, n_sequences: int) -> Steps:
    """Return the steps; raise ValueError if offsets do not fit, or a sequence is empty."""
    check.shape("offsets", offsets, n_sequences + 1)
    copy = check.sequence_offsets(offsets, n_rows)
    lengths = np.diff(copy)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    return known.once(steps_between, [offsets], [copy])


def steps_between(offsets: np.ndarray) -> Steps:
    """Return the steps of sequences with these offsets, all on the host."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    n_ended = np.bincount(lengths, minlength=1).cumsum()[:-1]  # sequences of t steps or fewer
    return Steps((len(lengths) - n_ended).tolist(), order, offsets[order])


def count_masters(gates: Array, h0: Array, c0: Array, kind: str) -> int:
    """Return the number n of input, and of forget, master gates; raise ValueError if shapes or the kind do not fit."""
    if kind not in (*KINDS, "faster_fasttrees"):
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    check.shape("gates", gates, "N", "G")
    check.shape("h0", h0, "B", "H")
    check.shape("c0", c0, *h0.shape)
    n_units = c0.shape[1]
    n, odd = divmod(gates.shape[1] - 4 * n_units, 2)
    if n_units == 0 or odd or (n != 0 if kind == "lstm" else n < 1 or n_units % n != 0):
        raise ValueError(f"gates: {gates.shape[1]} columns do not fit {n_units} hidden units of kind {kind}")
    return n


def of_step_before(x: Array, first: Array, offsets: Array) -> Array:
    """Return, for every row of x [N, H], the row of the previous step; first [B, H] holds those of the first steps."""
    before = device.xp().empty_like(x)
    before[1:] = x[:-1]
    before[offsets[:-1]] = first
    return before
