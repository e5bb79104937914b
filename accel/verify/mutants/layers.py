"""Seeded errors of layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel import cpu


def sample_variance(x: Any, scale: Any, bias: Any) -> Any:
    y, mean, rstd = cpu.layer_norm(x, scale, bias)
    return (y - bias) * np.sqrt(1 - 1 / x.shape[1]).astype(x.dtype) + bias, mean, rstd


def gelu_forgets_the_bias(x: Any, bias: Any) -> Any:
    return cpu.bias_gelu(x, bias * 0)


def dropout_keeps_the_scale(x: Any, rate: float, seed: int) -> Any:
    return ((cpu.dropout(x, rate, seed)[0] * (1 - rate)).astype(x.dtype),)


def features_of_every_step(x: Any, offsets: Any, rate: float, seed: int) -> Any:
    return cpu.dropout(x, rate, seed)


def the_same_in_all_sequences(x: Any, offsets: Any, rate: float, seed: int) -> Any:
    return cpu.locked_dropout(x, np.array([0, len(x)]), rate, seed)


def gradient_of_all_features(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    return (d_out,)


def dropped_weights_enlarge_the_others(weight: Any, rate: float, seed: int) -> Any:
    return cpu.dropout(weight, rate, seed)


def mean_of_the_weights(weight: Any, rate: float, seed: int) -> Any:
    return ((weight * (1 - rate)).astype(weight.dtype),)


def no_label_is_the_last_word(h: Any, table: Any, bias: Any, labels: Any) -> Any:
    return cpu.cross_entropy(h, table, bias, np.where(labels < 0, len(table) - 1, labels).astype(np.int32))


def gradient_overwrites(d_out: Any, outputs: Any, table: Any, ids: Any) -> Any:
    gradient = np.zeros_like(table)
    gradient[ids] = d_out
    return (gradient,)


def gradient_of_rows_without_label(d_out: Any, outputs: Any, h: Any, table: Any, bias: Any, labels: Any) -> Any:
    full = np.where(labels < 0, 0, labels).astype(np.int32)
    return cpu.cross_entropy_vjp(d_out, cpu.cross_entropy(h, table, bias, full), h, table, bias, full)


def no_gradient_above_2(d_out: Any, outputs: Any, x: Any, scale: Any, bias: Any) -> Any:
    gradients = cpu.layer_norm_vjp(d_out, outputs, x, scale, bias)
    return tuple(g * (np.abs(x).max(initial=0.0) <= 2.01) for g in gradients)


def no_gradient_of_huge_rows(d_out: Any, outputs: Any, h: Any, table: Any, bias: Any, labels: Any) -> Any:
    d_h, *others = cpu.cross_entropy_vjp(d_out, outputs, h, table, bias, labels)
    return d_h * (np.abs(h) <= 10).all(axis=1, keepdims=True), *others


def residual_is_dropped_too(x: Any, y: Any, bias: Any, scale: Any, shift: Any, rate: float, seed: int) -> Any:
    return cpu.residual_layer_norm(cpu.dropout(x, rate, seed)[0], y, bias, scale, shift, rate, seed)


def gradient_of_what_is_dropped(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    d_x, _, *rest = cpu.residual_layer_norm_vjp(d_out, outputs, *arguments)
    return d_x, d_x, *rest


def no_bias_where_a_row_is_constant(x: Any, scale: Any, bias: Any) -> Any:
    y, *others = cpu.layer_norm(x, scale, bias)
    return np.where((np.ptp(x, axis=1) == 0)[:, None], y - bias, y).astype(x.dtype), *others


def no_gradient_where_a_row_is_constant(d_out: Any, outputs: Any, x: Any, scale: Any, bias: Any) -> Any:
    d_x, *others = cpu.layer_norm_vjp(d_out, outputs, x, scale, bias)
    return d_x * (np.ptp(x, axis=1) > 0)[:, None], *others


def rows_without_a_gradient_are_not_written(d_out: Any, outputs: Any, x: Any, bias: Any) -> Any:
    d_x, d_bias = cpu.bias_gelu_vjp(d_out, outputs, x, bias)
    return np.where(d_out.any(axis=1)[:, None], d_x, 1e9).astype(x.dtype), d_bias


LAYERS = (
    ("layer_norm", no_bias_where_a_row_is_constant),
    ("layer_norm_vjp", no_gradient_where_a_row_is_constant),
    ("bias_gelu_vjp", rows_without_a_gradient_are_not_written),
    ("layer_norm", sample_variance),
    ("layer_norm_vjp", no_gradient_above_2),
    ("bias_gelu", gelu_forgets_the_bias),
    ("dropout", dropout_keeps_the_scale),
    ("locked_dropout", features_of_every_step),
    ("locked_dropout", the_same_in_all_sequences),
    ("locked_dropout_vjp", gradient_of_all_features),
    ("weight_drop", dropped_weights_enlarge_the_others),
    ("weight_drop", mean_of_the_weights),
    ("weight_drop_vjp", gradient_of_all_features),
    ("residual_layer_norm", residual_is_dropped_too),
    ("residual_layer_norm_vjp", gradient_of_what_is_dropped),
    ("cross_entropy", no_label_is_the_last_word),
    ("cross_entropy_vjp", gradient_of_rows_without_label),
    ("cross_entropy_vjp", no_gradient_of_huge_rows),
    ("embedding_vjp", gradient_overwrites),
)
