"""Mirror of `refimpl.attention.sparse_attention`."""

from __future__ import annotations

from accel.ref.support.batch import Array, Outputs, central_difference, ranges_of
from refimpl import attention as ref_attention
from refimpl import randomness as ref_randomness


def sparse_attention(
    q: Array, k: Array, v: Array, r: Array, content_bias: Array, position_bias: Array,
    row_offsets: Array, keys: Array, relative: Array, *, rate: float = 0.0, seed: int = 0,
) -> Outputs:  # fmt: skip
    """Mirror of `refimpl.attention.sparse_attention`: (out [N, H, D], lse [N, H])."""
    rows = ranges_of(row_offsets, len(keys), "row_offsets")
    keep = ref_randomness.keep_mask(len(keys) * q.shape[1], rate, seed).astype(q.dtype).reshape(len(keys), q.shape[1])
    return ref_attention.sparse_attention(
        q, k, v, r, content_bias, position_bias,
        [keys[row].tolist() for row in rows],
        [relative[row].tolist() for row in rows],
        [keep[row] for row in rows],
    )  # fmt: skip


sparse_attention_vjp = central_difference(sparse_attention, 6)
