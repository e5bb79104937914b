"""Mirror of `refimpl.gpst.composition.pair_attention` and `residual_norm`, without the matrix products."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, one_dtype
from refimpl import attention as ref_attention
from refimpl import randomness as ref_randomness
from refimpl.gpst import composition


def pair_attention(x: Array, bias: Array, roles: Array, n_heads: int, rate: float, seed: int) -> Outputs:
    """Return (out [2 P, d],): the attention of both rows of every pair over the two rows.

    x [2 P, 3 d] holds their queries, keys and values; `bias[s]` of bias [R, 3 d] is added to the rows of role s, by
    roles [2 P]. In head h of H the weight of row i for row j, 0 or 1, of its pair is element (2 i + j) H + h of the
    dropout (LAY-3).
    """
    one_dtype(x=x, bias=bias)
    if x.ndim != 2 or len(x) % 2 or bias.shape[1:] != x.shape[1:]:
        expected = "pairs need an even number of rows, as wide as those of bias"
        raise ValueError(f"x: shape {x.shape}, bias {bias.shape}, but {expected}")
    if roles.shape != x.shape[:1] or ((roles < 0) | (roles >= len(bias))).any():
        raise ValueError(f"roles: shape {roles.shape}, expected {len(x)} numbers in 0..{len(bias) - 1}")
    if n_heads < 1 or x.shape[1] % (3 * n_heads):
        raise ValueError(f"n_heads: {n_heads} heads of queries, keys and values do not divide rows of {x.shape[1]}")
    out = np.empty((len(x), x.shape[1] // 3), x.dtype)
    for first in range(0, len(x), 2):
        pair = slice(first, first + 2)
        q, k, v = (x[pair] + bias[roles[pair]]).reshape(2, 3, n_heads, -1).swapaxes(0, 1)
        i, j, h = np.ogrid[first : first + 2, :2, :n_heads]
        keep = ref_randomness.keep_mask((2 * i + j) * n_heads + h, rate, seed).astype(x.dtype)
        out[pair] = ref_attention.dot_product_attention(q, k, v, False, keep)[0].reshape(2, -1)
    return (out,)


def residual_norm(x: Array, y: Array, bias: Array, rate: float, seed: int) -> Outputs:
    """Return (out [N, d],): x + dropout(y + bias), every row normalised without scale and shift."""
    one_dtype(x=x, y=y, bias=bias)
    if x.ndim != 2 or y.shape != x.shape or bias.shape != x.shape[1:]:
        raise ValueError(f"y: shape {y.shape} and bias {bias.shape}, but x {x.shape}")
    return (composition.residual_norm(x, ref_randomness.dropout(y + bias, rate, seed)),)


pair_attention_vjp = central_difference(pair_attention, 2)
residual_norm_vjp = central_difference(residual_norm, 3)
