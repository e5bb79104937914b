"""Dropout of the same features at all steps of a sequence, and dropout of weights. Mirrors `refimpl.fasttrees.stack`.

Each sequence has one mask, a row of [B, D], which NumPy repeats for its rows. Dropout of weights is parallel over
chunks of their elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.layers import dropout, dropped
from accel.cpu.support.arguments import check_floats, check_offsets, contiguous

Float = NDArray[Any]


@contiguous
def locked_dropout(x: Float, offsets: NDArray[np.int64], rate: float, seed: int) -> tuple[Float]:
    """Return x [N, D] with the same features dropped in all rows of a sequence.

    offsets : [B+1] int64. Feature a of sequence b has element b D + a of the keep mask.
    """
    n, width = (check_floats(x=(x, "ND"))[axis] for axis in "ND")
    check_offsets("offsets", offsets, None, n)
    (mask,) = dropout(np.ones((len(offsets) - 1, width), x.dtype), rate, seed)
    y = mask.repeat(np.diff(offsets), axis=0)
    y *= x
    return (y,)


@contiguous
def locked_dropout_vjp(
    d_out: Float, outputs: tuple[Float], x: Float, offsets: NDArray[np.int64], rate: float, seed: int
) -> tuple[Float]:
    """Return the gradient of x [N, D]."""
    check_floats(x=(x, "ND"), d_out=(d_out, "ND"))
    return locked_dropout(d_out, offsets, rate, seed)


@contiguous
def weight_drop(weight: Float, rate: float, seed: int) -> tuple[Float]:
    """Return the weight [R, H] with elements set to 0 by the hash of seed and place; the others are not scaled."""
    check_floats(weight=(weight, "RH"))
    return (dropped(weight, 1.0, rate, seed),)


@contiguous
def weight_drop_vjp(d_out: Float, outputs: tuple[Float], weight: Float, rate: float, seed: int) -> tuple[Float]:
    """Return the gradient of the weight [R, H]."""
    check_floats(weight=(weight, "RH"), d_out=(d_out, "RH"))
    return weight_drop(d_out, rate, seed)
