"""Mirror of `refimpl.fasttrees.stack.layer` for Faster FastTrees, after the product of inputs and weights."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference
from accel.ref.support.cell import run_steps


def linear_recurrence(gates: Array, c0: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.layer` for Faster FastTrees: the outputs of `recurrence`.

    These are h [N, H], c [N, H], activations [N, G] and distance [N, 2]. gates [N, G] are the logits, with the columns
    [input master n, forget master n, out H, cell H, in H, forget H]; activations has the softmax (not the cumax) of
    each master's logits, the tanh of the cell's, and the sigmoid of the others. distance: 1 - mean(tilde f), which is
    FT-3's, and mean(tilde i).
    """
    nothing = np.zeros((0, c0.shape[1]), gates.dtype)
    return run_steps("faster_fasttrees", gates, nothing, nothing[:, 0], c0, c0, offsets)


linear_recurrence_vjp = central_difference(linear_recurrence, 1)
