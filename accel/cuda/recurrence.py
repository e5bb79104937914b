"""Recurrent layers on the GPU, after the product of inputs and weights. Mirrors `refimpl.fasttrees.stack.layer`.

Sequences are sorted by length, and those that still run come first, so that no step is padded. A step is one matrix
product and one kernel, a block a sequence; the host does not wait between steps. If the weight fits into a first-level
cache, one kernel without products computes all steps. The backward pass is alike, then one product over all steps gives
the gradient of the weight; extra memory: twice the hidden states. The fast form is one kernel, too, whose blocks hold
the weight in shared memory together, if it fits there and sequences are few: it multiplies without tensor cores.
"""

from __future__ import annotations

from accel.cuda import device, forms
from accel.cuda.cumax import row_block
from accel.cuda.device import Array
from accel.cuda.products import fuses_sums, matmul
from accel.cuda.support import check, persistent
from accel.cuda.support.cell import Outputs, Steps, count_masters, of_step_before, steps_of
from accel.cuda.support.factors import factor

WALK_BYTES = 192 * 1024  # of a weight that every block reads at every step: first-level caches are of this size


def recurrence(gates: Array, weight: Array, bias: Array, h0: Array, c0: Array, offsets: Array, *, kind: str) -> Outputs:
    """Return (h [N, H], c [N, H], activations [N, G], distance [N, 2], or [N, 0] for kind "lstm").

    gates [N, G]: the part of the inputs in the logits [input master n | forget master n | out H | cell H | in H |
    forget H], n = 0 for kind "lstm"; weight [R, H], bias [R]: from the hidden state to the last R of them, all for
    "lstm" and "on_lstm", 4H for "fasttrees"; h0, c0 [B, H]: the states before, without a gradient; offsets [B+1] int64.
    Activations are the softmax of the master logits, sigmoid or tanh of the others; distance is 1 - mean(tilde f) and
    mean(tilde i).
    Raises ValueError naming the argument that does not fit, an empty sequence, or a row with a NaN or an infinity.
    """
    gates, weight, bias, h0, c0 = check.floats(gates=gates, weight=weight, bias=bias, h0=h0, c0=c0)
    n = count_masters(gates, h0, c0, kind)
    n_rows = 4 * h0.shape[1] if kind == "fasttrees" else gates.shape[1]
    check.shape("weight", weight, n_rows, h0.shape[1])
    check.shape("bias", bias, n_rows)
    steps = steps_of(offsets, len(gates), len(h0))
    xp, (n_sequences, n_units) = device.xp(), h0.shape
    h, c = xp.empty((2, len(gates), n_units), gates.dtype)
    activations, distance = xp.empty_like(gates), xp.empty((len(gates), 2 if n else 0), gates.dtype)
    outputs, sizes = (h, c, activations, distance), (n, n_units, n_rows)
    with check.finite_rows("gates", "h") as wrong:
        if plan := _plan(weight, 2 * n, n_sequences):
            arrays = gates, weight, bias, h0, c0, xp.ascontiguousarray(offsets), steps.order, steps.starts
            arrays += *outputs, xp.empty((n_sequences, n_rows), gates.dtype), wrong
            persistent.launch("persistent_forward", arrays, steps, sizes, plan)
        elif weight.nbytes <= WALK_BYTES:
            device.launch(
                "recurrence", "walk_forward", (n_sequences,), row_block(n_rows),
                (gates, weight, bias, h0, c0, xp.ascontiguousarray(offsets), *outputs, wrong, *sizes),
                gates.dtype, shared=(2 * n + n_units + n_rows) * gates.itemsize,
            )  # fmt: skip
        else:
            factors = factor(weight.T)
            state, before, hidden = h0[steps.order], c0[steps.order], xp.empty((n_sequences, n_rows), gates.dtype)
            for t, active in enumerate(steps.active):
                matmul(state[:active], factors, out=hidden[:active])
                device.launch(
                    "recurrence", "step_forward", (active,), row_block(n_units),
                    (gates, hidden, bias, before, steps.starts, *outputs, state, wrong, t, *sizes),
                    gates.dtype, shared=2 * n * gates.itemsize,
                )  # fmt: skip
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
    d_h, weight, h0, c0 = check.floats(d_h=d_h, weight=weight, h0=h0, c0=c0)
    n, (n_rows, n_units), n_sequences = count_masters(gates, h0, c0, kind), weight.shape, len(h0)
    steps, xp = steps_of(offsets, len(gates), n_sequences), device.xp()
    d_gates, sizes, scratch = xp.empty_like(activations), (n, n_units, n_rows), 6 * n + 2 * n_units
    if plan := _plan(weight.T, scratch, n_sequences):
        h_before, gradients = xp.empty_like(h), xp.empty((2, n_sequences, n_units), d_h.dtype)
        arrays = d_h, weight, h, c, h0, c0, activations, xp.ascontiguousarray(offsets)
        arrays += steps.order, steps.starts, *gradients, d_gates, h_before
        persistent.launch("persistent_backward", arrays, steps, sizes, plan)
    else:
        c_before, h_before = of_step_before(c, c0, offsets), of_step_before(h, h0, offsets)
        _gradients_of_gates(d_h, weight, (c, c_before, activations), offsets, steps, sizes, d_gates)
    d_recurrent = d_gates[:, d_gates.shape[1] - n_rows :]
    gradients = factor(d_recurrent)  # in bf16, rows without gaps: the product can sum their columns
    if not fuses_sums(d_gates):
        return d_gates, matmul(gradients.T, h_before), d_recurrent.sum(axis=0)
    d_bias = xp.empty(n_rows, d_h.dtype)
    return d_gates, matmul(gradients.T, h_before, sums_of_a=d_bias), d_bias


def _gradients_of_gates(
    d_h: Array, weight: Array, states: tuple[Array, ...], offsets: Array, steps: Steps, sizes: tuple[int, int, int],
    d_gates: Array,
) -> None:  # fmt: skip
    """Write d_gates, in the plain form; states: c, c of the previous step, and the activations."""
    (n, n_units, n_rows), n_sequences, xp = sizes, len(steps.starts), device.xp()
    shared = (6 * n + 2 * n_units) * d_h.itemsize
    if weight.nbytes <= WALK_BYTES:
        device.launch(
            "recurrence", "walk_backward", (n_sequences,), row_block(n_rows),
            (d_h, xp.ascontiguousarray(weight.T), *states, xp.ascontiguousarray(offsets), d_gates, *sizes),
            d_h.dtype, shared=shared + 2 * n_units * d_h.itemsize,
        )  # fmt: skip
    else:
        factors = factor(weight)
        d_hidden, d_c = xp.zeros((2, n_sequences, n_units), d_h.dtype)
        d_logits = xp.empty((n_sequences, n_rows), d_h.dtype)
        for t, active in reversed(list(enumerate(steps.active))):
            device.launch(
                "recurrence", "step_backward", (active,), row_block(n_units),
                (d_h, d_hidden, *states, steps.starts, d_c, d_gates, d_logits, t, *sizes),
                d_h.dtype, shared=shared,
            )  # fmt: skip
            if t:
                matmul(d_logits[:active], factors, out=d_hidden[:active])


def _plan(matrix: Array, scratch: int, n_sequences: int) -> persistent.Plan | None:
    """Return how blocks share out the matrix for all steps; None if the fast form is not in use or does not suit."""
    return persistent.plan(matrix, scratch, n_sequences) if forms.current().kernels == "fast" else None
