"""The gradient of GPST's layers over pairs where vectors are narrow: group by group of tiles, from the last layer back.

Tiles are those of `narrow_pairs`. Parallel over the tiles of a group, then over the rows of the weights' gradients; the
groups are added to these gradients in order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accel.cpu.support.cell import copy
from accel.cpu.support.kernels import chunk_begin, kernel
from accel.cpu.support.lanes import BLOCK, back_product, cross, half_of
from accel.cpu.support.pair_tiles import activate_back, add_up, attend_back, drop, normalise_back, scatter
from accel.cpu.support.team import share, team_kernel
from accel.cpu.support.turns import end, take, wait

ROW_TURNS = 8
"""Number of turns that compute the rows of a layer's weight gradients; one more computes those of its biases."""
LEAST = 2**12
"""Smallest number of elements of the pairs' vectors for a team of threads: two tiles of width 64."""


class Sections(NamedTuple):
    """Where the parts of a saved tile begin, in features; the queries, keys and values stand first, at 0."""

    weights: int  # of attention to the first rows, by head, then to the second rows
    attended: int
    middle: int  # after attention, normalised
    inner: int  # before the GELU
    out: int
    scales: int  # the reciprocal standard deviations of middle and out
    end: int


@team_kernel(LEAST)
def backward_pass(
    part, x, d_out, out, saved, marks, out_scale, of_joint, output, inner, outer, heads, sections, scale, threshold,
    seeds, gradients, below, d_x, d_first, d_bias, d_product, d_output, d_output_bias, d_inner, d_inner_bias, d_outer,
    d_outer_bias, counters, workers,
):  # fmt: skip
    layers, tiles, _ = saved.shape
    pairs, d = out.shape
    group, half = len(gradients), half_of(out)
    joint = 6 * half * d
    for _ in share(part, workers):
        first, turn = 0, take(counters)
        for begin in range(0, tiles, group):
            size = min(group, tiles - begin)
            for k in range(layers - 1, -1, -1):
                while turn < first + size:
                    wait(counters, first)
                    t, gradient, g = begin + turn - first, gradients[turn - first], below[turn - first]
                    if k == layers - 1:
                        _end_back(d_out, out, out_scale, t, g)
                    _layer_back(
                        saved[k, t], gradient, g, output[k], inner[k], outer[k], heads, sections, scale, threshold,
                        seeds[k], t * half,
                    )  # fmt: skip
                    if k:
                        back_product(of_joint[k], gradient[:joint], g, 1)
                    else:
                        count = min(half, pairs - t * half)
                        scatter(g, t * half, count, d_x)
                        scatter(gradient[:joint], t * half, count, d_first)
                    end(counters)
                    turn = take(counters)
                first += size
                while turn < first + ROW_TURNS + 1:
                    wait(counters, first)
                    tile, below_tile = saved[k, begin : begin + size], saved[max(k - 1, 0), begin : begin + size]
                    if turn < first + ROW_TURNS:
                        _add_products(
                            turn - first, tile, below_tile, gradients[:size], sections, 1 if begin else 0, k,
                            d_product[k], d_output[k], d_inner[k], d_outer[k],
                        )  # fmt: skip
                    else:
                        _add_biases(
                            marks[begin : begin + size], gradients[:size], 1 if begin else 0,
                            d_bias[k], d_output_bias[k], d_inner_bias[k], d_outer_bias[k],
                        )  # fmt: skip
                    end(counters)
                    turn = take(counters)
                first += ROW_TURNS + 1


@kernel()
def _add_products(number, tile, tile_below, gradients, sections, beta, k, d_product, d_output, d_inner, d_outer):
    """Set rows of a layer's weight gradients to beta, 0 or 1, times them + the gradients of a group of tiles."""
    d, f = d_inner.shape
    _add_rows(number, tile, sections.middle, gradients, 4 * d, d_inner, beta)
    _add_rows(number, gradients, 5 * d + f, gradients, 4 * d + f, d_outer, beta)
    _add_rows(number, tile, sections.attended, gradients, 3 * d, d_output, beta)
    if k:
        _add_rows(number, tile_below, sections.out, gradients, 0, d_product, beta)


@kernel()
def _add_rows(number, x, row, gradients, gradient_row, out, beta):
    blocks = (len(out) + BLOCK - 1) // BLOCK
    begin = BLOCK * chunk_begin(number, ROW_TURNS, blocks)
    last = min(len(out), BLOCK * chunk_begin(number + 1, ROW_TURNS, blocks))
    cross(x, row + begin, gradients, gradient_row, out[begin:last], beta)


@kernel()
def _add_biases(marks, gradients, beta, d_bias, d_output_bias, d_inner_bias, d_outer_bias):
    d, f = d_output_bias.size, d_inner_bias.size
    cross(marks, 0, gradients, 0, d_bias, beta)
    add_up(gradients, 3 * d, d_output_bias, beta)
    add_up(gradients, 4 * d, d_inner_bias, beta)
    add_up(gradients, 4 * d + f, d_outer_bias, beta)


@kernel()
def _end_back(d_out, out, out_scale, t, g):
    """Set g to the gradients of the outputs of the last layer, for tile t."""
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
def _layer_back(tile, gradient, g, output, inner, outer, heads, sections, scale, threshold, seeds, begin):
    """Set `gradient`, that of all in a layer, and turn g, the gradients of its outputs, into those of its inputs.

    The caller adds to g the gradients through the queries, keys and values.
    """
    d, f = inner.shape
    lanes = 2 * half_of(g)
    joint = tile[: 3 * d * lanes]
    scales = tile[sections.scales * lanes : (sections.scales + 2) * lanes]
    middle = tile[sections.middle * lanes : sections.inner * lanes]
    before = tile[sections.inner * lanes : sections.out * lanes]
    d_joint = gradient[: 3 * d * lanes]
    d_attended = gradient[3 * d * lanes : 4 * d * lanes]
    d_before = gradient[4 * d * lanes : (4 * d + f) * lanes]
    d_outer = gradient[(4 * d + f) * lanes : (5 * d + f) * lanes]
    hidden = gradient[(5 * d + f) * lanes : (5 * d + 2 * f) * lanes]
    d_hidden, back = np.empty(f * lanes, g.dtype), np.empty(d * lanes, g.dtype)
    normalise_back(g, tile[sections.out * lanes : sections.scales * lanes], scales[lanes:], g)
    copy(g, d_outer)
    drop(d_outer, d, scale, threshold, seeds[3], begin)
    back_product(outer, d_outer, d_hidden, 0)
    drop(d_hidden, f, scale, threshold, seeds[2], begin)
    activate_back(before, d_hidden, hidden, d_before)
    drop(hidden, f, scale, threshold, seeds[2], begin)
    back_product(inner, d_before, g, 1)
    normalise_back(g, middle, scales[:lanes], g)
    copy(g, d_attended)
    drop(d_attended, d, scale, threshold, seeds[1], begin)
    back_product(output, d_attended, back, 0)
    weights = tile[sections.weights * lanes : sections.attended * lanes]
    attend_back(joint, heads, scale, threshold, seeds[0], begin, weights, back, d_joint)
