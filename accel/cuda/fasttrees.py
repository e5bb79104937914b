"""Recurrent layers on the GPU, after the product of inputs and weights. Mirrors `refimpl.fasttrees.stack.layer`.

`recurrence`: sequences sorted by length, those that still run first, so that no step is padded. A step is one matrix
product and one kernel, a block a sequence; nothing waits for the device between steps. A weight small enough to stay
near a multiprocessor needs no products in between: one kernel walks all steps. Backward the same, then one product over
all steps for the weight; extra memory: twice the hidden states.
`linear_recurrence`: a warp for every row of master gates, then a thread for every (sequence, unit); extra memory:
master gates of all steps, and backward the cells twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cuda import device
from accel.cuda.cumax import row_block
from accel.cuda.device import Array
from accel.cuda.support import check

KINDS = ("lstm", "on_lstm", "fasttrees")
WARPS = 4  # rows a block
THREADS = 128  # units a block
WALK_BYTES = 192 * 1024  # of a weight that every block reads at every step: first-level caches are of this size
Outputs = tuple[Array, Array, Array, Array]


def recurrence(gates: Array, weight: Array, bias: Array, h0: Array, c0: Array, offsets: Array, *, kind: str) -> Outputs:
    """Return (h [N, H], c [N, H], activations [N, G], distance [N, 2], or [N, 0] for kind "lstm").

    gates [N, G]: what the inputs give to the logits [input master n | forget master n | out H | cell H | in H |
    forget H], n = 0 for kind "lstm"; weight [R, H], bias [R]: from the hidden state to the last R of them, all for
    "lstm" and "on_lstm", 4H for "fasttrees"; h0, c0 [B, H]: the states before, without a gradient; offsets [B+1] int64.
    Activations are the softmax of the master logits, sigmoid or tanh of the others; distance 1 - mean(tilde f) and
    mean(tilde i).
    Raises ValueError naming the argument that does not fit, an empty sequence, or a row with a NaN or an infinity.
    """
    gates, weight, bias, h0, c0 = check.floats(gates=gates, weight=weight, bias=bias, h0=h0, c0=c0)
    n = _masters(gates, h0, c0, kind)
    n_rows = 4 * h0.shape[1] if kind == "fasttrees" else gates.shape[1]
    check.shape("weight", weight, n_rows, h0.shape[1])
    check.shape("bias", bias, n_rows)
    steps = _steps(offsets, len(gates), len(h0))
    xp, (n_sequences, n_units) = device.xp(), h0.shape
    h, c = xp.empty((2, len(gates), n_units), gates.dtype)
    activations, distance = xp.empty_like(gates), xp.empty((len(gates), 2 if n else 0), gates.dtype)
    outputs, sizes = (h, c, activations, distance), (n, n_units, n_rows)
    if weight.nbytes <= WALK_BYTES:
        device.launch(
            "fasttrees", "walk_forward", (n_sequences,), row_block(n_rows),
            (gates, weight, bias, h0, c0, steps.offsets, *outputs, *sizes),
            gates.dtype, shared=(2 * n + n_units + n_rows) * gates.itemsize,
        )  # fmt: skip
    else:
        state, before, hidden = h0[steps.order], c0[steps.order], xp.empty((n_sequences, n_rows), gates.dtype)
        for t, active in enumerate(steps.active):
            xp.dot(state[:active], weight.T, out=hidden[:active])
            device.launch(
                "fasttrees", "step_forward", (active,), row_block(n_units),
                (gates, hidden, bias, before, steps.starts, *outputs, state, t, *sizes),
                gates.dtype, shared=2 * n * gates.itemsize,
            )  # fmt: skip
    check.finite(gates=gates, h=h)
    return outputs


def recurrence_vjp(
    d_h: Array,
    outputs: Outputs,
    gates: Array,
    weight: Array,
    bias: Array,
    h0: Array,
    c0: Array,
    offsets: Array,
    *,
    kind: str,
) -> tuple[Array, Array, Array]:
    """Return the gradients of gates, weight and bias."""
    h, c, activations, _ = outputs
    d_h, weight = check.floats(d_h=d_h, weight=weight)
    n, (n_rows, n_units), n_sequences = _masters(gates, h0, c0, kind), weight.shape, len(h0)
    steps, xp = _steps(offsets, len(gates), n_sequences), device.xp()
    d_gates, c_before = xp.empty_like(activations), _before(c, c0, offsets)
    sizes, shared = (n, n_units, n_rows), (6 * n + 2 * n_units) * d_h.itemsize
    if weight.nbytes <= WALK_BYTES:
        device.launch(
            "fasttrees", "walk_backward", (n_sequences,), row_block(n_rows),
            (d_h, xp.ascontiguousarray(weight.T), c, c_before, activations, steps.offsets, d_gates, *sizes),
            d_h.dtype, shared=shared + 2 * n_units * d_h.itemsize,
        )  # fmt: skip
    else:
        d_hidden, d_c = xp.zeros((2, n_sequences, n_units), d_h.dtype)
        d_logits = xp.empty((n_sequences, n_rows), d_h.dtype)
        for t, active in reversed(list(enumerate(steps.active))):
            device.launch(
                "fasttrees", "step_backward", (active,), row_block(n_units),
                (d_h, d_hidden, c, c_before, activations, steps.starts, d_c, d_gates, d_logits, t, *sizes),
                d_h.dtype, shared=shared,
            )  # fmt: skip
            if t:
                xp.dot(d_logits[:active], weight, out=d_hidden[:active])
    d_recurrent = d_gates[:, d_gates.shape[1] - n_rows :]
    return d_gates, xp.dot(d_recurrent.T, _before(h, h0, offsets)), d_recurrent.sum(axis=0)


def linear_recurrence(gates: Array, c0: Array, offsets: Array) -> Outputs:
    """Return the outputs of `recurrence` where no logit hears of the hidden state, as in Faster FastTrees.

    gates [N, 2n + 4H]; c0 [B, H]; offsets [B+1] int64. Raises ValueError as `recurrence` does.
    """
    gates, c0 = check.floats(gates=gates, c0=c0)
    n, xp, (n_sequences, n_units) = _masters(gates, c0, c0, "faster_fasttrees"), device.xp(), c0.shape
    starts = _steps(offsets, len(gates), n_sequences).offsets
    h, c = xp.empty((2, len(gates), n_units), gates.dtype)
    activations, distance = xp.empty_like(gates), xp.empty((len(gates), 2), gates.dtype)
    rises = xp.empty((len(gates), 2 * n), gates.dtype)
    device.launch(
        "fasttrees", "linear_masters", (-(-2 * len(gates) // WARPS),), (32, WARPS),
        (gates, activations, rises, distance, len(gates), n, n_units), gates.dtype,
    )  # fmt: skip
    device.launch(
        "fasttrees", "linear_forward", (n_sequences, -(-n_units // THREADS)), (THREADS,),
        (gates, rises, c0, starts, h, c, activations, n, n_units), gates.dtype,
    )  # fmt: skip
    check.finite(gates=gates, h=h)
    return h, c, activations, distance


def linear_recurrence_vjp(d_h: Array, outputs: Outputs, gates: Array, c0: Array, offsets: Array) -> tuple[Array]:
    """Return the gradient of gates."""
    _, c, activations, _ = outputs
    d_h, c0 = check.floats(d_h=d_h, c0=c0)
    n, xp, (n_sequences, n_units) = _masters(gates, c0, c0, "faster_fasttrees"), device.xp(), c0.shape
    rises, d_c, d_gates = xp.empty((len(gates), 2 * n), d_h.dtype), xp.empty_like(c), xp.empty_like(activations)
    device.launch(
        "fasttrees", "linear_rises", (-(-2 * len(gates) // WARPS),), (32, WARPS),
        (activations, rises, len(gates), n, n_units), d_h.dtype,
    )  # fmt: skip
    device.launch(
        "fasttrees", "linear_backward", (n_sequences, -(-n_units // THREADS)), (THREADS,),
        (d_h, c, activations, rises, xp.ascontiguousarray(offsets), d_c, n, n_units), d_h.dtype,
    )  # fmt: skip
    device.launch(
        "fasttrees", "linear_backward_rows", (len(gates),), row_block(n_units),
        (d_h, c, _before(c, c0, offsets), activations, d_c, d_gates, n, n_units),
        d_h.dtype, shared=(6 * n + 2 * n_units) * d_h.itemsize,
    )  # fmt: skip
    return (d_gates,)


@dataclass(frozen=True)
class _Steps:
    """Which sequences have a step t: the first active[t] of `order`, the longest first."""

    active: list[int]
    order: Array  # [B] int64 sequences
    starts: Array  # [B] int64 their first rows, in that order
    offsets: Array  # [B + 1] int64 as given


def _steps(offsets: Array, n_rows: int, n_sequences: int) -> _Steps:
    check.shape("offsets", offsets, n_sequences + 1)
    host = check.sequence_offsets("offsets", offsets, n_rows)
    lengths = np.diff(host)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    order = np.argsort(-lengths, kind="stable")
    ended = np.bincount(lengths, minlength=1).cumsum()[:-1]  # sequences of t steps or fewer
    xp = device.xp()
    return _Steps(
        (n_sequences - ended).tolist(), xp.asarray(order), xp.asarray(host[order]), xp.ascontiguousarray(offsets)
    )


def _masters(gates: Array, h0: Array, c0: Array, kind: str) -> int:
    """Return how many master gates of each sort there are; raise ValueError if shapes or the kind do not fit."""
    if kind not in (*KINDS, "faster_fasttrees"):
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    check.shape("gates", gates, "N", "G")
    check.shape("c0", c0, "B", "H")
    check.shape("h0", h0, *c0.shape)
    n_units = c0.shape[1]
    n, odd = divmod(gates.shape[1] - 4 * n_units, 2)
    if n_units == 0 or odd or (n != 0 if kind == "lstm" else n < 1 or n_units % n != 0):
        raise ValueError(f"gates: {gates.shape[1]} columns do not fit {n_units} hidden units of kind {kind}")
    return n


def _before(x: Array, first: Array, offsets: Array) -> Array:
    """Return for every row of x [N, H] the row of the step before, for the first ones those of first [B, H]."""
    before = device.xp().empty_like(x)
    before[1:] = x[:-1]
    before[offsets[:-1]] = first
    return before
