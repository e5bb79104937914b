"""Parts of a Transformer's sublayers, one kernel each: a thread for every element, or backward for part of a column.

They are no operations of the table: `accel.autodiff.layers` calls them where a backend has them, and otherwise computes
the same in several operations.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.layers import dropout
from accel.cuda.support import check
from accel.cuda.support.columns import rows_of_part, sums_of

THREADS = 256
COLUMN_THREADS = 128
ROWS = 32  # a block, at least


def dropped_bias_relu(x: Array, bias: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (y,): dropout(max(x + bias, 0)); x [N, f], bias [f]. Raises ValueError naming the wrong argument."""
    x, bias = check.floats(x=x, bias=bias)
    check.shape("x", x, "N", "f")
    check.shape("bias", bias, x.shape[1])
    y = device.xp().empty_like(x)
    _per_element("bias_relu_forward", (x, bias, y, x.size, bias.size), rate, seed)
    return (y,)


def dropped_bias_relu_vjp(
    d_y: Array, outputs: tuple[Array], x: Array, bias: Array, rate: float, seed: int
) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    d_y, x, bias = check.floats(d_y=d_y, x=x, bias=bias)
    return _gradients("bias_relu_backward", d_y, (x, bias), rate, seed)


def residual_sum(x: Array, y: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (out,): x + dropout(y), both [N, d]. Raises ValueError naming the argument that is wrong."""
    return _residual(x, y, None, rate, seed)


def residual_sum_vjp(
    d_out: Array, outputs: tuple[Array], x: Array, y: Array, rate: float, seed: int
) -> tuple[Array, Array]:
    """Return the gradients of x and y."""
    return d_out, dropout(d_out, rate, seed)[0] if rate else d_out


def biased_residual_sum(x: Array, y: Array, bias: Array, rate: float, seed: int) -> tuple[Array]:
    """Return (out,): x + dropout(y + bias); x, y [N, d], bias [d]. Raises ValueError naming the wrong argument."""
    return _residual(x, y, bias, rate, seed)


def biased_residual_sum_vjp(
    d_out: Array, outputs: tuple[Array], x: Array, y: Array, bias: Array, rate: float, seed: int
) -> tuple[Array, Array, Array]:
    """Return the gradients of x, y and bias."""
    (d_out,) = check.floats(d_out=d_out)
    return d_out, *_gradients("residual_backward", d_out, (), rate, seed)


def _residual(x: Array, y: Array, bias: Array | None, rate: float, seed: int) -> tuple[Array]:
    biases = {} if bias is None else {"bias": bias}
    x, y, *arrays = check.floats(x=x, y=y, **biases)
    check.shape("x", x, "N", "d")
    check.shape("y", y, *x.shape)
    for array in arrays:
        check.shape("bias", array, x.shape[1])
    out = device.xp().empty_like(x)
    _per_element("residual_forward", (x, y, *(arrays or [x]), out, x.size, x.shape[1], len(arrays)), rate, seed)
    return (out,)


def _per_element(kernel: str, args: tuple, rate: float, seed: int) -> None:
    x, args = args[0], (*args, *check.dropout(rate, seed))
    device.launch("sublayers", kernel, (-(-x.size // THREADS),), (THREADS,), args, x.dtype)


def _gradients(kernel: str, d_y: Array, arrays: tuple, rate: float, seed: int) -> tuple[Array, Array]:
    """Return the gradient of the rows, and the sums of its columns."""
    (n, f), xp = d_y.shape, device.xp()
    rows = rows_of_part(n, ROWS)
    d_x, partial = xp.empty_like(d_y), xp.empty((1, -(-n // rows), f), d_y.dtype)
    grid, args = (partial.shape[1], -(-f // COLUMN_THREADS)), (d_y, *arrays, d_x, partial, rows, n, f)
    device.launch("sublayers", kernel, grid, (COLUMN_THREADS,), (*args, *check.dropout(rate, seed)), d_y.dtype)
    return d_x, *sums_of(partial)
