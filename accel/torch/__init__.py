"""Grove's layers and operations for PyTorch: modules, functions of trees, and weights to and from trained models."""

from accel.torch.charts import CkyPooling, PrunedInsideOutside, best_trees, span_logz, span_rows
from accel.torch.layers import FastTrees, OnLstm, StackComposeAttention
from accel.torch.ops import attend_sets, chart_trees, distance_trees, double_closing
from accel.torch.weights import load_weights, save_weights

__all__ = [
    "CkyPooling", "FastTrees", "OnLstm", "PrunedInsideOutside", "StackComposeAttention", "attend_sets", "best_trees",
    "chart_trees", "distance_trees", "double_closing", "load_weights", "save_weights", "span_logz", "span_rows",
]  # fmt: skip
