"""LayerNorm in PyTorch, whose autograd makes the gradient; on a GPU where there is one.

pip install 'grove-lm[verify]' torch, then in this folder: grove verify torch_layer_norm
"""

from __future__ import annotations

import torch

xp = torch
device = "cuda" if torch.cuda.is_available() else "cpu"
EPSILON = 1e-5


def layer_norm(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor]:
    """Return the rows of x [N, d] at mean 0 and variance 1, times scale [d], plus bias [d]."""
    check(x, scale=scale, bias=bias)
    centred = x - x.mean(dim=1, keepdim=True)
    variance = (centred**2).mean(dim=1, keepdim=True)
    return (centred / torch.sqrt(variance + EPSILON) * scale + bias,)


def check(x: torch.Tensor, **vectors: torch.Tensor) -> None:
    """Raise ValueError, with the name of the vector, if a vector does not fit x."""
    for name, vector in vectors.items():
        if vector.shape != x.shape[1:]:
            raise ValueError(f"{name}: shape {tuple(vector.shape)}, but the rows of x have {x.shape[1]} elements")
        if vector.dtype != x.dtype:
            raise ValueError(f"{name}: {vector.dtype}, but x is {x.dtype}")
