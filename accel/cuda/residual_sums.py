"""Residual sums together with the norm that follows, one kernel each; and the biases of three products.

Mirrors `refimpl.layers.layer_norm` of a sum. They are no operations of the table: `accel.autodiff.sublayers` and other
callers use them where a backend has them, and otherwise compute the same in array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.check import THREADS
from accel.cuda.support.columns import SUMMING_WARPS, column_parts, rows_of_part, sums_of

WARPS = 4  # rows a block
ROWS = 16  # a block, at least, in the gradient


def sum_layer_norm(
    x: Array, y: Array, bias: Array, scale: Array, shift: Array, rate: float, seed: int
) -> tuple[Array, Array, Array, Array]:
    """Return the sum x + dropout(y + bias); the sum normalised, scaled and shifted; its rows' means; 1 / deviations.

    x, y [N, d]; bias, scale, shift [d]; means and deviations [N].
    """
    x, y, bias, scale, shift = check.floats(x=x, y=y, bias=bias, scale=scale, shift=shift)
    (n, d), xp = x.shape, device.xp()
    out, normal, means, rstds = xp.empty_like(x), xp.empty_like(x), xp.empty(n, x.dtype), xp.empty(n, x.dtype)
    args = x, y, bias, scale, shift, out, normal, means, rstds, n, d, *check.dropout(rate, seed)
    device.launch("residual_sums", "sum_layer_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return out, normal, means, rstds


def sum_layer_norm_vjp(
    d_out: Array, d_normal: Array, outputs: tuple[Array, Array, Array, Array], scale: Array, rate: float, seed: int
) -> tuple[Array, Array, Any, Any, Any]:
    """Return the gradients of x, y, bias, scale and shift from those of the sum and of the normalised rows."""
    d_out, d_normal, scale = check.floats(d_out=d_out, d_normal=d_normal, scale=scale)
    (n, d), rows, xp = d_out.shape, rows_of_part(len(d_out), ROWS), device.xp()
    d_x, scaled, partial = xp.empty_like(d_out), xp.empty_like(d_out), xp.empty((3, -(-n // rows), d), d_out.dtype)
    drop = check.dropout(rate, seed)
    d_y = xp.empty_like(d_out) if drop[1] else d_x
    args = d_out, d_normal, outputs[0], scale, *outputs[2:], d_x, d_y, scaled, partial, rows, n, d, *drop
    grid, block = (partial.shape[1],), (32, SUMMING_WARPS)
    device.launch("residual_sums", "sum_layer_norm_backward", grid, block, args, d_out.dtype)
    return d_x, d_y, *sums_of(partial)


def sum_rms_norm(x: Array, y: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return x + y [N, d]; its rows divided by the root of their mean square, times scale [d]; and 1 / divisors [N]."""
    x, y, scale = check.floats(x=x, y=y, scale=scale)
    (n, d), xp = x.shape, device.xp()
    out, normal, factors = xp.empty_like(x), xp.empty_like(x), xp.empty(n, x.dtype)
    args = x, y, scale, out, normal, factors, n, d
    device.launch("residual_sums", "sum_rms_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return out, normal, factors


def sum_rms_norm_vjp(
    d_out: Array, d_normal: Array, outputs: tuple[Array, Array, Array], scale: Array
) -> tuple[Array, Any]:
    """Return the gradient of x, which is also that of y, and the gradient of scale."""
    d_out, d_normal, scale = check.floats(d_out=d_out, d_normal=d_normal, scale=scale)
    (n, d), rows, xp = d_out.shape, rows_of_part(len(d_out), ROWS), device.xp()
    d_x, scaled, partial = xp.empty_like(d_out), xp.empty_like(d_out), xp.empty((1, -(-n // rows), d), d_out.dtype)
    args = d_out, d_normal, outputs[0], scale, outputs[2], d_x, scaled, partial, rows, n, d
    grid, block = (partial.shape[1],), (32, SUMMING_WARPS)
    device.launch("residual_sums", "sum_rms_norm_backward", grid, block, args, d_out.dtype)
    return d_x, *sums_of(partial)


def add_biases(rows: Sequence[Array], biases: Sequence[Array]) -> None:
    """Add its bias [d] to the rows of each of three matrices [N, d], in place."""
    (n, d), dtype = rows[0].shape, rows[0].dtype
    args = *rows, *biases, n * d, d
    device.launch("residual_sums", "add_biases", (-(-3 * n * d // THREADS),), (THREADS,), args, dtype)


def bias_gradients(gradients: Sequence[Array]) -> list[Any]:
    """Return the gradients of up to three biases from those of the rows [N, d] to which they were added."""
    return sums_of(column_parts(*check.floats(**{f"gradients{i}": x for i, x in enumerate(gradients)})))
