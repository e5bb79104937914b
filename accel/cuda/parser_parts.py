"""The parts of GPST's parser between products and attention, one kernel each: norms, rotations and gates.

Mirrors `refimpl.gpst.parser.split_scores`. They are no operations of the table: `accel.models.gpst.parser` calls them
where a backend has them, and otherwise computes the same in array operations.
"""

from __future__ import annotations

from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support.check import THREADS
from accel.cuda.support.columns import SUMMING_WARPS, rows_of_part, sums_of

WARPS = 4  # rows a block
ROWS = 16  # a block, at least, of the gradients


def rms_norm(x: Array, scale: Array) -> tuple[Array, Array]:
    """Return the rows of x [N, d] divided by the root of their mean square, times scale [d]; and 1 / divisors [N].

    x is C-contiguous.
    """
    (n, d), xp = x.shape, device.xp()
    y, factors = xp.empty_like(x), xp.empty(n, x.dtype)
    args = x, scale, y, factors, n, d
    device.launch("parser_parts", "rms_norm_forward", (-(-n // WARPS),), (32, WARPS), args, x.dtype)
    return y, factors


def rms_norm_vjp(d_y: Array, outputs: tuple[Array, Array], x: Array, scale: Array) -> tuple[Array, Any]:
    """Return the gradients of x and scale."""
    (n, d), xp, rows = x.shape, device.xp(), rows_of_part(len(x), ROWS)
    d_x, d_scales, partial = xp.empty_like(x), xp.empty_like(x), xp.empty((1, -(-n // rows), d), x.dtype)
    args = xp.ascontiguousarray(d_y), x, scale, outputs[1], d_x, d_scales, partial, rows, n, d
    device.launch("parser_parts", "rms_norm_backward", (partial.shape[1],), (32, SUMMING_WARPS), args, x.dtype)
    return d_x, *sums_of(partial)


def rotate(x: Array, cosine: Array, sine: Array, back: bool) -> Array:
    """Return x [N, H, D] with features 2m and 2m + 1 rotated by angle m of their row, or back.

    cosine, sine [N, 1, D / 2] of the angles.
    """
    xp = device.xp()
    x, y = xp.ascontiguousarray(x), xp.empty(x.shape, x.dtype)
    _rotate((x, x), cosine, sine, (y, y), back, 1)
    return y


def rotate_both(
    x: Array, z: Array, cosine: Array, sine: Array, back: bool, in_place: bool = False
) -> tuple[Array, Array]:
    """Return two arrays of one shape as `rotate` does, by one kernel; `in_place` overwrites them."""
    xp = device.xp()
    arrays = xp.ascontiguousarray(x), xp.ascontiguousarray(z)
    results = arrays if in_place else tuple(xp.empty((2, *x.shape), x.dtype))
    _rotate(arrays, cosine, sine, results, back, 2)
    return results


def _rotate(
    arrays: tuple[Array, ...], cosine: Array, sine: Array, results: tuple[Array, ...], back: bool, count: int
) -> None:
    (x, _), (_, heads, width) = arrays, arrays[0].shape
    args = *arrays, cosine, sine, *results, x.size // 2, heads, width // 2, int(back)
    grid = -(-x.size // (2 * THREADS)), count
    device.launch("parser_parts", "rotate_pairs", grid, (THREADS,), args, x.dtype)


def gated(z: Array, y: Array) -> Array:
    """Return y z sigmoid(z), both of one shape and C-contiguous."""
    out = device.xp().empty_like(z)
    device.launch("parser_parts", "gate_forward", (-(-z.size // THREADS),), (THREADS,), (z, y, out, z.size), z.dtype)
    return out


def gated_vjp(d_out: Array, z: Array, y: Array) -> tuple[Array, Array]:
    """Return the gradients of z and y."""
    xp = device.xp()
    d_z, d_y = xp.empty((2, *z.shape), z.dtype)  # in one piece: products take them as a batch
    args = xp.ascontiguousarray(d_out), z, y, d_z, d_y, z.size
    device.launch("parser_parts", "gate_backward", (-(-z.size // THREADS),), (THREADS,), args, z.dtype)
    return d_z, d_y


def angles(offsets: Array, n_words: int, width: int, dtype: Any) -> tuple[Array, Array]:
    """Return cosine and sine [N, 1, width / 2] of the angles by which `rotate` turns heads of this width, by word."""
    half = width // 2
    cosine, sine = device.xp().empty((2, n_words, 1, half), dtype)
    args = offsets, len(offsets) - 1, cosine, sine, cosine.size, half
    device.launch("parser_parts", "angles_of_words", (-(-cosine.size // THREADS),), (THREADS,), args, dtype)
    return cosine, sine


def neighbours(x: Array, offsets: Array) -> Array:
    """Return [N - B, 2 d]: every row of x [N, d] but the last one of a sentence, and beside it the next row."""
    (n, d), n_sentences = x.shape, len(offsets) - 1
    pairs = device.xp().empty((n - n_sentences, 2 * d), x.dtype)
    args = x, offsets, n_sentences, pairs, pairs.size, d
    device.launch("parser_parts", "neighbours_forward", (-(-pairs.size // THREADS),), (THREADS,), args, x.dtype)
    return pairs


def neighbours_vjp(d_pairs: Array, offsets: Array, n_words: int) -> Array:
    """Return the gradient of x [N, d]."""
    xp = device.xp()
    d_pairs, d = xp.ascontiguousarray(d_pairs), d_pairs.shape[1] // 2
    d_x = xp.empty((n_words, d), d_pairs.dtype)
    args = d_pairs, offsets, len(offsets) - 1, d_x, d_x.size, d
    device.launch("parser_parts", "neighbours_backward", (-(-d_x.size // THREADS),), (THREADS,), args, d_x.dtype)
    return d_x
