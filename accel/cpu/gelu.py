"""The Gaussian error linear unit of rows plus a bias, by the tanh formula and exactly, each with its gradient.

Mirrors `refimpl.layers.bias_gelu` and `refimpl.layers.bias_erf_gelu`.
Parallel over chunks of rows; the gradient of the bias is summed per chunk ([chunks, f]) and added in order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats, contiguous
from accel.cpu.support.kernels import chunk_begin, exp, n_chunks
from accel.cpu.support.team import LEAST, share, team_kernel

Float = NDArray[Any]


@contiguous
def bias_gelu(x: Float, bias: Float) -> tuple[Float]:
    """Return gelu(x + bias) [N, f] of x [N, f] and bias [f], by the tanh formula."""
    return _forward(_tanh_forward, x, bias)


@contiguous
def bias_gelu_vjp(d_out: Float, outputs: tuple[Float], x: Float, bias: Float) -> tuple[Float, Float]:
    """Return the gradients of x [N, f] and bias [f]."""
    return _backward(_tanh_backward, d_out, x, bias)


@contiguous
def bias_erf_gelu(x: Float, bias: Float) -> tuple[Float]:
    """Return z Phi(z) [N, f] of z = x + bias; Phi is the distribution function of the standard normal distribution."""
    return _forward(_erf_forward, x, bias)


@contiguous
def bias_erf_gelu_vjp(d_out: Float, outputs: tuple[Float], x: Float, bias: Float) -> tuple[Float, Float]:
    """Return the gradients of x [N, f] and bias [f]."""
    return _backward(_erf_backward, d_out, x, bias)


def _forward(kernel: Any, x: Float, bias: Float) -> tuple[Float]:
    check_floats(x=(x, "Nf"), bias=(bias, "f"))
    y = np.empty(x.shape, x.dtype)
    kernel(x, bias, y, n_chunks(len(x)))
    return (y,)


def _backward(kernel: Any, d_out: Float, x: Float, bias: Float) -> tuple[Float, Float]:
    check_floats(x=(x, "Nf"), bias=(bias, "f"), d_out=(d_out, "Nf"))
    d_x, sums = np.empty(x.shape, x.dtype), np.zeros((n_chunks(len(x)), x.shape[1]), x.dtype)
    kernel(d_out, x, bias, d_x, sums)
    return d_x, sums.sum(axis=0)


@team_kernel(LEAST)
def _tanh_forward(part, x, bias, y, chunks):
    rows, f = x.shape
    one, linear, cubic = x.dtype.type(1), x.dtype.type(2 * np.sqrt(2 / np.pi)), x.dtype.type(0.044715)
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            row, out = x[i], y[i]
            for a in range(f):  # (1 + tanh t) / 2 = 1 / (1 + e^{-2t})
                z = row[a] + bias[a]
                out[a] = z / (one + exp(-linear * z * (one + cubic * z * z)))


@team_kernel(LEAST)
def _tanh_backward(part, d_out, x, bias, d_x, sums):
    rows, f = x.shape
    chunks = len(sums)
    one, three, far = x.dtype.type(1), x.dtype.type(3), x.dtype.type(32)
    linear, cubic = x.dtype.type(2 * np.sqrt(2 / np.pi)), x.dtype.type(0.044715)
    for chunk in share(part, chunks):
        d_bias = sums[chunk]
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            g, row, out = d_out[i], x[i], d_x[i]
            for a in range(f):
                z = min(max(row[a] + bias[a], -far), far)  # beyond +-32 the derivative is 0 or 1; z^3 may overflow
                gate = one / (one + exp(-linear * z * (one + cubic * z * z)))
                out[a] = g[a] * gate * (one + z * (one - gate) * linear * (one + three * cubic * z * z))
            for a in range(f):
                d_bias[a] += out[a]


@team_kernel(LEAST)
def _erf_forward(part, x, bias, y, chunks):
    half = x.dtype.type(0.5)
    for chunk in share(part, chunks):
        for i in range(chunk_begin(chunk, chunks, len(x)), chunk_begin(chunk + 1, chunks, len(x))):
            row, out = x[i], y[i]
            for a in range(row.size):
                z = row[a] + bias[a]
                out[a] = z * normal(z, exp(-z * z * half))


@team_kernel(LEAST)
def _erf_backward(part, d_out, x, bias, d_x, sums):
    chunks, density = len(sums), x.dtype.type(1 / math.sqrt(2 * math.pi))
    half = x.dtype.type(0.5)
    for chunk in share(part, chunks):
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
    """Return Phi(z) from z and `bell`, e^(-z^2 / 2).

    In float32 the absolute error is at most 2e-7; with an exact `bell` the relative error is at most 4e-7.
    """
    raise NotImplementedError("only inside kernels")


@overload(normal)
def _normal(z, bell):
    if z != types.float32:
        return lambda z, bell: 0.5 * math.erfc(-z * math.sqrt(0.5))
    c0, c1, c2 = np.float32(-0.02914571762084961), np.float32(0.14397063851356506), np.float32(-0.25571203231811523)
    c3, c4, c5 = np.float32(0.15917153656482697), np.float32(-0.023107975721359253), np.float32(0.10550719499588013)
    c6, c7, c8 = np.float32(0.1198330819606781), np.float32(0.1398618370294571), np.float32(0.13962140679359436)
    zero, one, rate = np.float32(0), np.float32(1), np.float32(0.35)

    def polynomial(z, bell):  # in k = 1 / (1 + 0.35 t), fitted to Phi(-t) / e^(-t^2 / 2): relative error 3.2e-8
        k = one / (one + rate * abs(z))
        p = (((((((c0 * k + c1) * k + c2) * k + c3) * k + c4) * k + c5) * k + c6) * k + c7) * k + c8
        tail = bell * (k * p)
        return tail if z < zero else one - tail

    return polynomial
