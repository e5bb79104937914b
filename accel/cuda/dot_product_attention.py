"""Scaled dot-product attention on the GPU. Mirrors `refimpl.attention.dot_product_attention`.

A block for every tile of 32 queries (or, for the gradients of keys and values, of 32 keys) and head; nothing of the
size of the scores is ever stored; the gradient recomputes the weights from lse. All sums run in a fixed order.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.attention import checked, empty_outputs, gradients_of
from accel.cuda.support.tiles import BLOCK, TILE, Tiles, check_width, chunks, shared_bytes, tiles_of


def dot_product_attention(
    q: Array, k: Array, v: Array, query_offsets: Array, key_offsets: Array,
    *, causal: bool = False, rate: float = 0.0, seed: int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    """Return (out [N, H, D], lse [N, H]): attention of every query over the keys of its sequence, 0 and -inf over none.

    q [N, H, D]; k, v [S, H, D]; query_offsets, key_offsets [B+1] int64: sequence b has n queries and s keys; if causal,
    s >= n and query i sees the keys j <= s - n + i. Dropout element (row of q * 2^20 + j) * H + h.
    Raises ValueError naming the argument that does not fit.
    """
    q, k, v = checked(q, k, v)
    check_width(4 * TILE, q)
    tiles, offsets = tiles_of(q, k, query_offsets, key_offsets, causal=causal)
    out, lse = empty_outputs(q)
    device.launch(
        "dot_product_attention", "dot_product_forward", (tiles.n_query_tiles, q.shape[1]), BLOCK,
        (q, k, v, tiles.query_tiles, *offsets, out, lse, *_scalars(tiles, q, causal, rate, seed)),
        q.dtype, chunks=chunks(q), shared=shared_bytes(3 * TILE, q),
    )  # fmt: skip
    return out, lse


def dot_product_attention_vjp(
    d_out: Array, outputs: tuple[Array, Array],
    q: Array, k: Array, v: Array, query_offsets: Array, key_offsets: Array,
    *, causal: bool = False, rate: float = 0.0, seed: int = 0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of q, k and v."""
    xp = device.xp()
    floats = checked(q, k, v)
    tiles, offsets = tiles_of(q, k, query_offsets, key_offsets, causal=causal)
    d_out, out, lse = check.floats(d_out=d_out, out=outputs[0], lse=outputs[1])
    d_q, d_k, d_v = gradients_of(*floats)
    means = xp.empty_like(lse)
    scalars = _scalars(tiles, q, causal, rate, seed)
    queries, keys = (tiles.query_tiles, *offsets), (tiles.key_tiles, *offsets)
    for kernel, n_tiles, arrays in (
        ("queries", tiles.n_query_tiles, (out, lse, *floats, *queries, d_q, means)),
        ("keys", tiles.n_key_tiles, (means, lse, *floats, *keys, d_k, d_v)),
    ):
        device.launch(
            "dot_product_attention", f"dot_product_backward_{kernel}", (n_tiles, q.shape[1]), BLOCK,
            (d_out, *arrays, *scalars), q.dtype, chunks=chunks(q), shared=shared_bytes(4 * TILE, q),
        )  # fmt: skip
    return d_q, d_k, d_v


def _scalars(tiles: Tiles, q: Array, causal: bool, rate: float, seed: int) -> tuple[Any, ...]:
    """Return B, H, D, causal, the scale of the scores, and the arguments of dropout."""
    return (tiles.n_sequences, *q.shape[1:], int(causal), 1 / sqrt(q.shape[2]), *check.dropout(rate, seed))
