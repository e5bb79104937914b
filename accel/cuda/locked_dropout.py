"""Dropout of features at all steps of a sequence, of weights and of words. Mirrors `refimpl.fasttrees.stack`.

A thread for every element; no mask is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.layers import THREADS as ELEMENTS
from accel.cuda.support import check

THREADS = 128  # columns


def locked_dropout(x: Array, offsets: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (y,): x [N, D] with the same features dropped in all rows of a sequence.

    offsets [B+1] int64; feature a of sequence b is element b D + a of dropout. Raises ValueError naming the argument
    that does not fit.
    """
    (x,) = check.floats(x=x)
    check.shape("x", x, "N", "D")
    (offsets,) = check.integers(np.int64, offsets=offsets)
    check.indices({}, {"offsets": (offsets, len(x))})
    (n, d), y = x.shape, device.xp().empty_like(x)
    args = x, offsets, y, len(offsets) - 1, d, *check.dropout(rate, seed)
    device.launch("locked_dropout", "locked_dropout", (n, -(-d // THREADS)), (THREADS,), args, x.dtype)
    return (y,)


def locked_dropout_vjp(
    d_y: Array, outputs: tuple[Array], x: Array, offsets: Array, rate: float, seed: int
) -> tuple[Array]:
    """Return the gradient of x."""
    return locked_dropout(d_y, offsets, rate, seed)


def weight_drop(weight: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (dropped,): a weight [R, H] with elements set to 0 at `rate`, the others as they are.

    Raises ValueError naming the argument that does not fit.
    """
    (weight,) = check.floats(weight=weight)
    check.shape("weight", weight, "R", "H")
    dropped = device.xp().empty_like(weight)
    args = weight, dropped, weight.size, *check.dropout(rate, seed)[:2], 1.0
    device.launch("layers", "dropout", device.wide_grid(weight, ELEMENTS), (ELEMENTS,), args, weight.dtype)
    return (dropped,)


def weight_drop_vjp(d_y: Array, outputs: tuple[Array], weight: Array, rate: float, seed: int) -> tuple[Array]:
    """Return the gradient of the weight."""
    return weight_drop(d_y, rate, seed)


def word_dropout(x: Array, ids: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (y,): x [N, D] with all rows of some words dropped.

    Row i is of word ids[i], int32, which is also its element of dropout.

    It is no operation of the table: `accel.autodiff.layers.word_dropout` does the same with a mask.
    """
    (x,) = check.floats(x=x)
    check.shape("x", x, "N", "D")
    (ids,) = check.integers(np.int32, ids=ids)
    check.shape("ids", ids, len(x))
    (n, d), y = x.shape, device.xp().empty_like(x)
    args = x, ids, y, d, *check.dropout(rate, seed)
    device.launch("locked_dropout", "word_dropout", (n, -(-d // THREADS)), (THREADS,), args, x.dtype)
    return (y,)


def word_dropout_vjp(d_y: Array, outputs: tuple[Array], x: Array, ids: Array, rate: float, seed: int) -> tuple[Array]:
    """Return the gradient of x."""
    return word_dropout(d_y, ids, rate, seed)


def last_rows(arrays: Sequence[Array], offsets: Array) -> list[Array]:
    """Return the rows of the last steps of sequences [B, width], of one array or two [N, width] of one dtype and shape.

    It is no operation of the table: where a backend lacks it, `accel.models.fasttrees.stack` indexes the arrays.
    """
    *arrays, offsets = (device.xp().ascontiguousarray(x) for x in (*arrays, offsets))
    width, n_sequences = arrays[0].shape[1], len(offsets) - 1
    last = [device.xp().empty((n_sequences, width), x.dtype) for x in arrays]
    args = [array for pair in zip(arrays, last, strict=True) for array in pair]
    grid = n_sequences, -(-width // THREADS), len(arrays)
    args = (args * 2)[:4] + [offsets, width]
    device.launch("locked_dropout", "last_rows", grid, (THREADS,), tuple(args), last[0].dtype)
    return last
