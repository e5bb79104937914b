"""Mirror of the layers of `refimpl.gpst.composition.compose` and `decompose`, after the first layer's products."""

from __future__ import annotations

import numpy as np

from accel.ref.pair_attention import pair_attention, residual_norm
from accel.ref.support.batch import Array, Outputs, central_difference, one_dtype
from refimpl import layers as ref_layers
from refimpl import randomness as ref_randomness
from refimpl.gpst import composition


def pair_layers(
    x: Array, first: Array, bias: Array, product: Array, output: Array, output_bias: Array, inner: Array,
    inner_bias: Array, outer: Array, outer_bias: Array, roles: Array, n_heads: int, rate: float, seeds: tuple[int, ...],
) -> Outputs:  # fmt: skip
    """Return (out [P, d],): the outputs of K layers for pairs of rows of x [2 P, d].

    first [2 P, 3 d] are their queries, keys and values in the first layer; every layer k adds `bias[k, s]` of
    bias [K, R, 3 d] to those of role s; product [K, d, 3 d], output [K, d, d], inner [K, d, f] and outer [K, f, d] are
    the weights. `seeds` has four seeds of dropout for every layer: for the weights of attention, numbered as in
    `pair_attention`, its output [2 P, d], the hidden features [2 P, f], and the output of the feed-forward network.
    Row p of out is the normalised sum of rows 2 p and 2 p + 1 of the last layer, without scale and shift (IO-1).
    """
    weights = {
        "bias": bias, "product": product, "output": output, "output_bias": output_bias, "inner": inner,
        "inner_bias": inner_bias, "outer": outer, "outer_bias": outer_bias,
    }  # fmt: skip
    one_dtype(x=x, first=first, **weights)
    if x.ndim != 2 or inner.ndim != 3 or bias.ndim != 3 or not len(bias):
        expected = "expected [2 P, d], [K, R, 3 d] and [K, d, f] with K at least 1"
        raise ValueError(f"x: shape {x.shape}, bias {bias.shape} and inner {inner.shape}, {expected}")
    n, d, layers, f = len(x), x.shape[1], len(bias), inner.shape[2]
    shapes = (layers, bias.shape[1], 3 * d), (layers, d, 3 * d), (layers, d, d), (layers, d), (layers, d, f)
    for (name, weight), shape in zip(weights.items(), (*shapes, (layers, f), (layers, f, d), (layers, d)), strict=True):
        if weight.shape != shape:
            raise ValueError(f"{name}: shape {weight.shape}, expected {shape}")
    if first.shape != (n, 3 * d):
        raise ValueError(f"first: shape {first.shape}, expected {(n, 3 * d)}")
    if len(seeds) != 4 * layers:
        raise ValueError(f"seeds: {len(seeds)}, expected {4 * layers}")
    rows = first
    for k in range(layers):
        if k:
            rows = x @ product[k]
        (attended,) = pair_attention(rows, bias[k], roles, n_heads, rate, seeds[4 * k])
        (x,) = residual_norm(x, attended @ output[k], output_bias[k], rate, seeds[4 * k + 1])
        hidden = ref_layers.bias_erf_gelu(x @ inner[k], inner_bias[k])
        hidden = ref_randomness.dropout(hidden, rate, seeds[4 * k + 2])
        (x,) = residual_norm(x, hidden @ outer[k], outer_bias[k], rate, seeds[4 * k + 3])
    return (composition.residual_norm(x[::2], x[1::2]) if n else np.zeros((0, d), x.dtype),)


pair_layers_vjp = central_difference(pair_layers, 10)
