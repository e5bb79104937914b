"""Mirror of `refimpl.layers`."""

from __future__ import annotations

from accel.ref.support.batch import Array, Outputs, central_difference, one_dtype
from refimpl import layers as ref_layers
from refimpl import randomness as ref_randomness


def layer_norm(x: Array, scale: Array, bias: Array) -> Outputs:
    """Mirror of `refimpl.layers.layer_norm`: (y [N, d],)."""
    return (ref_layers.layer_norm(x, scale, bias),)


def residual_layer_norm(x: Array, y: Array, bias: Array, scale: Array, shift: Array, rate: float, seed: int) -> Outputs:
    """Return (out [N, d],): x + dropout(y + bias), every row normalised, then scaled and shifted."""
    one_dtype(x=x, y=y, bias=bias)
    if x.ndim != 2 or y.shape != x.shape or bias.shape != x.shape[1:]:
        raise ValueError(f"y: shape {y.shape} and bias {bias.shape}, but x {x.shape}")
    if shift.shape != scale.shape:
        raise ValueError(f"shift: shape {shift.shape}, but scale {scale.shape}")
    return (ref_layers.layer_norm(x + ref_randomness.dropout(y + bias, rate, seed), scale, shift),)


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
residual_layer_norm_vjp = central_difference(residual_layer_norm, 5)
dropout_vjp = central_difference(dropout, 1)
embedding_vjp = central_difference(embedding, 1)
cross_entropy_vjp = central_difference(cross_entropy, 3)
