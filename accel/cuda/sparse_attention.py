"""Attention over listed keys, with relative positions. Mirrors `refimpl.attention.sparse_attention`.

A warp for every (query, head); memory [E, H] twice in the backward pass. All sums run in a fixed order. The fast form
reads a row of keys that neighbouring queries share only once, and gives the same bits; in bf16 and TF32 it rounds the
factors of its products, which tensor cores multiply.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.support import check, known, scatter, tensor_attention, tiled_attention
from accel.cuda.support.attention import checked, empty_outputs, gradients_of
from accel.cuda.support.tiles import chunks

WARPS = 4  # rows a block


def sparse_attention(
    q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array,
    row_offsets: Array, keys: Array, relative: Array, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    """Return (out [N, H, D], lse [N, H]): attention of every query over its listed keys.

    q [N, H, D]; k, v [S, H, D]; r [P, H, D]; content_bias, position_bias [H, D]; row_offsets [N+1] int64;
    keys, relative [E] int32: rows of k and r. Dropout multiplies the weight of edge e, head h by element e*H + h.
    Raises ValueError naming the argument that does not fit.
    """
    floats = checked(q, k, v, r=r, content_bias=content_bias, position_bias=position_bias)
    (row_offsets,) = check.integers(np.int64, row_offsets=row_offsets)
    edges = check.integers(np.int32, keys=keys, relative=relative)
    check.shape("row_offsets", row_offsets, len(q) + 1)
    check.shape("relative", relative, len(keys))
    check.indices(
        {"keys": (edges[0], 0, len(k)), "relative": (edges[1], 0, len(r))},
        {"row_offsets": (row_offsets, len(keys))},
    )
    out, lse = empty_outputs(q)
    after = out, lse, *q.shape, 1 / sqrt(q.shape[2]), *check.dropout(rate, seed)
    _launch("forward", floats, (row_offsets, *edges), after, q, r)
    return out, lse


def sparse_attention_vjp(
    d_out: Array, outputs: tuple[Array, Array],
    q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array,
    row_offsets: Array, keys: Array, relative: Array, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias."""
    xp = device.xp()
    floats = checked(q, k, v, r=r, content_bias=content_bias, position_bias=position_bias)
    q, content_bias, position_bias = floats[0], floats[4], floats[5]
    (row_offsets,) = check.integers(np.int64, row_offsets=row_offsets)
    keys, relative = check.integers(np.int32, keys=keys, relative=relative)
    d_out, out, lse = check.floats(d_out=d_out, out=outputs[0], lse=outputs[1])
    d_q, d_k, d_v = gradients_of(*floats[:3])
    d_content, d_position = xp.empty_like(q), xp.empty_like(q)
    weights, gradients = xp.empty((2, len(keys), q.shape[1]), q.dtype)
    query_of_edge = xp.empty(len(keys), np.int32)
    after = d_q, d_content, d_position, weights, gradients, query_of_edge, *q.shape, 1 / sqrt(q.shape[2])
    after += check.dropout(rate, seed)
    _launch("backward", (d_out, out, lse, *floats), (row_offsets, keys, relative), after, q, r)
    by_key, by_relative = scatter.group(keys, len(k)), scatter.group(relative, len(r))
    return d_q, *scatter.sums(
        query_of_edge,
        scatter.Sum(by_key, len(k), q, gradients, content_bias, out=d_k),
        scatter.Sum(by_key, len(k), d_out, weights, out=d_v),
        scatter.Sum(by_relative, len(r), q, gradients, position_bias),
        matrices=(d_content, d_position),
    )


def _launch(
    which: str, before: tuple[Any, ...], edges: tuple[Array, ...], after: tuple[Any, ...], q: Array, r: Array
) -> None:
    """Run a pass, with one warp for every (query, head), in the form that is asked for."""
    if forms.current().kernels == "fast":
        unions = known.once_on_device(tiled_attention.unions_of, edges[:2])
        form = tensor_attention if tensor_attention.fits(q, r) else tiled_attention
        form.launch(which, before, edges, unions, after, q, r)
    else:
        grid = (-(-q.shape[0] * q.shape[1] // WARPS),)
        args, kernel = (*before, *edges, *after), f"sparse_{which}"
        device.launch("sparse_attention", kernel, grid, (32, WARPS), args, q.dtype, chunks=chunks(q))
