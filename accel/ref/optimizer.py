"""Adam as its paper writes it."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array


def adam(
    parameters: Array, gradients: Array, first: Array, second: Array, *,
    rate: float, beta1: float, beta2: float, epsilon: float, step: int, scale: float,
) -> None:  # fmt: skip
    """Update parameters and moments in place (Kingma and Ba 2015, Algorithm 1) with `scale` times the gradients."""
    gradient = gradients * scale
    first[:] = beta1 * first + (1 - beta1) * gradient
    second[:] = beta2 * second + (1 - beta2) * gradient**2
    mean, square = first / (1 - beta1**step), second / (1 - beta2**step)
    parameters -= (rate * mean / (np.sqrt(square) + epsilon)).astype(parameters.dtype)
