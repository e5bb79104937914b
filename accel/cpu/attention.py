"""Attention over lists of keys (`sparse_attention`) and over everything before (`causal_attention`).

Mirrors `refimpl.attention`.
"""

from accel.cpu.causal import causal_attention, causal_attention_vjp
from accel.cpu.sparse import sparse_attention, sparse_attention_vjp

__all__ = ["causal_attention", "causal_attention_vjp", "sparse_attention", "sparse_attention_vjp"]
