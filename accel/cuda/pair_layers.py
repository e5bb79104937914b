"""The layers of GPST's composition model over pairs of vectors on the GPU, one operation after another.

Mirrors the layers of `refimpl.gpst.composition.compose` and `decompose`. The kernels are those of `pair_attention`,
`residual_norm`, `bias_erf_gelu` and `dropout`; the products are those of `products`.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod, sqrt
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.pair_attention import WARPS
from accel.cuda.products import matmul
from accel.cuda.support import check


def pair_layers(
    x: Array, first: Array, bias: Array, product: Array, output: Array, output_bias: Array, inner: Array,
    inner_bias: Array, outer: Array, outer_bias: Array, roles: Array, n_heads: int, rate: float, seeds: tuple[int, ...],
) -> tuple[Array, Array]:  # fmt: skip
    """Return the outputs of K layers for pairs [P, d], and what the gradient needs, one array.

    x [2 P, d], pair after pair; first [2 P, 3 d], queries, keys and values of the first layer; bias [K, R, 3 d], added
    to them by role; product [K, d, 3 d], the first one is not read; output [K, d, d]; inner [K, d, f]; outer [K, f, d];
    the biases of the last three [K, d], [K, f] and [K, d]; roles [2 P] int32; seeds, four for each layer. Raises
    ValueError naming the argument that does not fit.
    """
    weights = bias, product, output, output_bias, inner, inner_bias, outer, outer_bias
    x, first, weights, roles = _check(x, first, weights, roles, n_heads, seeds)
    bias, product, output, output_bias, inner, inner_bias, outer, outer_bias = weights
    xp, rows, d, drop = device.xp(), len(x), x.shape[1], [check.dropout(rate, seed) for seed in seeds]
    saved, layers, scales = _saved(x, inner, n_heads)
    width, grid = d // n_heads, (-(-(rows // 2) * n_heads // WARPS),)
    for k, (joint, attention, attended, middle, middle_scales, before, hidden, out, out_scales) in enumerate(layers):
        joint = matmul(x, product[k], out=joint) if k else first
        args = joint, bias[k], roles, attended, attention, rows // 2, n_heads, width, 1 / sqrt(width), *drop[4 * k]
        device.launch("pair_attention", "pair_attention_forward", grid, (32, WARPS), args, x.dtype)
        _normalise(x, matmul(attended, output[k]), output_bias[k], middle, middle_scales, drop[4 * k + 1])
        matmul(middle, inner[k], out=before)
        _launch("gelu", "bias_erf_gelu_forward", before, (before, inner_bias[k], hidden, before.size, inner.shape[2]))
        if rate:
            _launch("layers", "dropout", hidden, (hidden, hidden, hidden.size, *drop[4 * k + 2]))
        _normalise(middle, matmul(hidden, outer[k]), outer_bias[k], out, out_scales, drop[4 * k + 3])
        x = out
    ends, none = xp.empty((rows // 2, d), x.dtype), xp.zeros(d, x.dtype)
    halves = xp.ascontiguousarray(x[::2]), xp.ascontiguousarray(x[1::2])
    _normalise(*halves, none, ends, scales, check.dropout(0.0, 0))
    return ends, saved


def pair_layers_vjp(
    d_out: Array, outputs: tuple[Array, Array], x: Array, first: Array, bias: Array, product: Array, output: Array,
    output_bias: Array, inner: Array, inner_bias: Array, outer: Array, outer_bias: Array, roles: Array, n_heads: int,
    rate: float, seeds: tuple[int, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of x, first and the eight weights and biases."""
    weights = bias, product, output, output_bias, inner, inner_bias, outer, outer_bias
    xp, drop = device.xp(), [check.dropout(rate, seed) for seed in seeds]
    d_out, *_ = check.floats(d_out=d_out, x=x)
    _, layers, scales = _saved(x, inner, n_heads, outputs[1])
    gradients = tuple(xp.empty_like(weight) for weight in weights)
    d_bias, d_product, d_output, d_output_bias, d_inner, d_inner_bias, d_outer, d_outer_bias = gradients
    d_product[0] = 0
    has_role = (roles == xp.arange(bias.shape[1])[:, None]).astype(x.dtype)
    slopes = xp.repeat(_normalise_back(d_out, outputs[0], scales, check.dropout(0.0, 0))[0], 2, axis=0)
    for k in reversed(range(len(layers))):
        joint, attention, attended, middle, middle_scales, before, hidden, out, out_scales = layers[k]
        d_middle, d_y = _normalise_back(slopes, out, out_scales, drop[4 * k + 3])
        d_y.sum(axis=0, out=d_outer_bias[k])
        matmul(hidden.T, d_y, out=d_outer[k])
        d_hidden = matmul(d_y, outer[k].T)
        if rate:
            _launch("layers", "dropout", d_hidden, (d_hidden, d_hidden, d_hidden.size, *drop[4 * k + 2]))
        args = d_hidden, before, inner_bias[k], d_hidden, before.size, inner.shape[2]
        _launch("gelu", "bias_erf_gelu_backward", before, args)
        d_hidden.sum(axis=0, out=d_inner_bias[k])
        matmul(middle.T, d_hidden, out=d_inner[k])
        matmul(d_hidden, inner[k].T, out=d_middle, add=True)
        slopes, d_y = _normalise_back(d_middle, middle, middle_scales, drop[4 * k + 1])
        d_y.sum(axis=0, out=d_output_bias[k])
        matmul(attended.T, d_y, out=d_output[k])
        joint, d_joint = joint if k else first, xp.empty_like(first)
        width, grid = x.shape[1] // n_heads, (-(-(len(x) // 2) * n_heads // WARPS),)
        sizes = len(x) // 2, n_heads, width, 1 / sqrt(width)
        args = matmul(d_y, output[k].T), joint, bias[k], roles, attention, d_joint, *sizes, *drop[4 * k]
        device.launch("pair_attention", "pair_attention_backward", grid, (32, WARPS), args, x.dtype)
        matmul(has_role, d_joint, out=d_bias[k])
        if k:
            matmul(layers[k - 1][-2].T, d_joint, out=d_product[k])
            matmul(d_joint, product[k].T, out=slopes, add=True)
    return slopes, d_joint, *gradients


