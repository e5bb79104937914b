"""The steps of recurrent layers, sequence by sequence."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, finite, of_sequence, one_dtype, sequences_of
from refimpl.fasttrees.cells import lstm_update, sigmoid, structured_update
from refimpl.fasttrees.cumax import master_gates
from refimpl.layers import softmax


def count_masters(kind: str, gates: Array, c0: Array) -> int:
    """Return n, the width of a master gate; refuse gates whose number of columns is not 2n + 4H."""
    n_units = c0.shape[1]
    n, odd = divmod(gates.shape[1] - 4 * n_units, 2)
    if odd or (n != 0 if kind == "lstm" else n < 1 or n_units % n):
        raise ValueError(f"gates: {gates.shape[1]} columns do not fit {n_units} hidden units of kind {kind}")
    return n


def run_steps(kind: str, gates: Array, weight: Array, bias: Array, h0: Array, c0: Array, offsets: Array) -> Outputs:
    """Return h [N, H], c [N, H], activations [N, G] and distance [N, 2] or [N, 0] of every step of every sequence.

    weight [R, H] times the hidden state, plus bias [R], is added to the last R logits.
    """
    one_dtype(gates=gates, weight=weight, bias=bias, c0=c0, h0=h0)
    finite(gates=gates)
    n, n_units, parts = count_masters(kind, gates, c0), c0.shape[1], sequences_of(offsets, len(gates))
    if h0.shape != (len(parts), n_units) or c0.shape != h0.shape:
        raise ValueError(f"h0, c0: shapes {h0.shape} and {c0.shape} are not {(len(parts), n_units)} as offsets say")
    update = lstm_update if kind == "lstm" else structured_update
    h, c = (np.empty((len(gates), n_units), gates.dtype) for _ in range(2))
    activations, distance = np.empty_like(gates), np.empty((len(gates), 2 if n else 0), gates.dtype)
    for b, part in enumerate(parts):
        hidden, cells = h0[b], c0[b]
        for t in range(part.start, part.stop):
            logits = gates[t].copy()
            logits[len(logits) - len(weight) :] += weight @ hidden + bias
            hidden, cells, _ = of_sequence(b, lambda z=logits, before=cells: update(z, before))
            h[t], c[t] = hidden, cells
            activations[t], distance[t] = _activations(logits, n)
    return h, c, activations, distance


def _activations(logits: Array, n: int) -> tuple[Array, Array]:
    """Return the softmax of master logits and the activations of the others; [1 - mean(tilde f), mean(tilde i)]."""
    inputs, forgets = logits[:n], logits[n : 2 * n]
    out, cell, i, f = np.split(logits[2 * n :], 4)
    units = [sigmoid(out), np.tanh(cell), sigmoid(i), sigmoid(f)]
    if n == 0:
        return np.concatenate(units), logits[:0]
    tilde_f, tilde_i = master_gates(forgets, inputs)
    return np.concatenate([softmax(inputs), softmax(forgets), *units]), np.array([1 - tilde_f.mean(), tilde_i.mean()])
