"""The Adam step, fused.

Mirrors Algorithm 1 of Kingma and Ba (2015).
Parallel over chunks of the flat vectors; no memory beyond them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu.support.arguments import check_floats
from accel.cpu.support.kernels import chunk_begin, n_chunks
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
CHUNK_ELEMENTS = 2**14
"""Smallest number of elements of a chunk."""


def adam(
    parameters: Float,
    gradients: Float,
    first: Float,
    second: Float,
    *,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    scale: float,
) -> tuple[Float, Float, Float]:
    """Update parameters and both moments [n] in place with `scale` times the gradients, and return them.

    The moments are corrected for `step` (from 1); epsilon is added outside the root.
    """
    check_floats(parameters=(parameters, "n"), gradients=(gradients, "n"), first=(first, "n"), second=(second, "n"))
    if step < 1:
        raise ValueError(f"step must be at least 1, not {step}")
    correction1, correction2 = 1 / (1 - beta1**step), 1 / (1 - beta2**step)
    scalars = (beta1, 1 - beta1, beta2, 1 - beta2, rate * correction1, np.sqrt(correction2), epsilon, scale)
    chunks = n_chunks(parameters.size, CHUNK_ELEMENTS)
    _adam(parameters, gradients, first, second, np.array(scalars, parameters.dtype), chunks)
    return parameters, first, second


@team_kernel()
def _adam(part, parameters, gradients, first, second, scalars, chunks):
    beta1, rest1, beta2, rest2, rate, correction2, epsilon, scale = (
        scalars[0], scalars[1], scalars[2], scalars[3], scalars[4], scalars[5], scalars[6], scalars[7],
    )  # fmt: skip
    for chunk in share(part, chunks):
        for a in range(chunk_begin(chunk, chunks, parameters.size), chunk_begin(chunk + 1, chunks, parameters.size)):
            g = gradients[a] * scale
            m = beta1 * first[a] + rest1 * g
            v = beta2 * second[a] + rest2 * g * g
            first[a], second[a] = m, v
            parameters[a] -= rate * m / (np.sqrt(v) * correction2 + epsilon)
