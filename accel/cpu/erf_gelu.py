"""The exact Gaussian error linear unit of rows plus a bias, with its gradient.

Mirrors `refimpl.layers.erf_gelu`.
Parallel over chunks of rows; the gradient of the bias is summed per chunk ([chunks, f]) and added in order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange, types
from numba.extending import overload
from numpy.typing import NDArray

from accel.cpu.arguments import check_floats
from accel.cpu.kernels import chunk_begin, exp, n_chunks, parallel_kernel

Float = NDArray[Any]


def bias_erf_gelu(x: Float, bias: Float) -> tuple[Float]:
    """Return z Phi(z) [N, f] of z = x + bias, Phi the normal distribution."""
    check_floats(x=(x, "Nf"), bias=(bias, "f"))
    y = np.empty(x.shape, x.dtype)
    _forward(np.ascontiguousarray(x), bias, y, n_chunks(len(x)))
    return (y,)


def bias_erf_gelu_vjp(d_out: Float, outputs: tuple[Float], x: Float, bias: Float) -> tuple[Float, Float]:
    """Return the gradients of x [N, f] and bias [f]."""
    check_floats(x=(x, "Nf"), bias=(bias, "f"), d_out=(d_out, "Nf"))
    d_x, sums = np.empty(x.shape, x.dtype), np.zeros((n_chunks(len(x)), x.shape[1]), x.dtype)
    _backward(np.ascontiguousarray(d_out), np.ascontiguousarray(x), bias, d_x, sums)
    return d_x, sums.sum(axis=0)


@parallel_kernel()
def _forward(x, bias, y, chunks):
    half = x.dtype.type(0.5)
    for chunk in prange(chunks):
        for i in range(chunk_begin(chunk, chunks, len(x)), chunk_begin(chunk + 1, chunks, len(x))):
            row, out = x[i], y[i]
            for a in range(row.size):
                z = row[a] + bias[a]
                out[a] = z * normal(z, exp(-z * z * half))


@parallel_kernel()
def _backward(d_out, x, bias, d_x, sums):
    chunks, density = len(sums), x.dtype.type(1 / math.sqrt(2 * math.pi))
    half = x.dtype.type(0.5)
    for chunk in prange(chunks):
        d_bias = sums[chunk]
        for i in range(chunk_begin(chunk, chunks, len(x)), chunk_begin(chunk + 1, chunks, len(x))):
            g, row, out = d_out[i], x[i], d_x[i]
            for a in range(row.size):
                z = row[a] + bias[a]
                bell = exp(-z * z * half)
                out[a] = g[a] * (normal(z, bell) + z * bell * density)
            for a in range(row.size):
                d_bias[a] += out[a]


def normal(z, bell):
    """Return Phi(z) from z and e^(-z^2 / 2): in float32 to 6e-8, and to 3e-7 of its value; in float64 as libm does."""
    raise NotImplementedError("only inside kernels")


@overload(normal)
def _normal(z, bell):
    if z != types.float32:
        return lambda z, bell: 0.5 * math.erfc(-z * math.sqrt(0.5))
    a0, a1, a2 = np.float32(7.853861353153693e-5), np.float32(-8.010193625184903e-4), np.float32(5.188327685732524e-3)
    a3, a4, a5 = np.float32(-2.685381193529856e-2), np.float32(1.128358514861418e-1), np.float32(-3.761262582423300e-1)
    a6 = np.float32(1.128379165726710)
    b0, b1, b2 = np.float32(2.326819970068386e-2), np.float32(-1.387039388740657e-1), np.float32(3.687424674597105e-1)
    b3, b4, b5 = np.float32(-5.824733027278666e-1), np.float32(6.210004621745983e-1), np.float32(-4.944515323274145e-1)
    b6, b7, b8 = np.float32(3.404879937665872e-1), np.float32(-2.741127028184656e-1), np.float32(5.638259427386472e-1)
    c0, c1, c2 = np.float32(-1.047766399936249e1), np.float32(1.297719955372516e1), np.float32(-7.495518717768503)
    c3, c4, c5 = np.float32(2.921019019210786), np.float32(-1.015265279202700), np.float32(4.218463358204948e-1)
    c6, c7 = np.float32(-2.820767439740514e-1), np.float32(5.641895067754075e-1)
    zero, half, one, two, root = (np.float32(c) for c in (0, 0.5, 1, 2, math.sqrt(0.5)))

    def polynomials(z, bell):  # Cephes erff and erfcf of t = |z| / sqrt 2: below 1, from 1 to 2, and beyond
        t = abs(z) * root
        s = t * t
        inner = ((((((a0 * s + a1) * s + a2) * s + a3) * s + a4) * s + a5) * s + a6) * (z * root)
        r = one / max(t, one)
        q = r * r
        near = (((((((b0 * q + b1) * q + b2) * q + b3) * q + b4) * q + b5) * q + b6) * q + b7) * q + b8
        far = ((((((c0 * q + c1) * q + c2) * q + c3) * q + c4) * q + c5) * q + c6) * q + c7
        tail = half * bell * r * (near if t < two else far)
        outer = tail if z < zero else one - tail
        return half + half * inner if t < one else outer

    return polynomials
