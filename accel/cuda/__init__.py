"""The operations on a GPU: CuPy arrays, kernels in CUDA C++ and, for structure, in Numba CUDA.

Importing this package needs no GPU; `accel.load("cuda")` says whether one is there. `xp` is the array module.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from accel.cuda import (
    action_inputs,
    chart_plan,
    charts,
    device,
    induced_trees,
    loss_terms,
    parser_parts,
    residual_sums,
    role_biases,
)
from accel.cuda.activation_penalties import penalty_gradients
from accel.cuda.best_trees import best_trees
from accel.cuda.causal_attention import causal_attention, causal_attention_vjp
from accel.cuda.chart_trees import chart_trees
from accel.cuda.cky_pooling import (
    cky_pool,
    cky_pool_vjp,
    fuses_queries,
    queried_cky_pool,
    queried_cky_pool_vjp,
    top_rows,
)
from accel.cuda.cumax import cumax, cumax_vjp, tree_gate, tree_gate_vjp
from accel.cuda.device import address, check_available
from accel.cuda.distance_trees import distance_trees
from accel.cuda.dot_product_attention import dot_product_attention, dot_product_attention_vjp
from accel.cuda.gelu import (
    bias_erf_gelu,
    bias_erf_gelu_vjp,
    bias_gelu,
    bias_gelu_vjp,
    dropped_bias_erf_gelu,
    dropped_bias_erf_gelu_vjp,
    dropped_bias_gelu,
    dropped_bias_gelu_vjp,
)
from accel.cuda.layers import (
    cross_entropy,
    cross_entropy_vjp,
    dropout,
    dropout_vjp,
    embedding,
    embedding_vjp,
    layer_norm,
    layer_norm_vjp,
    smoothed_cross_entropy,
    smoothed_cross_entropy_vjp,
)
from accel.cuda.linear_recurrence import linear_recurrence, linear_recurrence_vjp
from accel.cuda.locked_dropout import (
    last_rows,
    locked_dropout,
    locked_dropout_vjp,
    weight_drop,
    weight_drop_vjp,
    word_dropout,
    word_dropout_vjp,
)
from accel.cuda.optimizer import adam, clipped, corrections
from accel.cuda.pair_attention import pair_attention, pair_attention_vjp, residual_norm, residual_norm_vjp
from accel.cuda.pair_layers import pair_layers, pair_layers_vjp
from accel.cuda.products import fuses_sums, matmul, matmul_all, matmul_sum
from accel.cuda.pruned_chart import pruned_chart
from accel.cuda.recurrence import recurrence, recurrence_vjp
from accel.cuda.relative_positions import dropout_all, sinusoids
from accel.cuda.residual_layer_norm import residual_layer_norm, residual_layer_norm_vjp
from accel.cuda.segments import segments
from accel.cuda.span_parser import span_logz, span_logz_vjp
from accel.cuda.sparse_attention import sparse_attention, sparse_attention_vjp
from accel.cuda.stack_compose import attend_sets, double_closing
from accel.cuda.sublayers import (
    biased_residual_sum,
    biased_residual_sum_vjp,
    dropped_bias_relu,
    dropped_bias_relu_vjp,
    residual_sum,
    residual_sum_vjp,
)
from accel.cuda.support.batches import from_host
from accel.cuda.support.check import deferred as deferred_checks
from accel.cuda.support.columns import unsummed
from accel.cuda.support.copies import copy_all
from accel.cuda.support.cublaslt import MOST_ALIGNED
from accel.cuda.support.factors import factor, factors, narrowed_once
from accel.cuda.support.graphs import Inputs, captured, free_graph_memory, graph_bytes, padded_size, wants_graphs
from accel.cuda.support.known import noted, place_of, sent
from accel.cuda.support.seeds import in_memory as seeds_in_memory
from accel.cuda.support.streams import current_gpu, own_stream, received
from accel.cuda.support.tile_sizes import tiles
from accel.cuda.weighted_sum import weighted_sum, weighted_sum_vjp

name = "cuda"
alignment = MOST_ALIGNED  # bytes: of a parameter in the flat vector of all
xp: ModuleType


def __getattr__(attribute: str) -> Any:
    if attribute == "xp":  # asked for late, so that importing needs no GPU
        return device.xp()
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
