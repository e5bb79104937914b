"""Seeded errors of the layers of GPST's composition model."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel import cpu


def gelu_by_tanh(x: Any, bias: Any) -> Any:
    return cpu.bias_gelu(x, bias)


def gelu_without_bias(x: Any, bias: Any) -> Any:
    return cpu.bias_erf_gelu(x, bias * 0)


def gradient_is_the_distribution(d_out: Any, outputs: Any, x: Any, bias: Any) -> Any:
    """Forget z phi(z), the slope of the distribution function, in the gradient Phi(z) + z phi(z)."""
    z = x + bias
    d_x = d_out * np.where(np.abs(z) < 1e-12, 0.5, outputs[0] / np.where(z == 0, 1, z))
    return d_x.astype(x.dtype), d_x.sum(axis=0).astype(x.dtype)


def gradient_of_one_bias_a_row(d_out: Any, outputs: Any, x: Any, bias: Any) -> Any:
    d_x, _ = cpu.bias_erf_gelu_vjp(d_out, outputs, x, bias)
    return d_x, d_x[-1].copy()


def weights_of_the_batch(scores: Any, vectors: Any, offsets: Any) -> Any:
    """Take one softmax over all groups together."""
    _, weights = cpu.weighted_sum(scores, vectors, np.array([0, len(scores)], np.int64))
    groups = zip(offsets[:-1], offsets[1:], strict=True)
    return np.array([weights[a:b] @ vectors[a:b] for a, b in groups]), weights


def weights_without_maximum(scores: Any, vectors: Any, offsets: Any) -> Any:
    with np.errstate(all="ignore"):
        weights = np.exp(scores)
        for a, b in zip(offsets[:-1], offsets[1:], strict=True):
            weights[a:b] /= weights[a:b].sum()
        return np.array([weights[a:b] @ vectors[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]), weights


def empty_group_takes_the_next(scores: Any, vectors: Any, offsets: Any) -> Any:
    sums, weights = cpu.weighted_sum(scores, vectors, offsets)
    for c in np.flatnonzero(np.diff(offsets) == 0):
        if offsets[c] < len(vectors):
            sums[c] = vectors[offsets[c]]
    return sums, weights


def gradient_of_fixed_weights(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    d_scores, d_vectors = cpu.weighted_sum_vjp(d_out, outputs, *arguments)
    return d_scores * 0, d_vectors


def gradient_without_the_mean(d_out: Any, outputs: Any, scores: Any, vectors: Any, offsets: Any) -> Any:
    _, d_vectors = cpu.weighted_sum_vjp(d_out, outputs, scores, vectors, offsets)
    return (d_vectors * vectors).sum(axis=1), d_vectors


def softmax_of_products_without_roles(x: Any, bias: Any, roles: Any, *rest: Any) -> Any:
    """Use the role of a pair's first row for both rows."""
    return cpu.pair_attention(x, bias, np.repeat(roles[::2], 2), *rest)


def pairs_one_row_later(x: Any, bias: Any, roles: Any, *rest: Any) -> Any:
    out, weights = cpu.pair_attention(np.roll(x, 1, axis=0), bias, np.roll(roles, 1), *rest)
    return np.roll(out, -1, axis=0), weights


def scores_not_scaled(x: Any, bias: Any, roles: Any, n_heads: int, *rest: Any) -> Any:
    third = x.shape[1] // 3
    scale = np.where(np.arange(x.shape[1]) < third, (third / n_heads) ** 0.5, 1).astype(x.dtype)
    return cpu.pair_attention(x * scale, bias * scale, roles, n_heads, *rest)


def dropout_of_another_pair(x: Any, bias: Any, roles: Any, n_heads: int, rate: float, seed: int) -> Any:
    return cpu.pair_attention(x, bias, roles, n_heads, rate, seed + 1)


def gradient_of_the_first_key_alone(d_out: Any, outputs: Any, x: Any, *rest: Any) -> Any:
    d_x, d_bias = cpu.pair_attention_vjp(d_out, outputs, x, *rest)
    third = x.shape[1] // 3
    d_x[1::2, third : 2 * third] = 0
    return d_x, d_bias


