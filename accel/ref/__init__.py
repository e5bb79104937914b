"""The reference as a backend: `refimpl` lifted over a batch with a Python loop.

Every operation of `accel.cpu` and `accel.cuda` is here under the same name and with the same arguments, so that any
script can run on the oracle. The reference has no gradients: every `_vjp` is a central difference of the float64
forward pass, with two calls for every number in the inputs. Only `span_logz_vjp` needs none: its gradient, the
marginals, is part of the reference. Use this backend on a few words.
"""

from __future__ import annotations

import numpy as xp

from accel.ref.best_trees import best_trees
from accel.ref.causal_attention import causal_attention, causal_attention_vjp
from accel.ref.chart_trees import chart_trees
from accel.ref.cky_pooling import cky_pool, cky_pool_vjp
from accel.ref.cumax import cumax, cumax_vjp, tree_gate, tree_gate_vjp
from accel.ref.distance_trees import distance_trees
from accel.ref.dot_product_attention import dot_product_attention, dot_product_attention_vjp
from accel.ref.gelu import bias_erf_gelu, bias_erf_gelu_vjp, bias_gelu, bias_gelu_vjp
from accel.ref.layers import (
    cross_entropy,
    cross_entropy_vjp,
    dropout,
    dropout_vjp,
    embedding,
    embedding_vjp,
    layer_norm,
    layer_norm_vjp,
)
from accel.ref.linear_recurrence import linear_recurrence, linear_recurrence_vjp
from accel.ref.locked_dropout import locked_dropout, locked_dropout_vjp, weight_drop, weight_drop_vjp
from accel.ref.optimizer import adam
from accel.ref.pair_attention import pair_attention, pair_attention_vjp, residual_norm, residual_norm_vjp
from accel.ref.pair_layers import pair_layers, pair_layers_vjp
from accel.ref.pruned_chart import pruned_chart
from accel.ref.recurrence import recurrence, recurrence_vjp
from accel.ref.residual_layer_norm import residual_layer_norm, residual_layer_norm_vjp
from accel.ref.segments import segments
from accel.ref.span_parser import span_logz, span_logz_vjp
from accel.ref.sparse_attention import sparse_attention, sparse_attention_vjp
from accel.ref.stack_compose import attend_sets, double_closing
from accel.ref.weighted_sum import weighted_sum, weighted_sum_vjp

name = "ref"
tiles: dict[str, dict[str, tuple[int, ...]]] = {}  # no tiles, but a loop over the batch


def check_available() -> None:
    """Do nothing: NumPy is always there."""
