"""Layers of a tile of pairs, without their matrix products, forward and gradient.

Arrays are flat, feature by feature: for each feature the first rows of all pairs, in the lanes of one vector, then the
second rows. `begin` is the number in the batch of the tile's first pair: dropout counts rows through the batch.
"""

from __future__ import annotations

import math

import numpy as np

from accel.cpu.gelu import normal
from accel.cpu.support.kernels import exp, kept, kernel
from accel.cpu.support.lane_loops import (
    lane_affine,
    lane_dots,
    lane_sum,
    pair_dots,
    pair_keys_back,
    pair_mix,
    pair_mix_back,
    pair_scores,
)
from accel.cpu.support.lanes import half_of
from accel.cpu.support.rows import row_sum


@kernel()
def gather(rows, begin, count, out):
    """Set the lanes of out to the rows of `count` pairs from pair `begin`."""
    half = half_of(rows)
    for lane in range(count):
        for a in range(rows.shape[1]):
            out[2 * half * a + lane] = rows[2 * (begin + lane), a]
            out[2 * half * a + half + lane] = rows[2 * (begin + lane) + 1, a]


@kernel()
def scatter(x, begin, count, rows):
    half = half_of(rows)
    for lane in range(count):
        for a in range(rows.shape[1]):
            rows[2 * (begin + lane), a] = x[2 * half * a + lane]
            rows[2 * (begin + lane) + 1, a] = x[2 * half * a + half + lane]


@kernel()
def mark(roles, begin, count, out):
    """Set out [R * lanes] to 1 where a row has the role, else to 0."""
    half = half_of(out)
    out[:] = 0
    for lane in range(count):
        for s in range(2):
            out[(2 * roles[2 * (begin + lane) + s] + s) * half + lane] = 1


@kernel()
def swap_halves(x, out):
    half = half_of(x)
    for a in range(0, x.size, 2 * half):
        for lane in range(half):
            out[a + lane], out[a + half + lane] = x[a + half + lane], x[a + lane]


@kernel()
def drop(x, width, scale, threshold, seed, begin):
    """Set dropped elements of rows of this width to 0 and scale the others."""
    if threshold == 0:
        return
    half = half_of(x)
    zero = scale - scale
    for a in range(width):
        for lane in range(2 * half):
            row = 2 * (begin + lane % half) + lane // half
            x[2 * half * a + lane] *= scale if kept(seed, row * width + a, threshold) else zero


@kernel()
def activate(x, out):
    half = x.dtype.type(0.5)
    for i in range(x.size):
        z = x[i]
        out[i] = z * normal(z, exp(-z * z * half))


@kernel()
def activate_back(x, g, out, d_x):
    half, density = x.dtype.type(0.5), x.dtype.type(1 / math.sqrt(2 * math.pi))
    for i in range(x.size):
        z = x[i]
        bell = exp(-z * z * half)
        share = normal(z, bell)
        out[i] = z * share
        d_x[i] = g[i] * (share + z * bell * density)


