"""GPST's layers over pairs where vectors are narrow: a tile of pairs goes through all layers while it is in the cache.

A tile holds as many pairs as a vector has lanes. It lies feature by feature: first the first rows of all pairs, then
the second rows. Parallel over tiles.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from accel.cpu.layers import EPSILON
from accel.cpu.support.kernels import keep_threshold, kernel
from accel.cpu.support.lanes import PAIRS, half_of, product
from accel.cpu.support.narrow_backward import LEAST, Sections, backward_pass
from accel.cpu.support.pair_tiles import activate, attend, drop, gather, mark, normalise, swap_halves
from accel.cpu.support.pairs import Layers, aligned
from accel.cpu.support.team import share, team_kernel
from accel.cpu.support.turns import counters, take

Float = NDArray[Any]
GROUP = 16
"""Tiles of a group: their gradients in a layer stay in the cache until they are added to those of its weights."""


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
    """Set `out` [P, d], and `saved` for the gradient."""
    rows = layers.x, layers.first, layers.roles, *layers.weights
    epsilon = layers.x.dtype.type(EPSILON)
    options = _heads(layers), _sections(layers), epsilon, *_dropout(layers)
    _forward(*rows, *options, *saved, out, counters(), get_num_threads())


def backward(layers: Layers, saved: Saved, out: Float, d_out: Float) -> tuple[Float, ...]:
    """Return the gradients of x, first and all weights."""
    (d, f), dtype, group = layers.inner.shape[1:], out.dtype, min(GROUP, len(saved.marks))
    lanes = 2 * PAIRS[dtype.name]
    if not group:
        return tuple(np.zeros(x.shape, dtype) for x in (layers.x, layers.first, *layers.weights))
    inner_gradients, below = (aligned((group, lanes * width), dtype) for width in (5 * d + 2 * f + 1 - d % 2, d))
    gradients = tuple(np.empty(x.shape, dtype) for x in (layers.x, layers.first, *layers.weights))
    gradients[3][0] = 0  # `product` of the first layer is not read
    matrices = layers.product, layers.output, layers.inner, layers.outer
    backward_pass(
        layers.x, d_out, out, *saved, *matrices, _heads(layers), _sections(layers), *_dropout(layers),
        inner_gradients, below, *gradients, counters(), get_num_threads(),
    )  # fmt: skip
    return gradients


def _heads(layers: Layers) -> tuple[int, int]:
    return layers.n_heads, layers.x.shape[1] // layers.n_heads


def _sections(layers: Layers) -> Sections:
    return _sections_of(*layers.inner.shape[1:], layers.n_heads)


@cache
def _sections_of(d: int, f: int, n_heads: int) -> Sections:
    """Return the sections of a tile. The number of features is odd, or all tiles would compete for one cache line."""
    ends = np.cumsum([3 * d, 2 * n_heads, d, d, f, d, 3 - f % 2])
    return Sections(*ends.tolist())


def _dropout(layers: Layers) -> tuple[Any, ...]:
    scale = layers.x.dtype.type(1 / (1 - layers.rate))
    return scale, keep_threshold(layers.rate), np.array(layers.seeds, np.uint64).reshape(-1, 4)


@team_kernel(LEAST)
def _forward(
    part, x, first, roles, bias, of_joint, output, output_bias, inner, inner_bias, outer, outer_bias, heads, sections,
    epsilon, scale, threshold, seeds, saved, marks, out_scale, out, counters, workers,
):  # fmt: skip
    for _ in share(part, workers):
        t = take(counters)  # the thread that is awake first begins
        while t < len(marks):
            _tile(
                t, x, first, roles, bias, of_joint, output, output_bias, inner, inner_bias, outer, outer_bias, heads,
                sections, epsilon, scale, threshold, seeds, saved, marks, out_scale, out,
            )  # fmt: skip
            t = take(counters)


@kernel()
def _tile(
    t, x, first, roles, bias, of_joint, output, output_bias, inner, inner_bias, outer, outer_bias, heads, sections,
    epsilon, scale, threshold, seeds, saved, marks, out_scale, out,
):  # fmt: skip
    """Run all layers for tile t."""
    layers, (pairs, d) = len(saved), out.shape
    f, half = inner.shape[2], half_of(x)
    lanes, begin = 2 * half, t * half
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
        scales[2 * lanes :] = 0  # padding
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
