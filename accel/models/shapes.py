"""The parameters of layers that several models have, by name and shape."""

from __future__ import annotations

Shapes = dict[str, tuple[int, ...]]


def linear_shapes(name: str, inputs: int, outputs: int) -> Shapes:
    """Return the shapes of a linear map with a bias."""
    return {name: (inputs, outputs), f"{name}_bias": (outputs,)}


def norm_shapes(name: str, d: int) -> Shapes:
    """Return the shapes of a LayerNorm."""
    return {f"{name}.scale": (d,), f"{name}.bias": (d,)}
