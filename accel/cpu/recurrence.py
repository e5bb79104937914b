"""The LSTM, ON-LSTM and FastTrees layers, step by step over all sequences at once, and their gradients.

Mirrors `refimpl.fasttrees.stack.layer`, after the product of inputs and weights.
The sequences are sorted by length, so that those which still run are the first rows of every product, and no step is
padded. One team of threads runs all steps: the threads take turns at parts of the product of a step, then at its
sequences. The gradient of the weight is one product over all steps. Memory is the outputs and a copy of the weight, and
in the gradient also a copy of the hidden states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_finite, check_floats, check_offsets, contiguous
from accel.cpu.support.bfloat16 import put
from accel.cpu.support.cell import activate, add, copy, master_gates, master_gates_vjp, softmax, update, update_vjp
from accel.cpu.support.kernels import MOST_CHUNKS, chunk_begin, kernel
from accel.cpu.support.products import factor, multiply, n_tiles, products, rows_for
from accel.cpu.support.rows import row_sum
from accel.cpu.support.team import share, team_kernel
from accel.cpu.support.turns import counters, end, take, wait

Float = NDArray[Any]
Offsets = NDArray[np.int64]
Outputs = tuple[Float, Float, Float, Float]
KINDS = ("lstm", "on_lstm", "fasttrees")
MOST_TURNS = 64
"""The largest number of parts into which a product is cut."""


class Steps(NamedTuple):
    """The sequences that take part in each step."""

    order: Offsets  # [B] the sequences, longest first
    begins: Offsets  # [B] their first rows, in that order
    active: Offsets  # [T] how many of them have a step t


@contiguous
def recurrence(
    gates: Float, weight: Float, bias: Float, h0: Float, c0: Float, offsets: Offsets, *, kind: str
) -> Outputs:
    """Return hidden states, cells, activations and distances of every step of every sequence.

    Spec: FT-3, of a batch.

    Parameters
    ----------
    gates : [N, G]
        The inputs' part of the logits [input master n | forget master n | out H | cell H | in H | forget H].
    weight : [R, H], bias : [R]
        From the hidden state to the last R logits: to all G for kind "lstm" (n = 0) and "on_lstm", 4H for "fasttrees".
    h0, c0 : [B, H]
        The state before each sequence; no gradient flows into it.

    Returns
    -------
    h [N, H], c [N, H], activations [N, G], distance [N, 2]
        Activations: the softmax of the master logits, the sigmoid or tanh of the others. Distance: 1 - mean(tilde f)
        and mean(tilde i); [N, 0] for kind "lstm".

    Raises
    ------
    ValueError
        Shapes or dtypes that do not fit, an empty sequence, a NaN or an infinity.
    """
    n_master = _check(gates, weight, bias, h0, c0, offsets, kind)
    steps = steps_of(offsets)
    activations = np.empty(gates.shape, gates.dtype)
    h, c = (np.empty((len(gates), h0.shape[1]), gates.dtype) for _ in range(2))
    distance = np.zeros((len(gates), 2 if n_master else 0), gates.dtype)
    panels = factor(weight.T)
    logits = products(panels, len(h0))
    logits[:] = 0
    doubtful = np.zeros(len(h0), np.bool_)  # a row of gates or h has a NaN or an infinity, or its sum overflows
    _walk_forward(
        gates, bias, panels, logits, c0[steps.order], steps.begins, steps.active, h0.any(), n_master,
        rows_for(panels, h0[steps.order]), h, c, activations, distance, doubtful, counters(), get_num_threads(),
    )  # fmt: skip
    if doubtful.any():
        check_finite("gates", gates)
        check_finite("h", h)
    return h, c, activations, distance


@contiguous
def recurrence_vjp(
    d_out: Float, outputs: Outputs, gates: Float, weight: Float, bias: Float, h0: Float, c0: Float, offsets: Offsets,
    *, kind: str,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Return the gradients of gates [N, G], weight [R, H] and bias [R]."""
    n_master = _check(gates, weight, bias, h0, c0, offsets, kind)
    h, c, activations, _ = outputs
    check_floats(h=(h, "NH"), d_out=(d_out, "NH"))
    steps = steps_of(offsets)
    d_gates, panels = np.empty(gates.shape, gates.dtype), factor(weight)
    d_logits = rows_for(panels, np.zeros((len(h0), len(weight)), gates.dtype))
    d_cells = np.zeros(h0.shape, gates.dtype)
    d_hidden = products(panels, len(h0))
    d_hidden[:] = 0
    d_biases = np.zeros((min(MOST_CHUNKS, len(h0)), len(weight)), gates.dtype)
    _walk_backward(
        d_out, c, activations, panels, c0[steps.order], steps.begins, steps.active, n_master,
        d_hidden, d_cells, d_logits, d_gates, d_biases, counters(), get_num_threads(),
    )  # fmt: skip
    before = np.empty_like(h)
    before[1:] = h[:-1]
    before[offsets[:-1]] = h0
    d_recurrent = d_gates[:, gates.shape[1] - len(weight) :]
    return d_gates, np.matmul(d_recurrent.T, before), d_biases.sum(axis=0)


