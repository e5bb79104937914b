"""The Gaussian error linear unit of rows plus a bias, in the form with tanh and exactly. Mirrors `refimpl.layers`.

A thread for every element.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.columns import column_sums

THREADS = 256


def bias_gelu(x: Array, bias: Array) -> tuple[Array]:
    """Return (y [N, f],): the Gaussian error linear unit, tanh formula, of x [N, f] + bias [f].

    Raises ValueError naming the argument that does not fit.
    """
    return _activation("bias_gelu_forward", x, bias)


def bias_gelu_vjp(d_y: Array, outputs: tuple[Array], x: Array, bias: Array) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    return _activation_slopes("bias_gelu_backward", d_y, x, bias)


def bias_erf_gelu(x: Array, bias: Array) -> tuple[Array]:
    """Return (y [N, f],): the exact Gaussian error linear unit of x [N, f] + bias [f].

    Raises ValueError naming the argument that does not fit.
    """
    return _activation("bias_erf_gelu_forward", x, bias)


def bias_erf_gelu_vjp(d_y: Array, outputs: tuple[Array], x: Array, bias: Array) -> tuple[Array, Array]:
    """Return the gradients of x and bias."""
    return _activation_slopes("bias_erf_gelu_backward", d_y, x, bias)


def _activation(kernel: str, x: Array, bias: Array) -> tuple[Array]:
    x, bias = check.floats(x=x, bias=bias)
    check.shape("x", x, "N", "f")
    check.shape("bias", bias, x.shape[1])
    y = device.xp().empty_like(x)
    _per_element(kernel, x, (x, bias, y, x.size, bias.size))
    return (y,)


def _activation_slopes(kernel: str, d_y: Array, x: Array, bias: Array) -> tuple[Array, Array]:
    d_y, x, bias = check.floats(d_y=d_y, x=x, bias=bias)
    d_x = device.xp().empty_like(x)
    _per_element(kernel, x, (d_y, x, bias, d_x, x.size, bias.size))
    return d_x, *column_sums(d_x)


def _per_element(kernel: str, x: Array, args: tuple) -> None:
    device.launch("gelu", kernel, (-(-x.size // THREADS),), (THREADS,), args, x.dtype)
