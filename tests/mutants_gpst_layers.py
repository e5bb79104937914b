"""Seeded errors of the layers of GPST's composition model, each of which its row of the table must catch."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel import cpu


def gelu_by_tanh(x: Any, bias: Any) -> Any:
    return cpu.bias_gelu(x, bias)


def gelu_without_bias(x: Any, bias: Any) -> Any:
    return cpu.bias_erf_gelu(x, bias * 0)


def gradient_is_the_distribution(d_out: Any, outputs: Any, x: Any, bias: Any) -> Any:
    """Forget that the distribution itself rises."""
    z = x + bias
    d_x = d_out * np.where(np.abs(z) < 1e-12, 0.5, outputs[0] / np.where(z == 0, 1, z))
    return d_x.astype(x.dtype), d_x.sum(axis=0).astype(x.dtype)


def gradient_of_one_bias_a_row(d_out: Any, outputs: Any, x: Any, bias: Any) -> Any:
    d_x, _ = cpu.bias_erf_gelu_vjp(d_out, outputs, x, bias)
    return d_x, d_x[-1].copy()


def weights_of_the_batch(scores: Any, vectors: Any, offsets: Any) -> Any:
    """One softmax for all groups, then each group's share."""
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
    mixed, weights = cpu.weighted_sum(scores, vectors, offsets)
    for c in np.flatnonzero(np.diff(offsets) == 0):
        if offsets[c] < len(vectors):
            mixed[c] = vectors[offsets[c]]
    return mixed, weights


def gradient_of_fixed_weights(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    d_scores, d_vectors = cpu.weighted_sum_vjp(d_out, outputs, *arguments)
    return d_scores * 0, d_vectors


def gradient_without_the_mean(d_out: Any, outputs: Any, scores: Any, vectors: Any, offsets: Any) -> Any:
    _, d_vectors = cpu.weighted_sum_vjp(d_out, outputs, scores, vectors, offsets)
    return (d_vectors * vectors).sum(axis=1), d_vectors


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
)