def gradient_of_a_bias_for_all_roles(d_out: Any, outputs: Any, x: Any, bias: Any, *rest: Any) -> Any:
    d_x, d_bias = cpu.pair_attention_vjp(d_out, outputs, x, bias, *rest)
    return d_x, np.broadcast_to(d_bias.sum(axis=0), d_bias.shape)


def norm_without_residual(x: Any, y: Any, *rest: Any) -> Any:
    return cpu.residual_norm(x * 0, y, *rest)


def bias_not_dropped(x: Any, y: Any, bias: Any, *rest: Any) -> Any:
    return cpu.residual_norm(x + bias, y, bias * 0, *rest)


def gradient_without_the_slope_of_the_norm(d_out: Any, outputs: Any, *rest: Any) -> Any:
    d_x = d_out * outputs[1][:, None]
    return d_x, d_x, d_x.sum(axis=0)


def gradient_of_what_is_dropped(d_out: Any, outputs: Any, x: Any, y: Any, bias: Any, rate: float, seed: int) -> Any:
    d_x, _, _ = cpu.residual_norm_vjp(d_out, outputs, x, y, bias, rate, seed)
    return d_x, d_x, d_x.sum(axis=0)


def layers_that_all_use_the_first_biases(x: Any, first: Any, bias: Any, *rest: Any) -> Any:
    return cpu.pair_layers(x, first, np.repeat(bias[:1], len(bias), axis=0), *rest)


def layers_without_the_first_products(x: Any, first: Any, *rest: Any) -> Any:
    return cpu.pair_layers(x, x @ rest[1][0], *rest)


def hidden_dropped_as_the_weights(*arguments: Any) -> Any:
    *rest, seeds = arguments
    return cpu.pair_layers(*rest, tuple(seeds[i - 2 * (i % 4 == 2)] for i in range(len(seeds))))


def gradient_past_the_first_layer(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    d_x, d_first, *others = cpu.pair_layers_vjp(d_out, outputs, *arguments)
    return d_x, d_first * 0, *others


def gradient_of_one_layer_s_weights(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    gradients = list(cpu.pair_layers_vjp(d_out, outputs, *arguments))
    gradients[6] = np.broadcast_to(gradients[6][-1], gradients[6].shape)
    return tuple(gradients)


def gradient_of_products_of_another_layer(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    gradients = list(cpu.pair_layers_vjp(d_out, outputs, *arguments))
    gradients[3] = np.roll(gradients[3], 1, axis=0)
    return tuple(gradients)


GPST_LAYERS = (
    ("bias_erf_gelu", gelu_by_tanh),
    ("bias_erf_gelu", gelu_without_bias),
    ("bias_erf_gelu_vjp", gradient_is_the_distribution),
    ("bias_erf_gelu_vjp", gradient_of_one_bias_a_row),
    ("weighted_sum", weights_of_the_batch),
    ("weighted_sum", weights_without_maximum),
    ("weighted_sum", empty_group_takes_the_next),
    ("weighted_sum_vjp", gradient_of_fixed_weights),
    ("weighted_sum_vjp", gradient_without_the_mean),
    ("pair_attention", softmax_of_products_without_roles),
    ("pair_attention", pairs_one_row_later),
    ("pair_attention", scores_not_scaled),
    ("pair_attention", dropout_of_another_pair),
    ("pair_attention_vjp", gradient_of_the_first_key_alone),
    ("pair_attention_vjp", gradient_of_a_bias_for_all_roles),
    ("pair_layers", layers_that_all_use_the_first_biases),
    ("pair_layers", layers_without_the_first_products),
    ("pair_layers", hidden_dropped_as_the_weights),
    ("pair_layers_vjp", gradient_past_the_first_layer),
    ("pair_layers_vjp", gradient_of_one_layer_s_weights),
    ("pair_layers_vjp", gradient_of_products_of_another_layer),
    ("residual_norm", norm_without_residual),
    ("residual_norm", bias_not_dropped),
    ("residual_norm_vjp", gradient_without_the_slope_of_the_norm),
    ("residual_norm_vjp", gradient_of_what_is_dropped),
)
