"""The Gaussian error linear unit of rows plus a bias, in the form with tanh and exactly. Mirrors `refimpl.layers`.

A thread for every element; backward a thread for every column of some rows, whose gradients it also sums. The same
kernels drop elements of the result: a `dropped_` function returns, bit for bit, `dropout` of what the function without
that prefix returns.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.columns import rows_of_part, sums_of

THREADS = 256
COLUMN_THREADS = 128
ROWS = 32  # a block, at least


def bias_gelu(x: Array, bias: Array) -> tuple[Array]:
    """Return (y [N, f],): the Gaussian error linear unit, tanh formula, of x [N, f] + bias [f].

    Raises ValueError naming the argument that does not fit.
    """
    return _activation("bias_gelu_forward", x, bias, 0.0, 0)


def bias_gelu_vjp(d_y: Array, outputs: tuple[Array], x: Array, bias: Array) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    return _gradients("bias_gelu_backward", d_y, x, bias, 0.0, 0)


def bias_erf_gelu(x: Array, bias: Array) -> tuple[Array]:
    """Return (y [N, f],): the exact Gaussian error linear unit of x [N, f] + bias [f].

    Raises ValueError naming the argument that does not fit.
    """
    return _activation("bias_erf_gelu_forward", x, bias, 0.0, 0)


def bias_erf_gelu_vjp(d_y: Array, outputs: tuple[Array], x: Array, bias: Array) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    return _gradients("bias_erf_gelu_backward", d_y, x, bias, 0.0, 0)


def dropped_bias_gelu(x: Array, bias: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (y [N, f],): `bias_gelu` with elements dropped. Raises ValueError as the two operations do."""
    return _activation("bias_gelu_forward", x, bias, rate, seed)


def dropped_bias_gelu_vjp(
    d_y: Array, outputs: tuple[Array], x: Array, bias: Array, rate: float, seed: int
) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    return _gradients("bias_gelu_backward", d_y, x, bias, rate, seed)


def dropped_bias_erf_gelu(x: Array, bias: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (y [N, f],): `bias_erf_gelu` with elements dropped. Raises ValueError as the two operations do."""
    return _activation("bias_erf_gelu_forward", x, bias, rate, seed)


def dropped_bias_erf_gelu_vjp(
    d_y: Array, outputs: tuple[Array], x: Array, bias: Array, rate: float, seed: int
) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    return _gradients("bias_erf_gelu_backward", d_y, x, bias, rate, seed)


def _activation(kernel: str, x: Array, bias: Array, rate: float, seed: int) -> tuple[Array]:
    x, bias = check.floats(x=x, bias=bias)
    check.shape("x", x, "N", "f")
    check.shape("bias", bias, x.shape[1])
    y = device.xp().empty_like(x)
    args = (x, bias, y, x.size, bias.size, *check.dropout(rate, seed))
    device.launch("gelu", kernel, (-(-x.size // THREADS),), (THREADS,), args, x.dtype)
    return (y,)


def _gradients(kernel: str, d_y: Array, x: Array, bias: Array, rate: float, seed: int) -> tuple[Array, Array]:
    d_y, x, bias = check.floats(d_y=d_y, x=x, bias=bias)
    n, f = x.shape
    rows = rows_of_part(n, ROWS)
    d_x, partial = device.xp().empty_like(x), device.xp().empty((1, -(-n // rows), f), x.dtype)
    grid, args = (partial.shape[1], -(-f // COLUMN_THREADS)), (d_y, x, bias, d_x, partial, rows, n, f)
    device.launch("gelu", kernel, grid, (COLUMN_THREADS,), (*args, *check.dropout(rate, seed)), x.dtype)
    return d_x, *sums_of(partial)
