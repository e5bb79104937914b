"""Mirror of `refimpl.attention.dot_product_attention`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, of_sequence, ranges_of
from refimpl import attention as ref_attention
from refimpl import randomness as ref_randomness


def dot_product_attention(
    q: Array, k: Array, v: Array, query_offsets: Array, key_offsets: Array,
    *, causal: bool = False, rate: float = 0.0, seed: int = 0,
) -> Outputs:  # fmt: skip
    """Mirror of `refimpl.attention.dot_product_attention`, by sequence: (out [N, H, D], lse [N, H]).

    Its dropout has the numbers of ATT-2 (LAY-3).
    """
    out, lse = np.empty_like(q), np.empty(q.shape[:2], q.dtype)
    heads = q.shape[1]
    rows, columns = ranges_of(query_offsets, len(q), "query_offsets"), ranges_of(key_offsets, len(k), "key_offsets")
    for b, (queries, keys) in enumerate(zip(rows, columns, strict=True)):
        row, column, head = np.ogrid[queries.start : queries.stop, 0 : keys.stop - keys.start, 0:heads]
        keep = ref_randomness.keep_mask((row * 2**20 + column) * heads + head, rate, seed).astype(q.dtype)
        arguments = q[queries], k[keys], v[keys], causal, keep
        out[queries], lse[queries] = of_sequence(b, lambda args=arguments: ref_attention.dot_product_attention(*args))
    return out, lse


dot_product_attention_vjp = central_difference(dot_product_attention, 3)
