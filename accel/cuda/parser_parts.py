"""The parts of GPST's parser between products and attention, one kernel each: norms, rotations and gates.

Mirrors `refimpl.gpst.parser.split_scores`. They are no operations of the table: `accel.models.gpst.parser` has them in
array operations, and uses these where a backend has them.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support.check import THREADS
from accel.cuda.support.columns import column_sums

WARPS = 4  # rows a block


def rms_norm(x: Array, scale: Array) -> tuple[Array, Array]:
    """Return the rows of x [N, d] divided by the root of their mean square, times scale [d], and the divisors' inverse.

    x is C-contiguous.
    """
    (n, d), xp = x.shape, device.xp()
    y, factors = xp.empty_like(x), xp.empty(n, x.dtype)
    args = x, scale, y, factors, n, d
    device.launch("parser_parts", "rms_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return y, factors


def rms_norm_vjp(d_y: Array, outputs: tuple[Array, Array], x: Array, scale: Array) -> tuple[Array, Array]:
    """Return the gradients of x and scale."""
    (n, d), xp = x.shape, device.xp()
    d_x, d_scales = xp.empty_like(x), xp.empty_like(x)
    args = xp.ascontiguousarray(d_y), x, scale, outputs[1], d_x, d_scales, n, d
    device.launch("parser_parts", "rms_norm_backward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return d_x, column_sums(d_scales)[0]


def rotate(x: Array, cosine: Array, sine: Array, back: bool) -> Array:
    """Return x [N, H, D] with its features 2m and 2m + 1 rotated by the angle of their row, [N, 1, D / 2], or back."""
    xp, (_, heads, width) = device.xp(), x.shape
    x, y, pairs = xp.ascontiguousarray(x), xp.empty(x.shape, x.dtype), x.size // 2
    args = x, cosine, sine, y, pairs, heads, width // 2, int(back)
    device.launch("parser_parts", "rotate_pairs", (-(-pairs // THREADS),), (THREADS,), args, x.dtype)
    return y


def gated(z: Array, y: Array) -> Array:
    """Return y z sigmoid(z), both of one shape and C-contiguous."""
    out = device.xp().empty_like(z)
    device.launch("parser_parts", "gate_forward", (-(-z.size // THREADS),), (THREADS,), (z, y, out, z.size), z.dtype)
    return out


def gated_vjp(d_out: Array, z: Array, y: Array) -> tuple[Array, Array]:
    """Return the gradients of z and y."""
    xp = device.xp()
    d_z, d_y = xp.empty_like(z), xp.empty_like(y)
    args = xp.ascontiguousarray(d_out), z, y, d_z, d_y, z.size
    device.launch("parser_parts", "gate_backward", (-(-z.size // THREADS),), (THREADS,), args, z.dtype)
    return d_z, d_y
