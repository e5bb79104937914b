"""The LSTM, ON-LSTM and FastTrees layers, step by step over all sequences at once, and their gradients.

Mirrors `refimpl.fasttrees.stack.layer`, after the product of inputs and weights.
The sequences are sorted by length, so that those that still run are the first rows of every product, and no step is
padded. Within a step, parallel over sequences; the gradient of the weight is one product over all steps. Memory is the
outputs and a copy of the weight, and in the gradient also one of the hidden states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_finite, check_floats, check_offsets
from accel.cpu.support.cell import activate, copy, master_gates, master_gates_vjp, softmax, update, update_vjp
from accel.cpu.support.kernels import chunk_begin, n_chunks
from accel.cpu.support.products import factor, multiply, products
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Offsets = NDArray[np.int64]
Outputs = tuple[Float, Float, Float, Float]
KINDS = ("lstm", "on_lstm", "fasttrees")


class Steps(NamedTuple):
    """The sequences that take part in each step."""

    order: Offsets  # [B] the sequences, longest first
    begins: Offsets  # [B] their first rows, in that order
    active: list[int]  # how many of them have a step t


def recurrence(
    gates: Float, weight: Float, bias: Float, h0: Float, c0: Float, offsets: Offsets, *, kind: str
) -> Outputs:
    """Return hidden states, cells, activations and distances of every step of every sequence.

    Spec: FT-3, of a batch.

    Parameters
    ----------
    gates : [N, G]
        What the inputs give to the logits of [input master n | forget master n | out H | cell H | in H | forget H].
    weight : [R, H], bias : [R]
        From the hidden state to the last R of them: all for kind "lstm" (n = 0) and "on_lstm", 4H for "fasttrees".
    h0, c0 : [B, H]
        The state before each sequence; no gradient flows into it.

    Returns
    -------
    h [N, H], c [N, H], activations [N, G], distance [N, 2]
        Softmax of the master logits and activations of the others; 1 - mean(tilde f) and mean(tilde i), or [N, 0].

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, an empty sequence, a NaN or an infinity.
    """
    n_master = _check(gates, weight, bias, h0, c0, offsets, kind)
    steps = steps_of(offsets)
    gates, activations = np.ascontiguousarray(gates), np.empty(gates.shape, gates.dtype)
    h, c = (np.empty((len(gates), h0.shape[1]), gates.dtype) for _ in range(2))
    distance = np.zeros((len(gates), 2 if n_master else 0), gates.dtype)
    hidden, first_cells, recurrent = h0[steps.order], c0[steps.order], factor(weight.T)
    logits = products(recurrent, len(h0))
    logits[:] = 0
    for t, active in enumerate(steps.active):
        if t or h0.any():
            multiply(hidden, recurrent, active, logits)
        _step(
            gates, bias, logits, first_cells, steps.begins, t, active, n_master,
            hidden, h, c, activations, distance, n_chunks(active, 1),
        )  # fmt: skip
    check_finite("h", h)
    return h, c, activations, distance


def recurrence_vjp(
    d_out: Float, outputs: Outputs, gates: Float, weight: Float, bias: Float, h0: Float, c0: Float, offsets: Offsets,
    *, kind: str,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Return the gradients of gates, weight and bias."""
    n_master = _check(gates, weight, bias, h0, c0, offsets, kind)
    h, c, activations, _ = outputs
    check_floats(h=(h, "NH"), d_out=(d_out, "NH"))
    steps = steps_of(offsets)
    d_out, first_cells, d_gates = np.ascontiguousarray(d_out), c0[steps.order], np.empty(gates.shape, gates.dtype)
    recurrent, d_logits = factor(weight), np.empty((len(h0), len(weight)), gates.dtype)
    d_hidden, d_cells = products(recurrent, len(h0)), np.zeros(h0.shape, gates.dtype)
    d_hidden[:] = 0
    for t, active in reversed(list(enumerate(steps.active))):
        _step_vjp(
            d_out, c, activations, first_cells, steps.begins, t, active, n_master,
            d_hidden, d_cells, d_logits, d_gates, n_chunks(active, 1),
        )  # fmt: skip
        if t:
            multiply(d_logits, recurrent, active, d_hidden)
    before = np.empty_like(h)
    before[1:] = h[:-1]
    before[offsets[:-1]] = h0
    d_recurrent = d_gates[:, gates.shape[1] - len(weight) :]
    return d_gates, np.matmul(d_recurrent.T, before), d_recurrent.sum(axis=0)


