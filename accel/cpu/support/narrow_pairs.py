"""GPST's layers over pairs where vectors are narrow: a tile of pairs goes through all layers while it is in the cache.

A tile holds as many pairs as a vector has lanes: feature by feature, first the first rows of all pairs, then the second
ones. Parallel over tiles, and backwards over parts of them, whose gradients of weights are added in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.cpu.layers import EPSILON
from accel.cpu.support.kernels import keep_threshold, kernel
from accel.cpu.support.lanes import PAIRS, back_product, cross, half_of, product
from accel.cpu.support.pair_tiles import (
    activate,
    activate_back,
    add_up,
    attend,
    attend_back,
    drop,
    gather,
    mark,
    normalise,
    normalise_back,
    scatter,
    swap_halves,
)
from accel.cpu.support.pairs import Layers
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
GROUP = 16
"""Tiles whose slopes in a layer stay in the cache until they are in the gradients of its weights."""
PART_TILES, MOST_PARTS = 8, 4
"""Tiles are cut into parts of so many or more, each with gradients of its own, and into no more parts than that."""


class Sections(NamedTuple):
    """Where the parts of a saved tile begin, in features; queries, keys and values begin it."""

    weights: int  # of the first row's value, then of the second one's, by head
    attended: int
    middle: int  # after attention, normalised
    inner: int  # before the GELU
    out: int
    scales: int  # the reciprocal standard deviations of middle and out
    end: int


class Saved(NamedTuple):
    """What a forward pass leaves for the gradient."""

    layers: Float  # [K, tiles, lanes * features]
    marks: Float  # [tiles, R * lanes] 1 where a row has a role
    scale: Float  # [P] the reciprocal standard deviations of the outputs


def shapes(layers: Layers) -> Saved:
    """Return the shapes of what is saved."""
    pairs, lanes = len(layers.x) // 2, 2 * PAIRS[layers.x.dtype.name]
    tiles, (count, roles, _) = -(-2 * pairs // lanes), layers.bias.shape
    return Saved((count, tiles, lanes * _sections(layers).end), (tiles, lanes * roles), (pairs,))  # type: ignore[arg-type]


def forward(layers: Layers, saved: Saved, out: Float) -> None:
    """Set `out` [P, d] and what the gradient needs."""
    rows = layers.x, layers.first, layers.roles, *layers.weights
    epsilon = layers.x.dtype.type(EPSILON)
    _forward(*rows, _heads(layers), _sections(layers), epsilon, *_dropout(layers), *saved, out)


def backward(layers: Layers, saved: Saved, out: Float, d_out: Float) -> tuple[Float, ...]:
    """Return the gradients of x, first and all weights."""
    (d, f), dtype, tiles = layers.inner.shape[1:], out.dtype, len(saved.marks)
    parts = max(1, min(MOST_PARTS, tiles // PART_TILES))
    slopes = np.empty((parts, GROUP, 2 * PAIRS[dtype.name] * (5 * d + 2 * f + 1 - d % 2)), dtype)
    d_x, d_first = np.empty(layers.x.shape, dtype), np.empty(layers.first.shape, dtype)
    sums = tuple(np.empty((parts, *weight.shape), dtype) for weight in layers.weights)
    sums[1][:, 0] = 0
    if not tiles:
        return d_x, d_first, *(np.zeros(weight.shape, dtype) for weight in layers.weights)
    matrices = layers.product, layers.output, layers.inner, layers.outer
    _backward(
        d_out, out, *saved, *matrices, _heads(layers), _sections(layers), *_dropout(layers), slopes, d_x, d_first, *sums
    )
    return d_x, d_first, *(x[0] if parts == 1 else x.sum(axis=0) for x in sums)


def _heads(layers: Layers) -> tuple[int, int]:
    return layers.n_heads, layers.x.shape[1] // layers.n_heads


def _sections(layers: Layers) -> Sections:
    """Return the sections of a tile; it has an odd number of features, or the same of all tiles share a cache line."""
    d, f = layers.inner.shape[1:]
    ends = np.cumsum([3 * d, 2 * layers.n_heads, d, d, f, d, 3 - f % 2])
    return Sections(*ends.tolist())


def _dropout(layers: Layers) -> tuple[Any, ...]:
    scale = layers.x.dtype.type(1 / (1 - layers.rate))
    return scale, keep_threshold(layers.rate), np.array(layers.seeds, np.uint64).reshape(-1, 4)


@team_kernel()
def _forward(
    part, x, first, roles, bias, of_joint, output, output_bias, inner, inner_bias, outer, outer_bias, heads, sections,
    epsilon, scale, threshold, seeds, saved, marks, out_scale, out,
):  # fmt: skip
    layers, tiles, _ = saved.shape
    pairs, d = out.shape
    f = inner.shape[2]
    half = half_of(x)
    lanes = 2 * half
    for t in share(part, tiles):
        begin = t * half
        count = min(half, pairs - begin)
        y, hidden = np.empty(d * lanes, x.dtype), np.empty(f * lanes, x.dtype)
        first_x, ones = np.zeros(d * lanes, x.dtype), np.ones(lanes, x.dtype)
        gather(x, begin, count, first_x)
        mark(roles, begin, count, marks[t])
        for k in range(layers):
            tile = saved[k, t]
            rows = first_x if k == 0 else saved[k - 1, t][sections.out * lanes : sections.scales * lanes]
            joint = tile[: 3 * d * lanes]
            if k == 0:
                joint[:] = 0
                gather(first, begin, count, joint)
            else:
                product(of_joint[k], rows, joint, 0)
            product(bias[k], marks[t], joint, 1)
            attended = tile[sections.attended * lanes : sections.middle * lanes]
            weights = tile[sections.weights * lanes : sections.attended * lanes]
            attend(joint, heads, scale, threshold, seeds[k, 0], begin, weights, attended)
            scales = tile[sections.scales * lanes :]
            scales[2 * lanes :] = 0  # read by nobody
            middle = tile[sections.middle * lanes : sections.inner * lanes]
            product(output_bias[k : k + 1], ones, y, 0)
            product(output[k], attended, y, 1)
            drop(y, d, scale, threshold, seeds[k, 1], begin)
            normalise(rows, y, epsilon, middle, scales[:lanes])
            before = tile[sections.inner * lanes : sections.out * lanes]
            product(inner_bias[k : k + 1], ones, before, 0)
            product(inner[k], middle, before, 1)
            activate(before, hidden)
            drop(hidden, f, scale, threshold, seeds[k, 2], begin)
            product(outer_bias[k : k + 1], ones, y, 0)
            product(outer[k], hidden, y, 1)
            drop(y, d, scale, threshold, seeds[k, 3], begin)
            normalise(middle, y, epsilon, tile[sections.out * lanes : sections.scales * lanes], scales[lanes:])
        last = saved[layers - 1, t][sections.out * lanes : sections.scales * lanes]
        swap_halves(last, y)
        scales = np.empty(lanes, x.dtype)
        normalise(last, y, epsilon, first_x, scales)
        for lane in range(count):
            out_scale[begin + lane] = scales[lane]
            for a in range(d):
                out[begin + lane, a] = first_x[a * lanes + lane]


@team_kernel()
def _backward(
    part, d_out, out, saved, marks, out_scale, of_joint, output, inner, outer, heads, sections, scale, threshold, seeds,
    slopes, d_x, d_first, d_bias, d_product, d_output, d_output_bias, d_inner, d_inner_bias, d_outer, d_outer_bias,
):  # fmt: skip
    layers, tiles, _ = saved.shape
    pairs, d = out.shape
    f, parts, half = inner.shape[2], len(slopes), half_of(out)
    lanes = 2 * half
    for p in share(part, parts):
        below = np.empty((GROUP, d * lanes), out.dtype)
        last = (p + 1) * tiles // parts
        first = p * tiles // parts
        for begin in range(first, last, GROUP):
            end, beta = min(last, begin + GROUP), 0 if begin == first else 1
            for t in range(begin, end):
                _end_back(d_out, out, out_scale, t, below[t - begin])
            for k in range(layers - 1, -1, -1):
                for t in range(begin, end):
                    tile, slope, g = saved[k, t], slopes[p, t - begin], below[t - begin]
                    _layer_back(
                        tile, slope, g, output[k], inner[k], outer[k], heads, sections, scale, threshold, seeds[k],
                        t * half,
                    )  # fmt: skip
                    if k:
                        back_product(of_joint[k], slope[: 3 * d * lanes], g, 1)
                beside = slopes[p, : end - begin]
                tile = saved[k, begin:end]
                cross(tile, sections.middle, beside, 4 * d, d_inner[p, k], beta)
                cross(beside, 5 * d + f, beside, 4 * d + f, d_outer[p, k], beta)
                cross(tile, sections.attended, beside, 3 * d, d_output[p, k], beta)
                if k:
                    cross(saved[k - 1, begin:end], sections.out, beside, 0, d_product[p, k], beta)
                cross(marks[begin:end], 0, beside, 0, d_bias[p, k], beta)
                add_up(beside, 3 * d, d_output_bias[p, k], beta)
                add_up(beside, 4 * d, d_inner_bias[p, k], beta)
                add_up(beside, 4 * d + f, d_outer_bias[p, k], beta)
            for t in range(begin, end):
                count = min(half, pairs - t * half)
                scatter(below[t - begin], t * half, count, d_x)
                scatter(slopes[p, t - begin][: 3 * d * lanes], t * half, count, d_first)


@kernel()
def _end_back(d_out, out, out_scale, t, g):
    """Set g to the slopes of what the last layer returns, of tile t."""
    half = half_of(out)
    pairs, d = out.shape
    lanes, begin = 2 * half, t * half
    normal, scales = np.zeros(d * lanes, out.dtype), np.zeros(lanes, out.dtype)
    g[:] = 0
    for lane in range(min(half, pairs - begin)):
        scales[lane] = scales[half + lane] = out_scale[begin + lane]
        for a in range(d):
            g[a * lanes + lane] = g[a * lanes + half + lane] = d_out[begin + lane, a]
            normal[a * lanes + lane] = normal[a * lanes + half + lane] = out[begin + lane, a]
    normalise_back(g, normal, scales, g)


@kernel()
def _layer_back(tile, slope, g, output, inner, outer, heads, sections, scale, threshold, seeds, begin):
    """Set the slopes of a layer, and g, those of what it returns, to those of what it takes but for its products."""
    d, f = inner.shape
    lanes = 2 * half_of(g)
    joint = tile[: 3 * d * lanes]
    scales = tile[sections.scales * lanes : (sections.scales + 2) * lanes]
    middle = tile[sections.middle * lanes : sections.inner * lanes]
    before = tile[sections.inner * lanes : sections.out * lanes]
    d_joint = slope[: 3 * d * lanes]
    d_attended = slope[3 * d * lanes : 4 * d * lanes]
    d_before = slope[4 * d * lanes : (4 * d + f) * lanes]
    d_outer = slope[(4 * d + f) * lanes : (5 * d + f) * lanes]
    hidden = slope[(5 * d + f) * lanes : (5 * d + 2 * f) * lanes]
    d_hidden, back = np.empty(f * lanes, g.dtype), np.empty(d * lanes, g.dtype)
    normalise_back(g, tile[sections.out * lanes : sections.scales * lanes], scales[lanes:], g)
    d_outer[:] = g
    drop(d_outer, d, scale, threshold, seeds[3], begin)
    back_product(outer, d_outer, d_hidden, 0)
    drop(d_hidden, f, scale, threshold, seeds[2], begin)
    activate_back(before, d_hidden, hidden, d_before)
    drop(hidden, f, scale, threshold, seeds[2], begin)
    back_product(inner, d_before, g, 1)
    normalise_back(g, middle, scales[:lanes], g)
    d_attended[:] = g
    drop(d_attended, d, scale, threshold, seeds[1], begin)
    back_product(output, d_attended, back, 0)
    weights = tile[sections.weights * lanes : sections.attended * lanes]
    attend_back(joint, heads, scale, threshold, seeds[0], begin, weights, back, d_joint)
