"""Seeded errors of the encoder-decoder's attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accel import cpu


def scale_of_the_width(q: Any, *rest: Any, **options: Any) -> Any:
    """Divide by the square root of d instead of a head's width, as the paper prints it."""
    return cpu.dot_product_attention((q / q.shape[1] ** 0.5).astype(q.dtype), *rest, **options)


def causal_is_forgotten(*arguments: Any, causal: bool = False, **options: Any) -> Any:
    return cpu.dot_product_attention(*arguments, causal=False, **options)


def aligned_at_the_start(
    q: Any, k: Any, v: Any, queries: Any, keys: Any, *, causal: bool = False, **options: Any
) -> Any:
    """Let causal query i see the keys up to i, whatever keys came before."""
    out, lse = np.empty_like(q), np.empty(q.shape[:2], q.dtype)
    for b in range(len(queries) - 1):
        n, s = queries[b + 1] - queries[b], keys[b + 1] - keys[b]
        rows, columns = slice(queries[b], queries[b + 1]), slice(keys[b], keys[b] + (n if causal else s))
        bounds = np.array([0, n]), np.array([0, columns.stop - columns.start])
        out[rows], lse[rows] = cpu.dot_product_attention(
            q[rows], k[columns], v[columns], *bounds, causal=causal, **options
        )
    return out, lse


def keys_of_the_batch(q: Any, k: Any, v: Any, queries: Any, keys: Any, **options: Any) -> Any:
    changed_v = v + np.nan_to_num(v[-1:], nan=7.0, posinf=7.0) * np.float32(1e-3).astype(v.dtype) if len(v) else v
    return cpu.dot_product_attention(q, k, changed_v, queries, keys, **options)


def gradient_without_scale(d_out: Any, outputs: Any, q: Any, *rest: Any, **options: Any) -> Any:
    d_q, d_k, d_v = cpu.dot_product_attention_vjp(d_out, outputs, q, *rest, **options)
    return d_q * q.dtype.type(q.shape[2] ** 0.5), d_k, d_v


def gradient_forgets_dropout(d_out: Any, outputs: Any, *arguments: Any, rate: float, **options: Any) -> Any:
    return cpu.dot_product_attention_vjp(d_out, outputs, *arguments, rate=0.0, **options)


TRANSFORMER: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("dot_product_attention", scale_of_the_width),
    ("dot_product_attention", causal_is_forgotten),
    ("dot_product_attention", aligned_at_the_start),
    ("dot_product_attention", keys_of_the_batch),
    ("dot_product_attention_vjp", gradient_without_scale),
    ("dot_product_attention_vjp", gradient_forgets_dropout),
)