def steps_of(offsets: Offsets) -> Steps:
    """Return the schedule of the sequences; raise ValueError if one is empty."""
    lengths = np.diff(offsets)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    order = np.argsort(-lengths, kind="stable")
    ends = np.bincount(lengths, minlength=1)
    return Steps(order, offsets[order], (len(lengths) - np.cumsum(ends)[:-1]).tolist())


def _check(
    gates: Float, weight: Float, bias: Float, h0: Float, c0: Float, offsets: Offsets, kind: str
) -> int:  # fmt: skip
    """Check the arguments and return the number 2n of master logits."""
    sizes = check_floats(gates=(gates, "NG"), weight=(weight, "RH"), bias=(bias, "R"), h0=(h0, "BH"), c0=(c0, "BH"))
    check_offsets("offsets", offsets, sizes["B"], sizes["N"])
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    n_master = check_masters(sizes["G"], sizes["H"], kind != "lstm")
    if sizes["R"] != (4 * sizes["H"] if kind == "fasttrees" else sizes["G"]):
        raise ValueError(f"weight: {sizes['R']} rows do not fit {sizes['G']} gates of kind {kind}")
    check_finite("gates", gates)
    return n_master


def check_masters(n_gates: int, n_units: int, structured: bool) -> int:
    """Return how many of the gates are master logits; raise ValueError if they cannot be shared among the units."""
    n_master = n_gates - 4 * n_units
    fits = n_master > 0 and n_master % 2 == 0 and n_units % (n_master // 2) == 0 if structured else n_master == 0
    if not fits:
        raise ValueError(f"gates: {n_gates} columns do not fit {n_units} hidden units")
    return n_master


@team_kernel()
def _step(
    part, gates, bias, logits, first_cells, begins, t, active, n_master, hidden, h, c, activations, distance, chunks
):  # fmt: skip
    n_units, skipped = h.shape[1], gates.shape[1] - bias.size
    for chunk in share(part, chunks):
        tilde = np.empty((2 if n_master else 0, n_units), h.dtype)
        for b in range(chunk_begin(chunk, chunks, active), chunk_begin(chunk + 1, chunks, active)):
            i = begins[b] + t
            z, row, recurrent = activations[i], gates[i], logits[b]
            copy(row[:skipped], z[:skipped])
            later, rest = z[skipped:], row[skipped:]
            for a in range(bias.size):
                later[a] = rest[a] + (recurrent[a] + bias[a])
            if n_master:
                softmax(z[: n_master // 2])
                softmax(z[n_master // 2 : n_master])
                master_gates(z[:n_master], tilde, distance[i])
            activate(z[n_master:])
            update(z[n_master:], tilde, c[i - 1] if t else first_cells[b], c[i], h[i])
            copy(h[i], hidden[b])


@team_kernel()
def _step_vjp(
    part, d_out, c, activations, first_cells, begins, t, active, n_master, d_hidden, d_cells, d_logits, d_gates, chunks
):  # fmt: skip
    n_units, skipped = c.shape[1], d_gates.shape[1] - d_logits.shape[1]
    for chunk in share(part, chunks):
        tilde = np.empty((2 if n_master else 0, n_units), c.dtype)
        d_tilde = np.empty_like(tilde)
        for b in range(chunk_begin(chunk, chunks, active), chunk_begin(chunk + 1, chunks, active)):
            i = begins[b] + t
            z, d_z, d_h, above = activations[i], d_gates[i], d_hidden[b], d_out[i]
            for a in range(n_units):
                d_h[a] += above[a]
            if n_master:
                master_gates(z[:n_master], tilde, np.empty(2, c.dtype))
            update_vjp(
                z[n_master:], tilde, c[i - 1] if t else first_cells[b], c[i], d_h, d_cells[b], d_z[n_master:], d_tilde
            )  # fmt: skip
            if n_master:
                master_gates_vjp(z[:n_master], d_tilde, d_z[:n_master])
            copy(d_z[skipped:], d_logits[b])
