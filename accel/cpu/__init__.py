"""The CPU backend: NumPy for matrix products, Numba for the rest. It runs on any machine that has both."""

from __future__ import annotations

import numpy as xp

from accel.cpu.best_trees import best_trees
from accel.cpu.causal_attention import causal_attention, causal_attention_vjp
from accel.cpu.chart_trees import chart_trees
from accel.cpu.cky_pooling import cky_pool, cky_pool_vjp
from accel.cpu.cumax import cumax, cumax_vjp, tree_gate, tree_gate_vjp
from accel.cpu.distance_trees import distance_trees
from accel.cpu.dot_product_attention import dot_product_attention, dot_product_attention_vjp
from accel.cpu.gelu import bias_erf_gelu, bias_erf_gelu_vjp, bias_gelu, bias_gelu_vjp
from accel.cpu.layers import (
    add_rows,
    cross_entropy,
    cross_entropy_vjp,
    dropout,
    dropout_vjp,
    embedding,
    embedding_vjp,
    layer_norm,
    layer_norm_vjp,
)
from accel.cpu.linear_recurrence import linear_recurrence, linear_recurrence_vjp
from accel.cpu.locked_dropout import locked_dropout, locked_dropout_vjp, weight_drop, weight_drop_vjp
from accel.cpu.optimizer import adam
from accel.cpu.pair_attention import pair_attention, pair_attention_vjp, residual_norm, residual_norm_vjp
from accel.cpu.pair_layers import pair_layers, pair_layers_vjp
from accel.cpu.pruned_chart import pruned_chart
from accel.cpu.recurrence import recurrence, recurrence_vjp
from accel.cpu.residual_layer_norm import residual_layer_norm, residual_layer_norm_vjp
from accel.cpu.segments import segments
from accel.cpu.span_parser import span_logz, span_logz_vjp
from accel.cpu.sparse_attention import sparse_attention, sparse_attention_vjp
from accel.cpu.stack_compose import attend_sets, double_closing
from accel.cpu.support.blas import matmul
from accel.cpu.support.tile_sizes import tiles
from accel.cpu.weighted_sum import weighted_sum, weighted_sum_vjp

name = "cpu"


def check_available() -> None:
    """Do nothing: this backend runs everywhere."""
