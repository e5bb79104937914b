"""Seeded errors of attention with relative positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel import cpu


def without_scale(q: Any, *rest: Any, **options: Any) -> Any:
    return cpu.sparse_attention(q * np.sqrt(q.shape[2]).astype(q.dtype), *rest, **options)


def empty_row_has_lse_zero(*arguments: Any, **options: Any) -> Any:
    out, lse = cpu.sparse_attention(*arguments, **options)
    return out, np.where(np.isinf(lse), 0, lse).astype(lse.dtype)


def dropout_before_softmax(*arguments: Any, rate: float = 0.0, seed: int = 0) -> Any:
    return cpu.sparse_attention(*arguments, rate=0.0, seed=seed)


def keys_in_order_distances_not(q: Any, k: Any, v: Any, *others: Any, **options: Any) -> Any:
    """Sort the keys of every row, but leave their relative positions where they are."""
    *shared, row_offsets, keys, relative = others
    rows = np.repeat(np.arange(len(q)), np.diff(row_offsets))
    return cpu.sparse_attention(q, k, v, *shared, row_offsets, keys[np.lexsort((keys, rows))], relative, **options)


def distance_off_by_one(q: Any, k: Any, v: Any, r: Any, *rest: Any, **options: Any) -> Any:
    return cpu.causal_attention(q, k, v, np.concatenate([r[1:], r[-1:]]), *rest, **options)


def no_position_bias(q: Any, k: Any, v: Any, r: Any, u: Any, w: Any, *rest: Any, **options: Any) -> Any:
    return cpu.causal_attention(q, k, v, r, u, w * 0, *rest, **options)


def reads_past_its_sequence(q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> Any:
    changed_v = v + np.nan_to_num(v[-1:], nan=7.0, posinf=7.0) * np.float32(1e-3).astype(v.dtype)
    return cpu.causal_attention(q, k, changed_v, *rest, **options)


def gradient_forgets_a_bias(d_out: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    *rest, position_bias = cpu.sparse_attention_vjp(d_out, outputs, *arguments, **options)
    return *rest, position_bias * 0


ATTENTION = (
    ("sparse_attention", without_scale),
    ("sparse_attention", empty_row_has_lse_zero),
    ("sparse_attention", dropout_before_softmax),
    ("sparse_attention_vjp", gradient_forgets_a_bias),
    ("causal_attention", distance_off_by_one),
    ("causal_attention", no_position_bias),
    ("causal_attention", reads_past_its_sequence),
)
