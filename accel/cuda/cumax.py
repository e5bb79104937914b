"""Cumax and the tree gate on the GPU. Mirrors `refimpl.fasttrees.cumax`, and
`refimpl.fasttrees.transformer_gate`.

A warp for every row of a cumax, a block for every row of a tree gate; the gradients recompute the softmaxes.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

WARPS = 4  # rows a block
MOST_WARPS = 16  # a block that works on one row


def cumax(z: Array) -> tuple[Array]:
    """Return (y [N, D],): the softmax of every row of logits z [N, D], summed from the left, so that it rises to 1.

    Raises ValueError naming the argument that does not fit, or the row that holds a NaN or an infinity.
    """
    (z,) = check.floats(z=z)
    check.shape("z", z, "N", "D")
    if z.shape[1] == 0:
        raise ValueError(f"z: shape {z.shape} has empty rows")
    check.finite(z=z)
    y = device.xp().empty_like(z)
    device.launch("cumax", "cumax_forward", (-(-len(z) // WARPS),), (32, WARPS), (z, y, *z.shape), z.dtype)
    return (y,)


def cumax_vjp(d_y: Array, outputs: tuple[Array], z: Array) -> tuple[Array]:
    """Return the gradient of z."""
    d_y, y, z = check.floats(d_y=d_y, y=outputs[0], z=z)
    d_z = device.xp().empty_like(z)
    device.launch("cumax", "cumax_backward", (-(-len(z) // WARPS),), (32, WARPS), (d_y, y, z, d_z, *z.shape), z.dtype)
    return (d_z,)


def tree_gate(a: Array, b: Array, f: Array, x: Array) -> tuple[Array]:
    """Return (y [N, d],): x [N, d] times sigmoid(f) * A B + (A - A B), where A = cumax(a) and B = 1 - cumax(b).

    Logits a, b [N, n], each for d / n units, and f [N, d]. Raises ValueError naming the argument that does not fit, or
    the row that holds a NaN or an infinity.
    """
    a, b, f, x = check.floats(a=a, b=b, f=f, x=x)
    check.shape("a", a, "N", "n")
    check.shape("b", b, *a.shape)
    check.shape("f", f, len(a), "d")
    check.shape("x", x, *f.shape)
    n, d = a.shape[1], x.shape[1]
    if n == 0 or d == 0 or d % n:
        raise ValueError(f"a: {n} master gates do not divide {d} units")
    check.finite(a=a, b=b, f=f)
    y = device.xp().empty_like(x)
    shared = 4 * n * x.dtype.itemsize
    device.launch("cumax", "tree_gate_forward", (len(x),), row_block(d), (a, b, f, x, y, n, d), x.dtype, shared=shared)
    return (y,)


def tree_gate_vjp(
    d_y: Array, outputs: tuple[Array], a: Array, b: Array, f: Array, x: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the gradients of a, b, f and x."""
    d_y, *inputs = check.floats(d_y=d_y, a=a, b=b, f=f, x=x)
    n, d = a.shape[1], x.shape[1]
    gradients = tuple(device.xp().empty_like(array) for array in inputs)
    args, shared = (d_y, *inputs, *gradients, n, d), (6 * n + 2 * d) * x.dtype.itemsize
    device.launch("cumax", "tree_gate_backward", (len(x),), row_block(d), args, x.dtype, shared=shared)
    return gradients


def row_block(width: int) -> tuple[int, int]:
    """Return the shape of a block that works on one row of this many units."""
    return 32, min(MOST_WARPS, -(-width // 32))
