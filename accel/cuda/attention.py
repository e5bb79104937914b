"""Attention with relative positions on the GPU. Mirrors `refimpl.attention`.

Sparse: a warp for every (query, head); memory [E, H] twice in the backward pass. Causal: a block for every tile of 32
queries, keys or distances and head; nothing of the size of the scores is ever stored. All sums run in a fixed order.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check, scatter
from accel.cuda.support.tiles import BLOCK, TILE, Tiles, chunks, shared_bytes, tiles_of

WARPS = 4  # rows a block of sparse attention
DISTANCE_SHARES = 8  # blocks that share the queries when the gradient of r is summed


def sparse_attention(
    q: Array,
    k: Array,
    v: Array,
    r: Array,
    content_bias: Array,
    position_bias: Array,
    row_offsets: Array,
    keys: Array,
    relative: Array,
    *,
    rate: float = 0.0,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Return (out [N, H, D], lse [N, H]): attention of every query over its listed keys.

    q [N, H, D]; k, v [S, H, D]; r [P, H, D]; content_bias, position_bias [H, D]; row_offsets [N+1] int64;
    keys, relative [E] int32: rows of k and r. Dropout multiplies the weight of edge e, head h by element e*H + h.
    Raises ValueError naming the argument that does not fit.
    """
    floats = _floats(q, k, v, r, content_bias, position_bias)
    (row_offsets,) = check.integers(np.int64, row_offsets=row_offsets)
    edges = check.integers(np.int32, keys=keys, relative=relative)
    check.shape("row_offsets", row_offsets, len(q) + 1)
    check.shape("relative", relative, len(keys))
    check.indices(
        {"keys": (edges[0], 0, len(k)), "relative": (edges[1], 0, len(r))},
        {"row_offsets": (row_offsets, len(keys))},
    )
    out, lse = _outputs(q)
    device.launch(
        "attention", "sparse_forward", *_warps(q),
        (*floats, row_offsets, *edges, out, lse, *_scalars(q), *check.dropout(rate, seed)),
        q.dtype, chunks=chunks(q),
    )  # fmt: skip
    return out, lse


def sparse_attention_vjp(
    d_out: Array,
    outputs: tuple[Array, Array],
    q: Array,
    k: Array,
    v: Array,
    r: Array,
    content_bias: Array,
    position_bias: Array,
    row_offsets: Array,
    keys: Array,
    relative: Array,
    *,
    rate: float = 0.0,
    seed: int = 0,
) -> tuple[Array, ...]:
    """Return the gradients of q, k, v, r, content_bias and position_bias."""
    xp = device.xp()
    floats = _floats(q, k, v, r, content_bias, position_bias)
    q, content_bias, position_bias = floats[0], floats[4], floats[5]
    (row_offsets,) = check.integers(np.int64, row_offsets=row_offsets)
    keys, relative = check.integers(np.int32, keys=keys, relative=relative)
    d_out, out, lse = check.floats(d_out=d_out, out=outputs[0], lse=outputs[1])
    d_content, d_position = xp.empty_like(q), xp.empty_like(q)
    weights, slopes = xp.empty((2, len(keys), q.shape[1]), q.dtype)
    query_of_edge = xp.empty(len(keys), np.int32)
    device.launch(
        "attention", "sparse_backward", *_warps(q),
        (d_out, out, lse, *floats, row_offsets, keys, relative, d_content, d_position, weights, slopes, query_of_edge,
         *_scalars(q), *check.dropout(rate, seed)),
        q.dtype, chunks=chunks(q),
    )  # fmt: skip
    by_key, by_relative = scatter.group(keys, len(k)), scatter.group(relative, len(r))
    return (
        d_content + d_position,
        scatter.sums(by_key, q + content_bias, query_of_edge, slopes),
        scatter.sums(by_key, d_out, query_of_edge, weights),
        scatter.sums(by_relative, q + position_bias, query_of_edge, slopes),
        d_content.sum(axis=0),
        d_position.sum(axis=0),
    )


