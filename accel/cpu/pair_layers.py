"""The layers of GPST's composition model over pairs of vectors, as one operation.

Mirrors the layers of `refimpl.gpst.composition.compose` and `decompose`.
Parallel over tiles of pairs, each of which goes through all layers. Memory: each layer saves 10 d + 2 H numbers a row,
for f = 4 d. It is made for narrow vectors: with wide vectors the weights do not stay in the cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support import narrow_pairs
from accel.cpu.support.arguments import check_floats, check_indices, contiguous
from accel.cpu.support.kernels import keep_threshold
from accel.cpu.support.pairs import Layers, aligned

Float = NDArray[Any]
Int = NDArray[np.int32]


@contiguous
def pair_layers(
    x: Float, first: Float, bias: Float, product: Float, output: Float, output_bias: Float, inner: Float,
    inner_bias: Float, outer: Float, outer_bias: Float, roles: Int, n_heads: int, rate: float, seeds: tuple[int, ...],
) -> tuple[Float, Float]:  # fmt: skip
    """Return the outputs [P, d] of K layers over pairs, and one array of all that the gradient needs.

    Spec: IO-1, of a batch.

    Parameters
    ----------
    x : [2 P, d]
        The vectors, pair after pair.
    first : [2 P, 3 d]
        The queries, keys and values of these vectors in the first layer, before `bias` is added.
    bias : [K, R, 3 d]
        What every layer adds to the queries, keys and values of the rows of each role.
    product : [K, d, 3 d]
        The weights of queries, keys and values; those of the first layer are not read.
    output : [K, d, d], output_bias : [K, d]
        The output projection of attention.
    inner : [K, d, f], inner_bias : [K, f], outer : [K, f, d], outer_bias : [K, d]
        The two layers of the feed-forward networks.
    roles : [2 P] int32
        The role of every row, 0..R-1.
    n_heads : int
        H, divides d.
    rate : float
        The rate of dropout.
    seeds : 4 K numbers
        Seeds of dropout, four for every layer: for the weights of attention, as in `pair_attention`; for the output of
        attention; for the hidden features, where feature a of row i is element i f + a; for the output of the
        feed-forward network.

    Raises
    ------
    ValueError
        An odd number of rows; shapes, dtypes, roles, heads, rate or seeds that do not fit.
    """
    rows = x, first, bias, product, output, output_bias, inner, inner_bias, outer, outer_bias
    layers = _layers(*rows, roles, n_heads, rate, seeds)
    out, (saved, parts) = np.empty((len(x) // 2, x.shape[1]), x.dtype), _saved(layers)
    narrow_pairs.forward(layers, parts, out)
    return out, saved


@contiguous
def pair_layers_vjp(
    d_out: Float, outputs: tuple[Float, Float], x: Float, first: Float, bias: Float, product: Float, output: Float,
    output_bias: Float, inner: Float, inner_bias: Float, outer: Float, outer_bias: Float, roles: Int, n_heads: int,
    rate: float, seeds: tuple[int, ...],
) -> tuple[Float, ...]:  # fmt: skip
    """Return the gradients of x, first, bias, product, output, output_bias, inner, inner_bias, outer and outer_bias."""
    rows = x, first, bias, product, output, output_bias, inner, inner_bias, outer, outer_bias
    layers = _layers(*rows, roles, n_heads, rate, seeds)
    check_floats(out=(outputs[0], "Pd"), d_out=(d_out, "Pd"))
    _, parts = _saved(layers, outputs[1])
    return narrow_pairs.backward(layers, parts, outputs[0], d_out)


def _saved(layers: Layers, saved: Float | None = None) -> tuple[Float, narrow_pairs.Saved]:
    """Return the array that holds what the gradient needs, a new one if `saved` is None, and its parts."""
    shapes = narrow_pairs.shapes(layers)
    sizes = [math.prod(shape) for shape in shapes]
    whole = aligned((sum(sizes),), layers.x.dtype) if saved is None else saved
    parts, begin = [], 0
    for shape, size in zip(shapes, sizes, strict=True):
        parts.append(whole[begin : begin + size].reshape(shape))
        begin += size
    return whole, narrow_pairs.Saved(*parts)


def _layers(*arguments: Any) -> Layers:
    """Return the arguments as `Layers`; raise ValueError if they do not fit."""
    layers = Layers(*arguments)
    axes = "Nd", "Nt", "KRt", "Kdt", "Kde", "Kd", "Kdf", "Kf", "Kfd", "Kd"
    of_weights, rows = zip(Layers._fields[2:], layers.weights, axes[2:], strict=False), (layers.first, axes[1])
    weights = {name: (weight, axis) for name, weight, axis in of_weights}
    sizes = check_floats(x=(layers.x, axes[0]), **weights, first=rows)
    d, count, n_heads = sizes["d"], sizes["K"], layers.n_heads
    check_indices("roles", layers.roles, sizes["N"], sizes["R"])
    if sizes["N"] % 2:
        raise ValueError(f"x: {sizes['N']} rows, but pairs need an even number")
    if count == 0:
        raise ValueError("bias: 0 layers, expected 1 or more")
    if sizes["t"] != 3 * d:
        raise ValueError(f"bias: rows of {sizes['t']}, not {3 * d} for queries, keys and values")
    if sizes["e"] != d:
        raise ValueError(f"output: rows of {sizes['e']}, not {d}")
    if n_heads < 1 or d % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {d}")
    if len(layers.seeds) != 4 * count:
        raise ValueError(f"seeds: {len(layers.seeds)}, not 4 for each of {count} layers")
    keep_threshold(layers.rate)
    return layers