def _saved(x: Array, inner: Array, n_heads: int, saved: Array | None = None) -> Any:
    """Return the array for what the gradient needs, a new one if there is none; its parts by layer; the last one."""
    n, d, (layers, _, f) = len(x), x.shape[1], inner.shape
    of_layer = (n, 3 * d), (n, 2 * n_heads), (n, d), (n, d), (n,), (n, f), (n, f), (n, d), (n,)
    count = len(of_layer)
    shapes = [*of_layer * layers, (n // 2,)]
    ends = list(accumulate(prod(shape) for shape in shapes))
    saved = device.xp().empty(ends[-1], x.dtype) if saved is None else saved
    begins = [0, *ends[:-1]]
    parts = [saved[a:b].reshape(shape) for a, b, shape in zip(begins, ends, shapes, strict=True)]
    return saved, [parts[i : i + count] for i in range(0, count * layers, count)], parts[-1]


def _launch(source: str, kernel: str, x: Array, args: tuple[Any, ...]) -> None:
    """Launch a kernel that has a thread for every element of x."""
    device.launch(source, kernel, (-(-x.size // check.THREADS),), (check.THREADS,), args, x.dtype)


def _normalise_back(d_out: Array, normal: Array, scales: Array, drop: tuple[Any, ...]) -> tuple[Array, Array]:
    """Return the slopes of both terms; the second one is dropped."""
    xp, (n, d) = device.xp(), normal.shape
    d_x = xp.empty_like(normal)
    d_y = xp.empty_like(normal) if drop[1] else d_x  # where nothing is dropped
    args = d_out, normal, scales, d_x, d_y, n, d, *drop
    device.launch("pair_attention", "residual_norm_backward", (-(-n // WARPS),), (32, WARPS), args, normal.dtype)
    return d_x, d_y


def _normalise(x: Array, y: Array, bias: Array, out: Array, scales: Array, drop: tuple[Any, ...]) -> None:
    n, d = x.shape
    args = x, y, bias, out, scales, n, d, *drop
    device.launch("pair_attention", "residual_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)


def _check(x: Array, first: Array, weights: tuple[Array, ...], roles: Array, n_heads: int, seeds: Any) -> Any:
    names = "bias", "product", "output", "output_bias", "inner", "inner_bias", "outer", "outer_bias"
    x, first, *weights = check.floats(x=x, first=first, **dict(zip(names, weights, strict=True)))
    (roles,) = check.integers(np.int32, roles=roles)
    check.shape("x", x, "2 P", "d")
    (n, d), layers, f = x.shape, len(weights[0]), weights[4].shape[-1]
    check.shape("first", first, n, 3 * d)
    check.shape("bias", weights[0], layers, "R", 3 * d)
    shapes = (layers, d, 3 * d), (layers, d, d), (layers, d), (layers, d, f), (layers, f), (layers, f, d), (layers, d)
    for name, weight, shape in zip(names[1:], weights[1:], shapes, strict=True):
        check.shape(name, weight, *shape)
    check.shape("roles", roles, n)
    check.indices({"roles": (roles, 0, weights[0].shape[1])})
    if n % 2:
        raise ValueError(f"x: {n} rows are no pairs")
    if layers == 0:
        raise ValueError("bias: no layers")
    if n_heads < 1 or d % n_heads:
        raise ValueError(f"n_heads: {n_heads} heads, but rows of {d}")
    if len(seeds) != 4 * layers:
        raise ValueError(f"seeds: {len(seeds)}, not 4 for each of {layers} layers")
    return x, first, weights, roles