def steps_of(offsets: Offsets) -> Steps:
    """Return the schedule of the sequences; raise ValueError if one is empty."""
    lengths = np.diff(offsets)
    if (lengths == 0).any():
        raise ValueError(f"sequence {int(np.argmin(lengths))}: empty")
    order = np.argsort(-lengths, kind="stable")
    ends = np.bincount(lengths, minlength=1)
    return Steps(order, offsets[order], len(lengths) - np.cumsum(ends)[:-1])


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
    return n_master


def check_masters(n_gates: int, n_units: int, structured: bool) -> int:
    """Return how many of the gates are master logits; raise ValueError if they cannot be shared among the units."""
    n_master = n_gates - 4 * n_units
    fits = n_master > 0 and n_master % 2 == 0 and n_units % (n_master // 2) == 0 if structured else n_master == 0
    if not fits:
        raise ValueError(f"gates: {n_gates} columns do not fit {n_units} hidden units")
    return n_master


@team_kernel()
def _walk_forward(
    part, gates, bias, panels, logits, first_cells, begins, active, has_state, n_master, hidden, h, c, activations,
    distance, doubtful, counters, workers,
):  # fmt: skip
    for _ in share(part, workers):
        tilde = np.empty((2 if n_master else 0, h.shape[1]), h.dtype)
        first, turn = 0, take(counters)
        for t in range(len(active)):
            rows = active[t]
            if t or has_state:
                first, turn = _multiply(hidden, panels, rows, logits, counters, first, turn)
            chunks = min(MOST_CHUNKS, rows)
            while turn < first + chunks:
                wait(counters, first)
                for b in range(chunk_begin(turn - first, chunks, rows), chunk_begin(turn - first + 1, chunks, rows)):
                    i = begins[b] + t
                    doubtful[b] |= not np.isfinite(row_sum(gates[i]))
                    _step(
                        gates[i], bias, logits[b], c[i - 1] if t else first_cells[b], n_master, tilde,
                        activations[i], c[i], h[i], distance[i],
                    )  # fmt: skip
                    doubtful[b] |= not np.isfinite(row_sum(h[i]))
                    put(h[i], hidden[b])
                end(counters)
                turn = take(counters)
            first += chunks


@team_kernel()
def _walk_backward(
    part, d_out, c, activations, panels, first_cells, begins, active, n_master, d_hidden, d_cells, d_logits, d_gates,
    d_biases, counters, workers,
):  # fmt: skip
    for _ in share(part, workers):
        tilde = np.empty((2 if n_master else 0, c.shape[1]), c.dtype)
        d_tilde = np.empty_like(tilde)
        first, turn = 0, take(counters)
        for t in range(len(active) - 1, -1, -1):
            rows = active[t]
            chunks = min(MOST_CHUNKS, rows)
            while turn < first + chunks:
                wait(counters, first)
                for b in range(chunk_begin(turn - first, chunks, rows), chunk_begin(turn - first + 1, chunks, rows)):
                    i = begins[b] + t
                    _step_vjp(
                        d_out[i], d_hidden[b], d_cells[b], activations[i], c[i - 1] if t else first_cells[b], c[i],
                        n_master, tilde, d_tilde, d_gates[i],
                    )  # fmt: skip
                    d_recurrent = d_gates[i, d_gates.shape[1] - d_biases.shape[1] :]
                    put(d_recurrent, d_logits[b])
                    add(d_recurrent, d_biases[turn - first])
                end(counters)
                turn = take(counters)
            first += chunks
            if t:
                first, turn = _multiply(d_logits, panels, rows, d_hidden, counters, first, turn)


@kernel()
def _multiply(x, panels, rows, out, counters, first, turn):
    """Take turns, from number `first`, at the product of the first rows of x and a weight.

    Returns the first turn of the next phase, and the turn that this thread has taken after the phase.
    """
    tiles = n_tiles(rows)
    chunks = min(MOST_TURNS, len(panels) * tiles)
    while turn < first + chunks:
        wait(counters, first)
        begin = chunk_begin(turn - first, chunks, len(panels) * tiles)
        stop = chunk_begin(turn - first + 1, chunks, len(panels) * tiles)
        multiply(x, panels, rows, begin, stop, out)
        end(counters)
        turn = take(counters)
    return first + chunks, turn


@kernel()
def _step(gates, bias, logits, c_before, n_master, tilde, z, c, h, distance):
    """Set activations z [G], c, h and the distance of one step of one sequence."""
    start = gates.size - bias.size
    copy(gates[:start], z[:start])
    later, rest = z[start:], gates[start:]
    for a in range(bias.size):
        later[a] = rest[a] + (logits[a] + bias[a])
    if n_master:
        softmax(z[: n_master // 2])
        softmax(z[n_master // 2 : n_master])
        master_gates(z[:n_master], tilde, distance)
    activate(z[n_master:])
    update(z[n_master:], tilde, c_before, c, h)


@kernel()
def _step_vjp(d_out, d_h, d_c, z, c_before, c, n_master, tilde, d_tilde, d_z):
    """Set d_z [G]; d_h and d_c come from later steps: add d_out to d_h, replace d_c by the gradient of c_before."""
    for a in range(d_out.size):  # not d_h.size: d_h is padded to whole panels
        d_h[a] += d_out[a]
    if n_master:
        master_gates(z[:n_master], tilde, np.empty(2, c.dtype))
    update_vjp(z[n_master:], tilde, c_before, c, d_h, d_c, d_z[n_master:], d_tilde)
    if n_master:
        master_gates_vjp(z[:n_master], d_tilde, d_z[:n_master])
