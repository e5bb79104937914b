"""LayerNorm in NumPy, with its gradient by hand.

pip install 'grove-lm[verify]', then in this folder: grove verify numpy_layer_norm
"""

from __future__ import annotations

from typing import Any

import numpy as xp

EPSILON = 1e-5


def layer_norm(x: Any, scale: Any, bias: Any) -> tuple[Any]:
    """Return the rows of x [N, d] at mean 0 and variance 1, times scale [d], plus bias [d]."""
    check(x, scale=scale, bias=bias)
    normal, _ = normalised(x)
    return (normal * scale + bias,)


def layer_norm_vjp(d_out: Any, outputs: tuple[Any], x: Any, scale: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Return the gradients of x, scale and bias from the gradient d_out [N, d] of the output."""
    normal, deviation = normalised(x)
    gradient = d_out * scale
    mean = gradient.mean(axis=1, keepdims=True)
    along = (gradient * normal).mean(axis=1, keepdims=True)
    d_x = (gradient - mean - normal * along) / deviation
    return d_x, (d_out * normal).sum(axis=0), d_out.sum(axis=0)


def normalised(x: Any) -> tuple[Any, Any]:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    deviation = xp.sqrt(variance + EPSILON)
    return centred / deviation, deviation


def check(x: Any, **vectors: Any) -> None:
    """Raise ValueError, with the name of the vector, if a vector does not fit x."""
    for name, vector in vectors.items():
        if vector.shape != x.shape[1:]:
            raise ValueError(f"{name}: shape {vector.shape}, but the rows of x have {x.shape[1]} elements")
        if vector.dtype != x.dtype:
            raise ValueError(f"{name}: {vector.dtype}, but x is {x.dtype}")
