"""Mirror of `refimpl.attention.causal_attention`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, ranges_of
from refimpl import attention as ref_attention
from refimpl import randomness as ref_randomness


def causal_attention(
    q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array,
    query_offsets: Array, key_offsets: Array, *, rate: float = 0.0, seed: int = 0,
) -> Outputs:  # fmt: skip
    """Mirror of `refimpl.attention.causal_attention`, sequence by sequence: (out [N, H, D], lse [N, H])."""
    out, lse = np.empty_like(q), np.empty(q.shape[:2], q.dtype)
    heads = q.shape[1]
    rows, columns = ranges_of(query_offsets, len(q), "query_offsets"), ranges_of(key_offsets, len(k), "key_offsets")
    for queries, key_rows in zip(rows, columns, strict=True):
        s = key_rows.stop - key_rows.start
        row, column, head = np.ogrid[queries.start : queries.stop, 0:s, 0:heads]
        keep = ref_randomness.keep_mask((row * 2**20 + column) * heads + head, rate, seed).astype(q.dtype)
        out[queries], lse[queries] = ref_attention.causal_attention(
            q[queries], k[key_rows], v[key_rows], r, content_bias, position_bias, keep
        )
    return out, lse


causal_attention_vjp = central_difference(causal_attention, 6)
