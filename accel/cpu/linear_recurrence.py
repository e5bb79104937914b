"""The Faster FastTrees layer, in which only the cells are recurrent, and its gradient.

Mirrors `refimpl.fasttrees.stack.layer`, after the product of inputs and weights.
Parallel over sequences; one kernel runs all steps of a sequence. Memory is the outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.recurrence import check_masters, steps_of
from accel.cpu.support.arguments import check_finite, check_floats, check_offsets, contiguous
from accel.cpu.support.cell import activate, copy, master_gates, master_gates_vjp, softmax, update, update_vjp
from accel.cpu.support.kernels import chunk_begin, n_chunks
from accel.cpu.support.rows import row_sum
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Offsets = NDArray[np.int64]
Outputs = tuple[Float, Float, Float, Float]


@contiguous
def linear_recurrence(gates: Float, c0: Float, offsets: Offsets) -> Outputs:
    """Return hidden states, cells, activations and distances of every step of every sequence, as `recurrence` does.

    Spec: FT-6, of a batch.

    Parameters
    ----------
    gates : [N, 2n + 4H]
        The logits of [input master n | forget master n | out H | cell H | in H | forget H].
    c0 : [B, H]
        The cells before each sequence; no gradient flows into them.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, an empty sequence, a NaN or an infinity.
    """
    n_master = _check(gates, c0, offsets)
    activations = np.empty(gates.shape, gates.dtype)
    h, c = (np.empty((len(gates), c0.shape[1]), gates.dtype) for _ in range(2))
    distance = np.empty((len(gates), 2), gates.dtype)
    doubtful = np.zeros(len(c0), np.bool_)  # a row of gates or h has a NaN or an infinity, or its sum overflows
    _walk_forward(gates, c0, offsets, n_master, h, c, activations, distance, doubtful, n_chunks(len(c0), 1))
    if doubtful.any():
        check_finite("gates", gates)
        check_finite("h", h)
    return h, c, activations, distance


@contiguous
def linear_recurrence_vjp(d_out: Float, outputs: Outputs, gates: Float, c0: Float, offsets: Offsets) -> tuple[Float]:
    """Return the gradient of gates [N, 2n + 4H]."""
    n_master = _check(gates, c0, offsets)
    _, c, activations, _ = outputs
    check_floats(c=(c, "NH"), d_out=(d_out, "NH"))
    d_gates = np.empty(gates.shape, gates.dtype)
    _walk_backward(d_out, c, activations, c0, offsets, n_master, d_gates, n_chunks(len(c0), 1))
    return (d_gates,)


def _check(gates: Float, c0: Float, offsets: Offsets) -> int:
    """Check the arguments and return the number 2n of master logits."""
    sizes = check_floats(gates=(gates, "NG"), c0=(c0, "BH"))
    check_offsets("offsets", offsets, sizes["B"], sizes["N"])
    steps_of(offsets)
    return check_masters(sizes["G"], sizes["H"], True)


@team_kernel()
def _walk_forward(part, gates, c0, offsets, n_master, h, c, activations, distance, doubtful, chunks):
    for chunk in share(part, chunks):
        tilde = np.empty((2, h.shape[1]), h.dtype)
        for b in range(chunk_begin(chunk, chunks, len(c0)), chunk_begin(chunk + 1, chunks, len(c0))):
            before = c0[b]
            for i in range(offsets[b], offsets[b + 1]):
                z = activations[i]
                doubtful[b] |= not np.isfinite(row_sum(gates[i]))
                copy(gates[i], z)
                softmax(z[: n_master // 2])
                softmax(z[n_master // 2 : n_master])
                master_gates(z[:n_master], tilde, distance[i])
                activate(z[n_master:])
                update(z[n_master:], tilde, before, c[i], h[i])
                doubtful[b] |= not np.isfinite(row_sum(h[i]))
                before = c[i]


@team_kernel()
def _walk_backward(part, d_out, c, activations, c0, offsets, n_master, d_gates, chunks):
    for chunk in share(part, chunks):
        tilde, d_tilde = np.empty((2, c.shape[1]), c.dtype), np.empty((2, c.shape[1]), c.dtype)
        d_c = np.empty(c.shape[1], c.dtype)
        for b in range(chunk_begin(chunk, chunks, len(c0)), chunk_begin(chunk + 1, chunks, len(c0))):
            d_c[:] = 0
            for i in range(offsets[b + 1] - 1, offsets[b] - 1, -1):
                z, d_z, before = activations[i], d_gates[i], c[i - 1] if i > offsets[b] else c0[b]
                master_gates(z[:n_master], tilde, np.empty(2, c.dtype))
                update_vjp(z[n_master:], tilde, before, c[i], d_out[i], d_c, d_z[n_master:], d_tilde)
                master_gates_vjp(z[:n_master], d_tilde, d_z[:n_master])
