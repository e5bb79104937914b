"""Mirror of `refimpl.layers.bias_gelu` and `bias_erf_gelu`."""

from __future__ import annotations

from accel.ref.support.batch import Array, Outputs, central_difference
from refimpl import layers as ref_layers


def bias_gelu(x: Array, bias: Array) -> Outputs:
    """Mirror of `refimpl.layers.bias_gelu`: (y [N, f],)."""
    return (ref_layers.bias_gelu(x, bias),)


def bias_erf_gelu(x: Array, bias: Array) -> Outputs:
    """Mirror of `refimpl.layers.bias_erf_gelu`: (y [N, f],)."""
    return (ref_layers.bias_erf_gelu(x, bias),)


bias_gelu_vjp = central_difference(bias_gelu, 2)
bias_erf_gelu_vjp = central_difference(bias_erf_gelu, 2)
