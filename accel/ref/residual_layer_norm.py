"""Mirror of the end of a Transformer's sublayer, in terms of `refimpl.layers` and `refimpl.randomness`."""

from __future__ import annotations

from accel.ref.support.batch import Array, Outputs, central_difference, one_dtype
from refimpl import layers as ref_layers
from refimpl import randomness as ref_randomness


def residual_layer_norm(x: Array, y: Array, bias: Array, scale: Array, shift: Array, rate: float, seed: int) -> Outputs:
    """Return (out [N, d],): x + dropout(y + bias), every row normalised, then scaled and shifted."""
    one_dtype(x=x, y=y, bias=bias)
    if x.ndim != 2 or y.shape != x.shape or bias.shape != x.shape[1:]:
        raise ValueError(f"y: shape {y.shape} and bias {bias.shape}, but x {x.shape}")
    if shift.shape != scale.shape:
        raise ValueError(f"shift: shape {shift.shape}, but scale {scale.shape}")
    return (ref_layers.layer_norm(x + ref_randomness.dropout(y + bias, rate, seed), scale, shift),)


residual_layer_norm_vjp = central_difference(residual_layer_norm, 5)
