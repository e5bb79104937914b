"""Layers over pairs of vectors on the GPU, without their matrix products.

Mirrors `refimpl.gpst.composition.pair_attention` and `residual_norm`. A warp for a head of a pair, and for a row.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.products import matmul
from accel.cuda.support import check

WARPS = 4  # a block


def pair_attention(x: Array, bias: Array, roles: Array, n_heads: int, rate: float, seed: int) -> tuple[Array, Array]:
    """Return the attention of the two rows of every pair to both of them [2 P, d], and the weights [2 P, 2 H].

    x [2 P, 3 d] queries, keys and values, pair after pair; bias [R, 3 d], added to the rows of a role; roles [2 P]
    int32. Raises ValueError naming the argument that does not fit.
    """
    x, bias, width = _check(x, bias, roles, n_heads)
    xp, rows, drop = device.xp(), len(x), check.dropout(rate, seed)
    out, weights = xp.empty((rows, n_heads * width), x.dtype), xp.empty((rows, 2 * n_heads), x.dtype)
    args = x, bias, roles, out, weights, rows // 2, n_heads, width, 1 / sqrt(width), *drop
    grid = (-(-(rows // 2) * n_heads // WARPS),)
    device.launch("pair_attention", "pair_attention_forward", grid, (32, WARPS), args, x.dtype)
    return out, weights


def pair_attention_vjp(
    d_out: Array, outputs: tuple[Array, Array], x: Array, bias: Array, roles: Array, n_heads: int, rate: float,
    seed: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the gradients of x and bias."""
    d_out, weights, x, bias = check.floats(d_out=d_out, weights=outputs[1], x=x, bias=bias)
    (roles,) = check.integers(np.int32, roles=roles)
    xp, rows, width = device.xp(), len(x), x.shape[1] // (3 * n_heads)
    d_x = xp.empty_like(x)
    args = d_out, x, bias, roles, weights, d_x, rows // 2, n_heads, width, 1 / sqrt(width), *check.dropout(rate, seed)
    grid = (-(-(rows // 2) * n_heads // WARPS),)
    device.launch("pair_attention", "pair_attention_backward", grid, (32, WARPS), args, x.dtype)
    has_role = (roles == xp.arange(len(bias))[:, None]).astype(x.dtype)
    return d_x, matmul(has_role, d_x)


def _check(x: Array, bias: Array, roles: Array, n_heads: int) -> tuple[Array, Array, int]:
    x, bias = check.floats(x=x, bias=bias)
    (roles,) = check.integers(np.int32, roles=roles)
    check.shape("x", x, "2 P", "3 d")
    check.shape("bias", bias, "R", x.shape[1])
    check.shape("roles", roles, len(x))
    check.indices({"roles": (roles, 0, len(bias))})
    if len(x) % 2:
        raise ValueError(f"x: {len(x)} rows, but pairs need an even number")
    if n_heads < 1 or x.shape[1] % (3 * n_heads):
        raise ValueError(f"n_heads: {n_heads} heads of queries, keys and values do not divide rows of {x.shape[1]}")
    return x, bias, x.shape[1] // (3 * n_heads)


def residual_norm(x: Array, y: Array, bias: Array, rate: float, seed: int) -> tuple[Array, Array]:
    """Return x + dropout(y + bias) [N, d], every row normalised, and the reciprocal standard deviation [N] of each.

    x, y [N, d]; bias [d]. Raises ValueError naming the argument that does not fit.
    """
    x, y, bias = check.floats(x=x, y=y, bias=bias)
    check.shape("x", x, "N", "d")
    check.shape("y", y, *x.shape)
    check.shape("bias", bias, x.shape[1])
    (n, d), xp = x.shape, device.xp()
    out, rstd = xp.empty_like(x), xp.empty(n, x.dtype)
    args = x, y, bias, out, rstd, n, d, *check.dropout(rate, seed)
    device.launch("pair_attention", "residual_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return out, rstd


def residual_norm_vjp(
    d_out: Array, outputs: tuple[Array, Array], x: Array, y: Array, bias: Array, rate: float, seed: int
) -> tuple[Array, Array, Array]:
    """Return the gradients of x, y and bias."""
    d_out, normal, rstd = check.floats(d_out=d_out, normal=outputs[0], rstd=outputs[1])
    (n, d), xp = normal.shape, device.xp()
    d_x = xp.empty_like(normal)
    drop = check.dropout(rate, seed)
    d_y = xp.empty_like(normal) if drop[1] else d_x
    args = d_out, normal, rstd, d_x, d_y, n, d, *drop
    device.launch("pair_attention", "residual_norm_backward", (-(-n // WARPS),), (32, WARPS), args, normal.dtype)
    return d_x, d_y, d_y.sum(axis=0)
