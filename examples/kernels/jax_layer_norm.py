"""LayerNorm in JAX, compiled by XLA; JAX makes the gradient.

pip install 'grove-lm[verify]' jax, then in this folder: grove verify jax_layer_norm
"""

from __future__ import annotations

import jax
import jax.numpy as xp

jax.config.update("jax_enable_x64", True)  # else JAX makes float32 of float64
EPSILON = 1e-5


def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> tuple[jax.Array]:
    """Return the rows of x [N, d] at mean 0 and variance 1, times scale [d], plus bias [d]."""
    check(x, scale=scale, bias=bias)
    return (compiled(x, scale, bias),)


@jax.jit
def compiled(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    return centred / xp.sqrt(variance + EPSILON) * scale + bias


def check(x: jax.Array, **vectors: jax.Array) -> None:
    """Raise ValueError, with the name of the vector, if a vector does not fit x."""
    for name, vector in vectors.items():
        if vector.shape != x.shape[1:]:
            raise ValueError(f"{name}: shape {vector.shape}, but the rows of x have {x.shape[1]} elements")
        if vector.dtype != x.dtype:
            raise ValueError(f"{name}: {vector.dtype}, but x is {x.dtype}")
