"""The end of a Transformer's sublayer: bias, dropout, residual and layer normalisation. A warp for every row.

Mirrors `refimpl.layers.layer_norm` of a sum.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.columns import SUMMING_WARPS, rows_of_part, sums_of

WARPS = 4  # rows a block
ROWS = 16  # a block, at least, in the gradient


def residual_layer_norm(
    x: Array, y: Array, bias: Array, scale: Array, shift: Array, rate: float, seed: int
) -> tuple[Array, Array, Array]:
    """Return layer_norm(x + dropout(y + bias)) [N, d], and mean [N] and reciprocal standard deviation [N] of each sum.

    x, y [N, d]; bias, scale, shift [d]. Raises ValueError naming the argument that does not fit.
    """
    x, y, bias, scale, shift = check.floats(x=x, y=y, bias=bias, scale=scale, shift=shift)
    check.shape("x", x, "N", "d")
    check.shape("y", y, *x.shape)
    for name, vector in (("bias", bias), ("scale", scale), ("shift", shift)):
        check.shape(name, vector, x.shape[1])
    (n, d), xp = x.shape, device.xp()
    out, mean, rstd = xp.empty_like(x), xp.empty(n, x.dtype), xp.empty(n, x.dtype)
    args = x, y, bias, scale, shift, out, mean, rstd, n, d, *check.dropout(rate, seed)
    device.launch("residual_layer_norm", "residual_layer_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return out, mean, rstd


def residual_layer_norm_vjp(
    d_out: Array, outputs: tuple[Array, Array, Array],
    x: Array, y: Array, bias: Array, scale: Array, shift: Array, rate: float, seed: int,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """Return the gradients of x, y, bias, scale and shift."""
    d_out, x, y, bias, scale = check.floats(d_out=d_out, x=x, y=y, bias=bias, scale=scale)
    (n, d), xp = x.shape, device.xp()
    d_x, scaled = xp.empty_like(x), xp.empty_like(x)
    drop = check.dropout(rate, seed)
    d_y = xp.empty_like(x) if drop[1] else d_x
    rows = rows_of_part(n, ROWS)
    partial = xp.empty((3, -(-n // rows), d), x.dtype)
    args = d_out, x, y, bias, scale, *outputs[1:], d_x, d_y, scaled, partial, rows, n, d, *drop
    grid, block = (partial.shape[1],), (32, SUMMING_WARPS)
    device.launch("residual_layer_norm", "residual_layer_norm_backward", grid, block, args, x.dtype)
    return d_x, d_y, *sums_of(partial)
