"""The layers of GPST's composition model over pairs of vectors on the GPU: one kernel forward, one backward.

Mirrors the layers of `refimpl.gpst.composition.compose` and `decompose`. A block takes a tile of rows through all
layers; products of all rows then give the gradients of weights. Products inside of the kernels are in the dtype of
their factors, whatever the precision of other products. Memory: what a layer saves, 10 d + 2 H numbers a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.products import matmul, matmul_all
from accel.cuda.role_biases import rows_of_roles
from accel.cuda.support import check
from accel.cuda.support.packing import packed
from accel.cuda.support.transposes import transpose_all

WARPS = 8  # a block
TILE_BYTES = 64  # of a column of a whole tile, as in row_tiles.cu
PARTS = (4, 2, 1)  # a whole tile may be cut into so many: CHUNKS of row_tiles.cu
WEIGHTS_AHEAD = 32  # that a thread loads before it uses the first, as in row_tiles.cu


class Weights(NamedTuple):
    """The weights and biases of K layers, as `pair_layers` takes them."""

    bias: Array
    product: Array
    output: Array
    output_bias: Array
    inner: Array
    inner_bias: Array
    outer: Array
    outer_bias: Array


class Saved(NamedTuple):
    """What the gradient needs of N rows in K layers."""

    joints: Array  # [K - 1, N, 3 d] queries, keys and values of all layers but the first
    attention: Array  # [K, N, 2 H]
    attended: Array  # [K, N, d]
    middles: Array  # [K, N, d]
    middle_scales: Array  # [K, N]
    befores: Array  # [K, N, f] before bias and GELU
    hiddens: Array  # [K, N, f]
    outs: Array  # [K, N, d]
    out_scales: Array  # [K, N]
    ends: Array  # [N / 2, d] the outputs of the pairs
    end_scales: Array  # [N / 2]


class RowGradients(NamedTuple):
    """The gradients of N rows, and of what each matrix product of K layers returns for them."""

    rows: Array  # [N, d]
    joints: Array  # [K, N, 3 d]
    outputs: Array  # [K, N, d]
    inners: Array  # [K, N, f]
    outers: Array  # [K, N, d]


class Rows(NamedTuple):
    """The rows of some pairs: rows begin..end - 1 of all. If `gathered`, row i is row numbers[i] of x and of first."""

    x: Array
    first: Array
    numbers: Array  # [N] int32
    gathered: bool
    roles: Array  # [N] int32
    begin: int
    end: int
    skipped: int = 0  # the first row for which `Saved` has room


class Drop(NamedTuple):
    """The dropout of K layers: four seeds for each, on the device; threshold and multiplier as of `check.dropout`."""

    seeds: Array  # uint64
    threshold: np.uint64
    multiplier: float


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
    weights = Weights(bias, product, output, output_bias, inner, inner_bias, outer, outer_bias)
    rows, weights = _check(x, first, weights, roles, n_heads, seeds)
    whole, saved = _saved(len(x), weights, n_heads)
    forward(rows, weights, saved, n_heads, _drop(rate, seeds))
    return saved.ends.copy(), whole


def pair_layers_vjp(
    d_out: Array, outputs: tuple[Array, Array], x: Array, first: Array, bias: Array, product: Array, output: Array,
    output_bias: Array, inner: Array, inner_bias: Array, outer: Array, outer_bias: Array, roles: Array, n_heads: int,
    rate: float, seeds: tuple[int, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of x, first and the eight weights and biases."""
    weights = Weights(bias, product, output, output_bias, inner, inner_bias, outer, outer_bias)
    rows, weights = _check(x, first, weights, roles, n_heads, seeds)
    (d_out,) = check.floats(d_out=d_out)
    saved = _saved(len(x), weights, n_heads, outputs[1])[1]
    row_gradients = gradients_like(saved, weights)
    backward(rows, weights, transposed(weights), saved, row_gradients, d_out, n_heads, _drop(rate, seeds))
    gradients = of_weights(saved, row_gradients, rows.roles, weights.bias.shape[1])
    return row_gradients.rows, row_gradients.joints[0], *gradients