def causal_attention(
    q: Array,
    k: Array,
    v: Array,
    r: Array,
    content_bias: Array,
    position_bias: Array,
    query_offsets: Array,
    key_offsets: Array,
    *,
    rate: float = 0.0,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Return (out [N, H, D], lse [N, H]): attention of every query over the memory and all positions up to its own.

    Arrays as in `sparse_attention`; query_offsets, key_offsets [B+1] int64: sequence b has n queries and s >= n keys,
    query i sees the keys j <= s - n + i and the row s - n + i - j of r. Dropout element (row of q * 2^20 + j) * H + h.
    Raises ValueError naming the argument that does not fit.
    """
    floats = _floats(q, k, v, r, content_bias, position_bias)
    tiles = _tiles(q, k, r, query_offsets, key_offsets)
    out, lse = _outputs(q)
    device.launch(
        "causal", "causal_forward", (tiles.n_query_tiles, q.shape[1]), BLOCK,
        (*floats, tiles.query_tiles, *tiles.offsets, out, lse, tiles.n_sequences, *_scalars(q, len(r)),
         *check.dropout(rate, seed)),
        q.dtype, chunks=chunks(q), shared=shared_bytes(129, q),
    )  # fmt: skip
    return out, lse


def causal_attention_vjp(
    d_out: Array,
    outputs: tuple[Array, Array],
    q: Array,
    k: Array,
    v: Array,
    r: Array,
    content_bias: Array,
    position_bias: Array,
    query_offsets: Array,
    key_offsets: Array,
    *,
    rate: float = 0.0,
    seed: int = 0,
) -> tuple[Array, ...]:
    """Return the gradients of q, k, v, r, content_bias and position_bias."""
    xp = device.xp()
    floats = _floats(q, k, v, r, content_bias, position_bias)
    tiles = _tiles(q, k, r, query_offsets, key_offsets)
    d_out, out, lse = check.floats(d_out=d_out, out=outputs[0], lse=outputs[1])
    d_content, d_position, means = xp.empty_like(floats[0]), xp.empty_like(floats[0]), xp.empty_like(lse)
    d_k, d_v = xp.empty_like(floats[1]), xp.empty_like(floats[2])
    n_heads, shares = q.shape[1], min(DISTANCE_SHARES, tiles.n_query_tiles)
    d_r = xp.empty((shares, *r.shape), q.dtype)
    n_distance_tiles = -(-len(r) // TILE)
    scalars = (tiles.n_sequences, *_scalars(q, len(r)), *check.dropout(rate, seed))
    queries, keys = (tiles.query_tiles, *tiles.offsets), (tiles.key_tiles, *tiles.offsets)
    for kernel, grid, rows, arrays in (
        ("queries", (tiles.n_query_tiles, n_heads), 161, (out, lse, *floats, *queries, d_content, d_position, means)),
        ("keys", (tiles.n_key_tiles, n_heads), 193, (means, lse, *floats, *keys, d_k, d_v)),
        ("distances", (n_distance_tiles, n_heads, shares), 161, (means, lse, *floats, *queries, d_r)),
    ):
        device.launch(
            "causal", f"causal_backward_{kernel}", grid, BLOCK, (d_out, *arrays, *scalars),
            q.dtype, chunks=chunks(q), shared=shared_bytes(rows, q),
        )  # fmt: skip
    return d_content + d_position, d_k, d_v, d_r.sum(axis=0), d_content.sum(axis=0), d_position.sum(axis=0)


def _tiles(q: Array, k: Array, r: Array, query_offsets: Array, key_offsets: Array) -> Tiles:
    tiles = tiles_of(q, k, query_offsets, key_offsets, causal=True)
    if len(r) < tiles.longest:
        raise ValueError(f"r: {len(r)} rows are fewer than the {tiles.longest} keys of a sequence")
    return tiles


def _floats(q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array) -> list[Array]:
    floats = check.floats(q=q, k=k, v=v, r=r, content_bias=content_bias, position_bias=position_bias)
    check.shape("q", q, "N", "H", "D")
    if q.shape[1] == 0 or q.shape[2] == 0:
        raise ValueError(f"q: shape {q.shape} has no heads or heads without width")
    check.shape("k", k, "S", *q.shape[1:])
    check.shape("v", v, len(k), *q.shape[1:])
    check.shape("r", r, "P", *q.shape[1:])
    check.shape("content_bias", content_bias, *q.shape[1:])
    check.shape("position_bias", position_bias, *q.shape[1:])
    return floats


def _outputs(q: Array) -> tuple[Array, Array]:
    return device.xp().empty(q.shape, q.dtype), device.xp().empty(q.shape[:2], q.dtype)


def _scalars(q: Array, *n_relative: int) -> tuple[Any, ...]:
    """N (sparse only), H, D, P (causal only) and the scale of the scores."""
    n, n_heads, d_head = q.shape
    lengths = (n_heads, d_head, *n_relative) if n_relative else (n, n_heads, d_head)
    return (*lengths, 1 / sqrt(d_head))


def _warps(q: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Grid and block with one warp for every (query, head)."""
    return (-(-q.shape[0] * q.shape[1] // WARPS),), (32, WARPS)
