"""Mirror of `refimpl.fasttrees.stack.layer`: recurrences after the product of inputs and weights."""

from __future__ import annotations

from accel.ref.support.batch import Array, Outputs, central_difference
from accel.ref.support.cell import count_masters, run_steps


def recurrence(gates: Array, weight: Array, bias: Array, h0: Array, c0: Array, offsets: Array, *, kind: str) -> Outputs:
    """Mirror of `refimpl.fasttrees.stack.layer`: h [N, H], c [N, H], activations [N, G], distance [N, 2] or [N, 0].

    gates [N, G], the inputs' part of the logits, has the columns [input master n, forget master n, out H, cell H, in H,
    forget H]; n = 0 for kind "lstm". weight [R, H] and bias [R] give the hidden state's part of the last R of them.
    activations has the same columns: the softmax (not the cumax) of each master's logits, the tanh of the cell's, and
    the sigmoid of the others. distance: 1 - mean(tilde f), which is FT-3's, and mean(tilde i).
    """
    if kind not in ("lstm", "on_lstm", "fasttrees"):
        raise ValueError(f"kind: {kind!r} is not one of lstm, on_lstm, fasttrees")
    count_masters(kind, gates, c0)
    n_rows = 4 * c0.shape[1] if kind == "fasttrees" else gates.shape[1]
    if weight.shape != (n_rows, c0.shape[1]) or bias.shape != (n_rows,):
        raise ValueError(f"weight, bias: shapes {weight.shape} and {bias.shape} do not fit {n_rows} rows")
    return run_steps(kind, gates, weight, bias, h0, c0, offsets)


recurrence_vjp = central_difference(recurrence, 3)
