"""The recurrence of Faster FastTrees on the GPU. Mirrors `refimpl.fasttrees.stack.layer` for that kind.

A warp for every row of master gates, then a thread for every (sequence, unit). Extra memory: the master gates of all
steps, and in the backward pass twice the cells.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.cumax import row_block
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.cell import Outputs, count_masters, of_step_before, steps_of

WARPS = 4  # rows a block
THREADS = 128  # units a block
AHEAD = 4  # as in linear_recurrence.cu


def linear_recurrence(gates: Array, c0: Array, offsets: Array) -> Outputs:
    """Return the outputs of `recurrence` if no logit depends on the hidden state, as in Faster FastTrees.

    gates [N, 2n + 4H]; c0 [B, H]; offsets [B+1] int64. Raises ValueError as `recurrence` does.
    """
    gates, c0 = check.floats(gates=gates, c0=c0)
    n, xp, (n_sequences, n_units) = count_masters(gates, c0, c0, "faster_fasttrees"), device.xp(), c0.shape
    steps_of(offsets, len(gates), n_sequences)
    h, c = xp.empty((2, len(gates), n_units), gates.dtype)
    activations, distance = xp.empty_like(gates), xp.empty((len(gates), 2), gates.dtype)
    rises = xp.empty((len(gates), 2 * n), gates.dtype)
    with check.finite_rows("gates", "h") as wrong:
        device.launch(
            "linear_recurrence", "linear_masters", (-(-2 * len(gates) // WARPS),), (32, WARPS),
            (gates, activations, rises, distance, wrong, len(gates), n, n_units), gates.dtype,
        )  # fmt: skip
        device.launch(
            "linear_recurrence", "linear_forward", (n_sequences, -(-n_units // THREADS)), (THREADS,),
            (gates, rises, c0, xp.ascontiguousarray(offsets), h, c, activations, wrong, n, n_units), gates.dtype,
        )  # fmt: skip
    return h, c, activations, distance


def linear_recurrence_vjp(d_h: Array, outputs: Outputs, gates: Array, c0: Array, offsets: Array) -> tuple[Array]:
    """Return the gradient of gates."""
    _, c, activations, _ = outputs
    d_h, c0 = check.floats(d_h=d_h, c0=c0)
    n, xp, (n_sequences, n_units) = count_masters(gates, c0, c0, "faster_fasttrees"), device.xp(), c0.shape
    rises, d_c, d_gates = xp.empty((len(gates), 2 * n), d_h.dtype), xp.empty_like(c), xp.empty_like(activations)
    device.launch(
        "linear_recurrence", "linear_rises", (-(-2 * len(gates) // WARPS),), (32, WARPS),
        (activations, rises, len(gates), n, n_units), d_h.dtype,
    )  # fmt: skip
    device.launch(
        "linear_recurrence", "linear_backward", (n_sequences, -(-n_units // THREADS)), (THREADS,),
        (d_h, c, activations, rises, xp.ascontiguousarray(offsets), d_c, n, n_units), d_h.dtype,
    )  # fmt: skip
    device.launch(
        "linear_recurrence", "linear_backward_rows", (len(gates),), row_block(n_units),
        (d_h, c, of_step_before(c, c0, offsets), activations, d_c, d_gates, n, n_units),
        d_h.dtype, shared=(6 * n + 2 * n_units) * d_h.itemsize,
    )  # fmt: skip
    return (d_gates,)
