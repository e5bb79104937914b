"""The cumulative softmax, the tree gate of the FastTrees Transformer, and their gradients.

Mirrors `refimpl.fasttrees.cumax` and `refimpl.fasttrees.transformer_gate.tree_gate`. Parallel over chunks of rows; the
gradients compute the softmaxes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_finite, check_floats, contiguous
from accel.cpu.support.cell import copy, softmax, softmax_vjp
from accel.cpu.support.kernels import chunk_begin, kernel, n_chunks, sigmoid
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]


@contiguous
def cumax(z: Float) -> tuple[Float]:
    """Return the running sums [N, D] of the softmax of every row of logits [N, D]."""
    _check_logits("z", z, check_floats(z=(z, "ND"))["D"])
    y = np.empty(z.shape, z.dtype)
    _cumax(z, y, n_chunks(len(z)))
    return (y,)


@contiguous
def cumax_vjp(d_out: Float, outputs: tuple[Float], z: Float) -> tuple[Float]:
    """Return the gradient of z [N, D]."""
    _check_logits("z", z, check_floats(z=(z, "ND"), d_out=(d_out, "ND"))["D"])
    d_z = np.empty(z.shape, z.dtype)
    _cumax_vjp(z, d_out, d_z, n_chunks(len(z)))
    return (d_z,)


@contiguous
def tree_gate(a: Float, b: Float, f: Float, x: Float) -> tuple[Float]:
    """Return x [N, d] gated by the master logits a, b [N, n], each for d / n units, and the gate logits f [N, d]."""
    _check_gate(a, b, f, x)
    y = np.empty(x.shape, x.dtype)
    _tree_gate(a, b, f, x, y, n_chunks(len(x)))
    return (y,)


@contiguous
def tree_gate_vjp(
    d_out: Float, outputs: tuple[Float], a: Float, b: Float, f: Float, x: Float
) -> tuple[Float, Float, Float, Float]:
    """Return the gradients of a, b [N, n], f and x [N, d]."""
    _check_gate(a, b, f, x)
    check_floats(x=(x, "Nd"), d_out=(d_out, "Nd"))
    gradients = tuple(np.empty(y.shape, x.dtype) for y in (a, b, f, x))
    _tree_gate_vjp(a, b, f, x, d_out, *gradients, n_chunks(len(x)))
    return gradients


def _check_logits(name: str, z: Float, width: int) -> None:
    if not width:
        raise ValueError(f"{name}: empty")
    check_finite(name, z)


def _check_gate(a: Float, b: Float, f: Float, x: Float) -> None:
    sizes = check_floats(a=(a, "Nn"), b=(b, "Nn"), f=(f, "Nd"), x=(x, "Nd"))
    for name, logits in (("a", a), ("b", b), ("f", f)):
        _check_logits(name, logits, sizes["n"])
    if sizes["d"] % sizes["n"]:
        raise ValueError(f"a: {sizes['n']} master gates do not divide {sizes['d']} units")


@team_kernel()
def _cumax(part, z, y, chunks):
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, len(z)), chunk_begin(chunk + 1, chunks, len(z))):
            row = y[i]
            copy(z[i], row)
            softmax(row)
            for k in range(1, row.size):
                row[k] += row[k - 1]


@team_kernel()
def _cumax_vjp(part, z, d_out, d_z, chunks):
    for chunk in share(part, chunks):
        y = np.empty(z.shape[1], z.dtype)
        for i in range(chunk_begin(chunk, chunks, len(z)), chunk_begin(chunk + 1, chunks, len(z))):
            row = d_z[i]
            copy(z[i], y)
            copy(d_out[i], row)
            softmax(y)
            for k in range(row.size - 2, -1, -1):
                row[k] += row[k + 1]
            softmax_vjp(y, row, row)


@kernel()
def _repeat(z, softmaxed, repeated, falling):
    """Set `softmaxed` [n] to softmax(z); repeat its running sums, or 1 - them if `falling`, in `repeated` [d]."""
    copy(z, softmaxed)
    softmax(softmaxed)
    size, total = repeated.size // z.size, z.dtype.type(0)
    for k in range(z.size):
        total += softmaxed[k]
        value = z.dtype.type(1) - total if falling else total
        for u in range(k * size, (k + 1) * size):
            repeated[u] = value


@kernel()
def _repeat_vjp(softmaxed, d_repeated, sign, d_z):
    size, total = d_repeated.size // d_z.size, d_z.dtype.type(0)
    for k in range(d_z.size - 1, -1, -1):
        for u in range(k * size, (k + 1) * size):
            total += d_repeated[u]
        d_z[k] = sign * total
    softmax_vjp(softmaxed, d_z, d_z)


@team_kernel()
def _tree_gate(part, a, b, f, x, y, chunks):
    n, d = a.shape[1], x.shape[1]
    for chunk in share(part, chunks):
        softmaxed, rising, falling = np.empty(n, x.dtype), np.empty(d, x.dtype), np.empty(d, x.dtype)
        for i in range(chunk_begin(chunk, chunks, len(x)), chunk_begin(chunk + 1, chunks, len(x))):
            _repeat(a[i], softmaxed, rising, False)
            _repeat(b[i], softmaxed, falling, True)
            logits, row, out = f[i], x[i], y[i]
            for u in range(d):
                both = rising[u] * falling[u]
                out[u] = (sigmoid(logits[u]) * both + (rising[u] - both)) * row[u]


@team_kernel()
def _tree_gate_vjp(part, a, b, f, x, d_out, d_a, d_b, d_f, d_x, chunks):
    n, d = a.shape[1], x.shape[1]
    one = x.dtype.type(1)
    for chunk in share(part, chunks):
        soft_a, soft_b = np.empty(n, x.dtype), np.empty(n, x.dtype)
        rising, falling = np.empty(d, x.dtype), np.empty(d, x.dtype)  # Numba treats rows of one array as strided
        open_f, d_gate = np.empty(d, x.dtype), np.empty(d, x.dtype)
        for i in range(chunk_begin(chunk, chunks, len(x)), chunk_begin(chunk + 1, chunks, len(x))):
            _repeat(a[i], soft_a, rising, False)
            _repeat(b[i], soft_b, falling, True)
            logits, row, g, d_logits, d_row = f[i], x[i], d_out[i], d_f[i], d_x[i]
            for u in range(d):
                open_f[u] = sigmoid(logits[u])
                d_gate[u] = g[u] * row[u]
            for u in range(d):
                both = rising[u] * falling[u]
                d_row[u] = g[u] * (open_f[u] * both + (rising[u] - both))
            for u in range(d):
                d_logits[u] = d_gate[u] * (rising[u] * falling[u]) * open_f[u] * (one - open_f[u])
            for u in range(d):  # both gates enter the product, and `rising` also enters by itself
                product = d_gate[u] * (open_f[u] - one)
                d_gate[u] += product * falling[u]
                falling[u] = product * rising[u]
            _repeat_vjp(soft_a, d_gate, one, d_a[i])
            _repeat_vjp(soft_b, falling, -one, d_b[i])
