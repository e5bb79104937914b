"""Mirror of `refimpl.layers`."""

from __future__ import annotations

from accel.ref.support.batch import Array, Outputs, central_difference
from refimpl import layers as ref_layers
from refimpl import randomness as ref_randomness


def layer_norm(x: Array, scale: Array, bias: Array) -> Outputs:
    """Mirror of `refimpl.layers.layer_norm`: (y [N, d],)."""
    return (ref_layers.layer_norm(x, scale, bias),)


def dropout(x: Array, rate: float, seed: int) -> Outputs:
    """Mirror of `refimpl.randomness.dropout`: (y [N, d],)."""
    return (ref_randomness.dropout(x, rate, seed),)


def embedding(table: Array, ids: Array) -> Outputs:
    """Mirror of `refimpl.layers.embedding`: (y [N, d],)."""
    return (ref_layers.embedding(table, ids),)


def cross_entropy(h: Array, table: Array, bias: Array, labels: Array) -> Outputs:
    """Mirror of `refimpl.layers.cross_entropy`: (logp [N],)."""
    return (ref_layers.cross_entropy(h, table, bias, labels),)


layer_norm_vjp = central_difference(layer_norm, 3)
dropout_vjp = central_difference(dropout, 1)
embedding_vjp = central_difference(embedding, 1)
cross_entropy_vjp = central_difference(cross_entropy, 3)
