"""Attention over everything before, with relative positions. Mirrors `refimpl.attention.causal_attention`.

A block for every tile of 32 queries, keys or distances and head; nothing of the size of the scores is ever stored. All
sums run in a fixed order.
"""

from __future__ import annotations

from math import sqrt

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.attention import checked, empty_outputs, gradients_of
from accel.cuda.support.columns import column_sums
from accel.cuda.support.tiles import BLOCK, TILE, WINDOW, check_width, chunks, shared_bytes, tiles_of

KEYS_ROWS = 4 * TILE + WINDOW + 2  # rows of a head in shared memory: the most that one of the four kernels needs
DISTANCE_SHARES = 8  # blocks that share the queries when the gradient of r is summed


def causal_attention(
    q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array,
    query_offsets: Array, key_offsets: Array, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    """Return (out [N, H, D], lse [N, H]): attention of every query over the memory and all positions up to its own.

    Arrays as in `sparse_attention`; query_offsets, key_offsets [B+1] int64: sequence b has n queries and s >= n keys,
    query i sees the keys j <= s - n + i, each with row s - n + i - j of r. For head h, the weight of key j is element
    (row of q * 2^20 + j) * H + h of dropout.
    Raises ValueError naming the argument that does not fit.
    """
    floats = checked(q, k, v, r=r, content_bias=content_bias, position_bias=position_bias)
    check_width(KEYS_ROWS, q)
    tiles, offsets = tiles_of(q, k, query_offsets, key_offsets, causal=True, n_distances=len(r))
    out, lse = empty_outputs(q)
    device.launch(
        "causal_attention", "causal_forward", (tiles.n_query_tiles, q.shape[1]), BLOCK,
        (*floats, tiles.query_tiles, *offsets, out, lse, tiles.n_sequences, *q.shape[1:], len(r),
         1 / sqrt(q.shape[2]), *check.dropout(rate, seed)),
        q.dtype, chunks=chunks(q), shared=shared_bytes(129, q),
    )  # fmt: skip
    return out, lse


def causal_attention_vjp(
    d_out: Array, outputs: tuple[Array, Array],
    q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array,
    query_offsets: Array, key_offsets: Array, *, rate: float = 0.0, seed: int = 0,
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of q, k, v, r, content_bias and position_bias."""
    xp = device.xp()
    floats = checked(q, k, v, r=r, content_bias=content_bias, position_bias=position_bias)
    tiles, offsets = tiles_of(q, k, query_offsets, key_offsets, causal=True, n_distances=len(r))
    d_out, out, lse = check.floats(d_out=d_out, out=outputs[0], lse=outputs[1])
    d_content, d_position, means = xp.empty_like(floats[0]), xp.empty_like(floats[0]), xp.empty_like(lse)
    d_q, d_k, d_v = gradients_of(*floats[:3])
    n_heads, shares = q.shape[1], min(DISTANCE_SHARES, tiles.n_query_tiles)
    d_r = xp.empty((shares, *r.shape), q.dtype)
    n_distance_tiles = -(-len(r) // TILE)
    scalars = (tiles.n_sequences, *q.shape[1:], len(r), 1 / sqrt(q.shape[2]), *check.dropout(rate, seed))
    queries, keys = (tiles.query_tiles, *offsets), (tiles.key_tiles, *offsets)
    for kernel, grid, rows, arrays in (
        ("queries", (tiles.n_query_tiles, n_heads), 161, (out, lse, *floats, *queries, d_content, d_position, means)),
        ("keys", (tiles.n_key_tiles, n_heads), KEYS_ROWS, (means, lse, *floats, *keys, d_k, d_v)),
        ("distances", (n_distance_tiles, n_heads, shares), 161, (means, lse, *floats, *queries, d_r)),
    ):
        device.launch(
            "causal_attention", f"causal_backward_{kernel}", grid, BLOCK, (d_out, *arrays, *scalars),
            q.dtype, chunks=chunks(q), shared=shared_bytes(rows, q),
        )  # fmt: skip
    d_q = xp.add(d_content, d_position, out=d_q)
    return d_q, d_k, d_v, d_r.sum(axis=0), *column_sums(d_content, d_position)
