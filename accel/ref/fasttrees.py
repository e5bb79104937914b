"""Mirror of `refimpl.fasttrees.cells`: recurrences after the product of inputs and weights, gates, and trees."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import (
    Array,
    Outputs,
    central_difference,
    finite,
    of_sequence,
    offsets_of,
    one_dtype,
    ranges_of,
)
from refimpl.fasttrees.cells import lstm_update, sigmoid, structured_update
from refimpl.fasttrees.cumax import master_gates
from refimpl.fasttrees.distance_trees import distance_trees as ref_distance_trees
from refimpl.fasttrees.transformer_gate import tree_gate as ref_tree_gate
from refimpl.layers import softmax
from refimpl.trees import spans


def recurrence(gates: Array, weight: Array, bias: Array, h0: Array, c0: Array, offsets: Array, *, kind: str) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.layer`: h [N, H], c [N, H], activations [N, G], distance [N, 2] or [N, 0]."""
    if kind not in ("lstm", "on_lstm", "fasttrees"):
        raise ValueError(f"kind: {kind!r} is not one of lstm, on_lstm, fasttrees")
    _masters(kind, gates, c0)
    n_rows = 4 * c0.shape[1] if kind == "fasttrees" else gates.shape[1]
    if weight.shape != (n_rows, c0.shape[1]) or bias.shape != (n_rows,):
        raise ValueError(f"weight, bias: shapes {weight.shape} and {bias.shape} do not fit {n_rows} rows")
    return _steps(kind, gates, weight, bias, h0, c0, offsets)


def linear_recurrence(gates: Array, c0: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.layer` for Faster FastTrees: the outputs of `recurrence`."""
    nothing = np.zeros((0, c0.shape[1]), gates.dtype)
    return _steps("faster_fasttrees", gates, nothing, nothing[:, 0], c0, c0, offsets)


def tree_gate(a: Array, b: Array, f: Array, x: Array) -> Outputs:
    """Mirror of `refimpl.fasttrees.transformer_gate.tree_gate`, row by row: (y [N, d],)."""
    one_dtype(a=a, b=b, f=f, x=x)
    finite(a=a, b=b, f=f)
    if f.shape != x.shape or a.shape != b.shape or len(a) != len(x) or x.shape[1] % max(a.shape[1], 1):
        raise ValueError(f"a: shapes {a.shape}, {b.shape}, {f.shape} do not fit x of shape {x.shape}")
    rows = [ref_tree_gate(*row) for row in zip(a, b, f, x, strict=True)]
    return (np.array(rows, x.dtype).reshape(x.shape),)


def distance_trees(distances: Array, offsets: Array, *, split: str = "biased") -> Outputs:
    """Mirror of `refimpl.fasttrees.distance_trees`: (spans [S, 2] of two words or more, span_offsets [B+1])."""
    finite(distances=distances)
    nodes, counts = [], []
    for part in _sequences(offsets, len(distances)):
        words = [str(i) for i in range(part.stop - part.start)]
        tree = ref_distance_trees(words, distances[part], split)
        nodes += [(i, j) for _, i, j in spans(tree) if j > i]
        counts.append(len(nodes) - sum(counts))
    return np.array(nodes, np.int32).reshape(-1, 2), offsets_of(counts)


def _sequences(offsets: Array, n_rows: int) -> list[slice]:
    parts = ranges_of(offsets)
    for b, part in enumerate(parts):
        if part.start == part.stop:
            raise ValueError(f"sequence {b}: empty")
    if offsets[-1] != n_rows:
        raise ValueError(f"offsets: end at {offsets[-1]}, not at {n_rows}")
    return parts


def _masters(kind: str, gates: Array, c0: Array) -> int:
    """Return n; refuse a number of columns that is not 2n + 4H."""
    n_units = c0.shape[1]
    n, odd = divmod(gates.shape[1] - 4 * n_units, 2)
    if odd or (n != 0 if kind == "lstm" else n < 1 or n_units % n):
        raise ValueError(f"gates: {gates.shape[1]} columns do not fit {n_units} hidden units of kind {kind}")
    return n


def _steps(kind: str, gates: Array, weight: Array, bias: Array, h0: Array, c0: Array, offsets: Array) -> Outputs:
    """Run every step of every sequence; `weight` and `bias` add what the hidden state gives to the last logits."""
    one_dtype(gates=gates, weight=weight, bias=bias, c0=c0, h0=h0)
    finite(gates=gates)
    n, n_units, parts = _masters(kind, gates, c0), c0.shape[1], _sequences(offsets, len(gates))
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
    """Return the softmax of the master logits and the activations of the others; the means of the master gates."""
    inputs, forgets = logits[:n], logits[n : 2 * n]
    out, cell, i, f = np.split(logits[2 * n :], 4)
    units = [sigmoid(out), np.tanh(cell), sigmoid(i), sigmoid(f)]
    if n == 0:
        return np.concatenate(units), logits[:0]
    tilde_f, tilde_i = master_gates(forgets, inputs)
    return np.concatenate([softmax(inputs), softmax(forgets), *units]), np.array([1 - tilde_f.mean(), tilde_i.mean()])


recurrence_vjp = central_difference(recurrence, 3)
linear_recurrence_vjp = central_difference(linear_recurrence, 1)
tree_gate_vjp = central_difference(tree_gate, 4)
