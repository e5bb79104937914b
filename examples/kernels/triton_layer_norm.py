"""LayerNorm in Triton, with its gradient by hand; without a GPU, Triton's interpreter runs the kernels on the CPU.

pip install 'grove-lm[verify]' torch triton, then in this folder: grove verify triton_layer_norm
"""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported

import triton
import triton.language as tl

xp = torch
device = "cuda" if torch.cuda.is_available() else "cpu"
EPSILON = tl.constexpr(1e-5)
tiles = {"layer_norm": {"width": (32,)}}  # above width 32 a program has 64 columns; the kit tests widths around 32


@triton.jit
def forward(x, scale, bias, y, d, BLOCK: tl.constexpr):
    """One program a row: y = (x - mean) / sqrt(variance + epsilon) * scale + bias."""
    columns = tl.arange(0, BLOCK)
    inside = columns < d
    places = tl.program_id(0).to(tl.int64) * d + columns
    normal, _ = normalised(tl.load(x + places, mask=inside, other=0.0), inside, d)
    scales = tl.load(scale + columns, mask=inside)
    tl.store(y + places, normal * scales + tl.load(bias + columns, mask=inside), mask=inside)


@triton.jit
def backward(d_y, x, scale, d_x, scaled, d, BLOCK: tl.constexpr):
    """One program a row: d_x, and scaled = d_y * normal, whose column sums are the gradient of scale."""
    columns = tl.arange(0, BLOCK)
    inside = columns < d
    places = tl.program_id(0).to(tl.int64) * d + columns
    normal, deviation = normalised(tl.load(x + places, mask=inside, other=0.0), inside, d)
    d_rows = tl.load(d_y + places, mask=inside, other=0.0)
    gradient = d_rows * tl.load(scale + columns, mask=inside, other=0.0)
    mean, along = tl.sum(gradient) / d, tl.sum(gradient * normal) / d
    tl.store(d_x + places, (gradient - mean - normal * along) / deviation, mask=inside)
    tl.store(scaled + places, d_rows * normal, mask=inside)


@triton.jit
def normalised(row, inside, d):
    centred = tl.where(inside, row - tl.sum(row) / d, 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred) / d + EPSILON)
    return centred / deviation, deviation


def layer_norm(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor]:
    """Return the rows of x [N, d] at mean 0 and variance 1, times scale [d], plus bias [d]."""
    check(x, scale=scale, bias=bias)
    y = torch.empty_like(x)
    forward[(len(x),)](x, scale, bias, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return (y,)


def layer_norm_vjp(
    d_out: torch.Tensor, outputs: tuple[torch.Tensor], x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of x, scale and bias from the gradient d_out [N, d] of the output."""
    d_x, scaled = torch.empty_like(x), torch.empty_like(x)
    backward[(len(x),)](d_out, x, scale, d_x, scaled, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return d_x, scaled.sum(dim=0), d_out.sum(dim=0)


def check(x: torch.Tensor, **vectors: torch.Tensor) -> None:
    """Raise ValueError, with the name of the vector, if a vector does not fit x."""
    for name, vector in vectors.items():
        if vector.shape != x.shape[1:]:
            raise ValueError(f"{name}: shape {tuple(vector.shape)}, but the rows of x have {x.shape[1]} elements")
        if vector.dtype != x.dtype:
            raise ValueError(f"{name}: {vector.dtype}, but x is {x.dtype}")