@kernel()
def normalise(x, y, epsilon, out, scales):
    """Set out to x + y, normalised over the features, and `scales` to the reciprocal standard deviations."""
    lanes = 2 * half_of(x)
    width, one, total = x.dtype.type(x.size // lanes), x.dtype.type(1), np.empty(lanes, x.dtype)
    ones, zeros = np.ones(lanes, x.dtype), np.zeros(lanes, x.dtype)
    lane_affine(x, y, ones, ones, zeros, out)
    for _ in range(2):  # once more for the rounding error of the first mean
        lane_sum(out, total)
        for lane in range(lanes):
            total[lane] /= -width
        lane_affine(out, out, ones, zeros, total, out)
    lane_dots(out, out, total)
    for lane in range(lanes):
        scales[lane] = one / np.sqrt(total[lane] / width + epsilon)
    lane_affine(out, out, scales, zeros, zeros, out)


@kernel()
def normalise_back(g, normal, scales, out):
    lanes = 2 * half_of(g)
    width = g.dtype.type(g.size // lanes)
    along, across = np.empty(lanes, g.dtype), np.empty(lanes, g.dtype)
    ones, zeros = np.ones(lanes, g.dtype), np.zeros(lanes, g.dtype)
    lane_sum(g, along)
    lane_dots(g, normal, across)
    for lane in range(lanes):
        along[lane] /= -width
        across[lane] /= -width
    lane_affine(g, normal, ones, across, along, out)
    lane_affine(out, out, scales, zeros, zeros, out)


@kernel()
def _keeps(seed, threshold, scale, begin, h, n_heads, keep):
    """Set dropout's factors [2, lanes] of the weights of head h, for the first and the second rows of all pairs."""
    half = half_of(keep)
    zero = scale - scale
    for j in range(2):
        for lane in range(2 * half):
            number = (2 * (2 * (begin + lane % half) + lane // half) + j) * n_heads + h
            keep[j, lane] = scale if threshold == 0 or kept(seed, number, threshold) else zero


@kernel()
def _head(joint, part, h, heads):
    """Return the queries, keys or values (part 0, 1 or 2) of one head."""
    n_heads, width = heads
    lanes = 2 * half_of(joint)
    begin = (part * n_heads + h) * width * lanes
    return joint[begin : begin + width * lanes]


@kernel()
def attend(joint, heads, scale, threshold, seed, begin, weights, out):
    n_heads, width = heads
    lanes = 2 * half_of(joint)
    one, factor = joint.dtype.type(1), joint.dtype.type(1 / np.sqrt(width))
    score, keep = np.empty(lanes, joint.dtype), np.empty((2, lanes), joint.dtype)
    for h in range(n_heads):
        pair_scores(_head(joint, 0, h, heads), _head(joint, 1, h, heads), score)
        to_self = weights[h * lanes : (h + 1) * lanes]
        to_other = weights[(n_heads + h) * lanes : (n_heads + h + 1) * lanes]
        for lane in range(lanes):
            to_self[lane] = one / (one + exp(-factor * score[lane]))
            to_other[lane] = one / (one + exp(factor * score[lane]))
        _keeps(seed, threshold, scale, begin, h, n_heads, keep)
        for lane in range(lanes):
            keep[0, lane] *= to_self[lane]
            keep[1, lane] *= to_other[lane]
        pair_mix(_head(joint, 2, h, heads), keep[0], keep[1], _head(out, 0, h, heads))


@kernel()
def attend_back(joint, heads, scale, threshold, seed, begin, weights, g, d_joint):
    n_heads, width = heads
    lanes = 2 * half_of(joint)
    factor = joint.dtype.type(1 / np.sqrt(width))
    keep, along = np.empty((2, lanes), joint.dtype), np.empty((2, lanes), joint.dtype)
    for h in range(n_heads):
        q, k, gradients = _head(joint, 0, h, heads), _head(joint, 1, h, heads), _head(g, 0, h, heads)
        to_self = weights[h * lanes : (h + 1) * lanes]
        to_other = weights[(n_heads + h) * lanes : (n_heads + h + 1) * lanes]
        _keeps(seed, threshold, scale, begin, h, n_heads, keep)
        pair_dots(gradients, _head(joint, 2, h, heads), along[0], along[1])
        for lane in range(lanes):
            along[0, lane] = (keep[0, lane] * along[0, lane] - keep[1, lane] * along[1, lane]) * (
                to_self[lane] * to_other[lane] * factor
            )
            keep[0, lane] *= to_self[lane]
            keep[1, lane] *= to_other[lane]
        pair_keys_back(q, k, along[0], _head(d_joint, 0, h, heads), _head(d_joint, 1, h, heads))
        pair_mix_back(gradients, keep[0], keep[1], _head(d_joint, 2, h, heads))


@kernel()
def add_up(gradients, row, out, beta):
    """Set out to beta, 0 or 1, times it + the sums over tiles and lanes of the features of gradients from `row` on."""
    lanes = 2 * half_of(gradients)
    total = np.empty(lanes, gradients.dtype)
    for a in range(out.size):
        total[:] = 0
        for t in range(len(gradients)):
            for lane in range(lanes):
                total[lane] += gradients[t, (row + a) * lanes + lane]
        out[a] = row_sum(total) + (out[a] if beta else total.dtype.type(0))
