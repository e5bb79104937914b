"""Mirror of `refimpl.fasttrees.stack`: dropout of the same features at all steps of a sequence, and of weights."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, ranges_of
from refimpl import randomness as ref_randomness
from refimpl.fasttrees import stack as ref_stack


def locked_dropout(x: Array, offsets: Array, rate: float, seed: int) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.locked_dropout`: (y [N, D],).

    Feature a of sequence b has element b D + a of the keep mask.
    """
    parts, width = ranges_of(offsets, len(x)), x.shape[1]
    masks = ref_randomness.keep_mask(len(parts) * width, rate, seed).astype(x.dtype).reshape(-1, width)
    return (np.concatenate([x[:0], *(x[part] * mask for part, mask in zip(parts, masks, strict=True))]),)


def weight_drop(weight: Array, rate: float, seed: int) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.weight_drop` in training: (dropped [R, H],)."""
    return (ref_stack.weight_drop(weight, rate, seed),)


locked_dropout_vjp = central_difference(locked_dropout, 1)
weight_drop_vjp = central_difference(weight_drop, 1)
