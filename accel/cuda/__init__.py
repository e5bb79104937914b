"""The operations on a GPU: CuPy arrays, kernels in CUDA C++ and, for structure, in Numba CUDA.

Importing this package needs no GPU; `accel.load("cuda")` says whether one is there. `xp` is the array module.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from accel.cuda import device
from accel.cuda.attention import causal_attention, causal_attention_vjp, sparse_attention, sparse_attention_vjp
from accel.cuda.best_trees import best_trees
from accel.cuda.chart_trees import chart_trees
from accel.cuda.cky_pooling import cky_pool, cky_pool_vjp
from accel.cuda.cumax import cumax, cumax_vjp, tree_gate, tree_gate_vjp
from accel.cuda.device import check_available
from accel.cuda.distance_trees import distance_trees
from accel.cuda.dot_product_attention import dot_product_attention, dot_product_attention_vjp
from accel.cuda.fasttrees import linear_recurrence, linear_recurrence_vjp, recurrence, recurrence_vjp
from accel.cuda.layers import (
    bias_erf_gelu,
    bias_erf_gelu_vjp,
    bias_gelu,
    bias_gelu_vjp,
    cross_entropy,
    cross_entropy_vjp,
    dropout,
    dropout_vjp,
    embedding,
    embedding_vjp,
    layer_norm,
    layer_norm_vjp,
)
from accel.cuda.optimizer import adam
from accel.cuda.pair_attention import pair_attention, pair_attention_vjp, residual_norm, residual_norm_vjp
from accel.cuda.pruned_chart import pruned_chart
from accel.cuda.segments import segments
from accel.cuda.span_parser import span_logz, span_logz_vjp
from accel.cuda.stack_compose import attend_sets, double_closing
from accel.cuda.weighted_sum import weighted_sum, weighted_sum_vjp

__all__ = [
    "adam",
    "attend_sets",
    "best_trees",
    "bias_erf_gelu",
    "bias_erf_gelu_vjp",
    "bias_gelu",
    "bias_gelu_vjp",
    "causal_attention",
    "causal_attention_vjp",
    "chart_trees",
    "check_available",
    "cky_pool",
    "cky_pool_vjp",
    "cross_entropy",
    "cross_entropy_vjp",
    "cumax",
    "cumax_vjp",
    "distance_trees",
    "dot_product_attention",
    "dot_product_attention_vjp",
    "double_closing",
    "dropout",
    "dropout_vjp",
    "embedding",
    "embedding_vjp",
    "layer_norm",
    "layer_norm_vjp",
    "linear_recurrence",
    "linear_recurrence_vjp",
    "name",
    "pair_attention",
    "pair_attention_vjp",
    "pruned_chart",
    "recurrence",
    "recurrence_vjp",
    "residual_norm",
    "residual_norm_vjp",
    "segments",
    "span_logz",
    "span_logz_vjp",
    "sparse_attention",
    "sparse_attention_vjp",
    "tree_gate",
    "tree_gate_vjp",
    "weighted_sum",
    "weighted_sum_vjp",
]

name = "cuda"
xp: ModuleType


def __getattr__(attribute: str) -> Any:
    if attribute == "xp":  # asked for late, so that importing needs no GPU
        return device.xp()
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