def saved_shapes(n: int, weights: Weights, n_heads: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the fields of `Saved` for n rows."""
    layers, d, f = weights.inner.shape
    return {
        "joints": (layers - 1, n, 3 * d), "attention": (layers, n, 2 * n_heads), "attended": (layers, n, d),
        "middles": (layers, n, d), "middle_scales": (layers, n), "befores": (layers, n, f), "hiddens": (layers, n, f),
        "outs": (layers, n, d), "out_scales": (layers, n), "ends": (n // 2, d), "end_scales": (n // 2,),
    }  # fmt: skip


def gradients_like(saved: Saved, weights: Weights) -> RowGradients:
    """Return room for the gradients of all rows."""
    xp, (layers, n, d) = device.xp(), saved.outs.shape
    shapes = (n, d), (layers, n, 3 * d), (layers, n, d), saved.befores.shape, (layers, n, d)
    return RowGradients(*(xp.empty(shape, saved.outs.dtype) for shape in shapes))


def transposed(weights: Weights) -> Weights:
    """Return the weights with rows and columns of each matrix exchanged."""
    return transposed_all(weights)[0]


def transposed_all(weights: Weights, *others: Array) -> tuple[Weights, list[Array]]:
    """Return the weights with rows and columns of each matrix exchanged, and other matrices likewise."""
    product, output, inner, outer, *rest = transpose_all(
        [weights.product, weights.output, weights.inner, weights.outer, *others]
    )
    return weights._replace(product=product, output=output, inner=inner, outer=outer), rest


def forward(rows: Rows, weights: Weights, saved: Saved, n_heads: int, drop: Drop) -> None:
    """Run all layers over some pairs; write what they compute to `saved`."""
    d, f = weights.inner.shape[1:]
    sources = rows.x, rows.first, rows.numbers, int(rows.gathered), rows.roles
    args = *sources, *weights, *saved, *_sizes(rows, weights, saved, n_heads, drop)
    _launch("pair_layers_forward", rows, 2 * d + max(3 * d, f), args)


def backward(
    rows: Rows, weights: Weights, turned: Weights, saved: Saved, row_gradients: RowGradients, d_ends: Array,
    n_heads: int, drop: Drop, passes: int = 1, pitch: int = 0,
) -> None:  # fmt: skip
    """Write the gradients for some pairs, from those of their outputs; `turned`: the transposed weights.

    If two passes run at once, the gradients of the second lie `pitch` numbers after those of the first.
    """
    d, f = weights.inner.shape[1:]
    sources = rows.first, rows.numbers, int(rows.gathered), rows.roles
    args = *sources, *turned, *saved, d_ends, *row_gradients, pitch, *_sizes(rows, weights, saved, n_heads, drop)
    _launch("pair_layers_backward", rows, 2 * d + max(4 * d, f), args, passes)


def of_weights(
    saved: Saved, row_gradients: RowGradients, roles: Array, n_roles: int, zero_first: bool = True
) -> tuple[Array, ...]:
    """Return the gradients of the weights and biases: a product of all rows for each.

    The layers do not read the first product: its gradient is 0, or, unless `zero_first`, left for the caller to write.
    """
    xp, (layers, _, d) = device.xp(), saved.outs.shape
    d_product = xp.empty((layers, d, 3 * d), saved.outs.dtype)
    if zero_first:
        d_product[0] = 0
    if layers > 1:
        matmul(saved.outs[:-1].swapaxes(1, 2), row_gradients.joints[1:], out=d_product[1:])
    has_role = rows_of_roles(roles, n_roles, saved.outs.dtype)
    d_bias = xp.empty((layers, n_roles, 3 * d), saved.outs.dtype)
    matmul_all([has_role] * layers, list(row_gradients.joints), list(d_bias))
    gradients = [d_bias, d_product]
    for x, gradient in (
        (saved.attended, row_gradients.outputs),
        (saved.middles, row_gradients.inners),
        (saved.hiddens, row_gradients.outers),
    ):
        gradients += [matmul(x.swapaxes(1, 2), gradient), gradient.sum(axis=1)]
    return tuple(gradients)


def tiles_of(n_rows: int, dtype: Any, columns: int) -> tuple[int, int]:
    """Return how many tiles so many rows take, and how many make a whole one: the smallest tiles that run at once.

    If none do, they are the largest tiles whose columns fit into shared memory.
    """
    rows = TILE_BYTES // np.dtype(dtype).itemsize
    parts = [part for part in PARTS if columns * TILE_BYTES // part <= device.shared_limit()] or PARTS[:1]
    counts = [(-(-n_rows * part // rows), part) for part in parts]
    return next((count for count in counts if count[0] <= device.multiprocessors()), counts[-1])


def _launch(kernel: str, rows: Rows, columns: int, args: tuple[Any, ...], passes: int = 1) -> None:
    count, part = tiles_of(rows.end - rows.begin, rows.x.dtype, columns)
    shared, dtype = columns * TILE_BYTES // part, rows.x.dtype
    device.launch("pair_layers", kernel, (count, passes), (32, WARPS), args, dtype, chunks=part, shared=shared)


def _sizes(rows: Rows, weights: Weights, saved: Saved, n_heads: int, drop: Drop) -> tuple[Any, ...]:
    layers, d, f = weights.inner.shape
    bounds = rows.begin, rows.end, rows.skipped, saved.outs.shape[1]
    return drop.seeds, *bounds, layers, weights.bias.shape[1], n_heads, d // n_heads, f, *drop[1:]


def _drop(rate: float, seeds: Sequence[int]) -> Drop:
    limits = [check.dropout(rate, seed) for seed in seeds]
    return Drop(packed([np.array(seeds, np.uint64)])[0][1], *limits[0][1:])


def _saved(n: int, weights: Weights, n_heads: int, whole: Array | None = None) -> tuple[Array, Saved]:
    """Return the array for what the gradient needs, a new one if `whole` is None, and its parts."""
    shapes = saved_shapes(n, weights, n_heads)
    ends = np.cumsum([prod(shape) for shape in shapes.values()]).tolist()
    whole = device.xp().empty(ends[-1], weights.bias.dtype) if whole is None else whole
    places = zip([0, *ends], ends, shapes.values(), strict=False)
    return whole, Saved(*(whole[begin:end].reshape(shape) for begin, end, shape in places))


def _check(x: Array, first: Array, weights: Weights, roles: Array, n_heads: int, seeds: Any) -> tuple[Rows, Weights]:
    x, first, *others = check.floats(x=x, first=first, **weights._asdict())
    weights = Weights(*others)
    (roles,) = check.integers(np.int32, roles=roles)
    check.shape("x", x, "2 P", "d")
    (n, d), layers, f = x.shape, len(weights.bias), weights.inner.shape[-1]
    check.shape("first", first, n, 3 * d)
    check.shape("bias", weights.bias, layers, "R", 3 * d)
    shapes = (layers, d, 3 * d), (layers, d, d), (layers, d), (layers, d, f), (layers, f), (layers, f, d), (layers, d)
    for name, weight, shape in zip(Weights._fields[1:], weights[1:], shapes, strict=True):
        check.shape(name, weight, *shape)
    check.shape("roles", roles, n)
    check.indices({"roles": (roles, 0, weights.bias.shape[1])})
    if n % 2:
        raise ValueError(f"x: {n} rows, but pairs need an even number")
    if layers == 0:
        raise ValueError("bias: 0 layers, expected 1 or more")
    if n_heads < 1 or d % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {d}")
    if len(seeds) != 4 * layers:
        raise ValueError(f"seeds: {len(seeds)}, not 4 for each of {layers} layers")
    return Rows(x, first, roles, False, roles, 0, n), weights
