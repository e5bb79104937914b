"""The row of the table for the end of a Transformer's sublayer: bias, dropout, residual and layer normalisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions
from accel.verify.op import Case, Example, Op, Outputs, batched_rows, dropping_and_not, split_by_x
from accel.verify.ops.gpst_layers import residual_cases, residuals_of_sizes, sums_before_the_norm
from accel.verify.strategies import floats
from refimpl import layers, randomness


@st.composite
def normed_cases(draw: Callable) -> Case:
    case = draw(residual_cases())
    width, seed = len(case.shared["bias"]), case.shared["seed"]
    norm = {name: floats("unit", seed + number, width) for number, name in ((51, "scale"), (52, "shift"))}
    return Case(case.shared | norm, case.examples)


def normed_of_sizes(rate: float, rows: int = 4, width: int = 3) -> Case:
    case = residuals_of_sizes(rate, rows, width)
    return Case(case.shared | {"scale": floats("unit", 2, width), "shift": floats("unit", 3, width)}, case.examples)


def ref_residual_layer_norm(shared: Example, example: Example, start: int) -> Outputs:
    x, y = example["x"], example["y"] + shared["bias"]
    numbers = start * x.shape[1] + np.arange(x.size).reshape(x.shape)
    keep = randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(x.dtype)
    return (layers.layer_norm(x + keep * y, shared["scale"], shared["shift"]),)


def condition(shared: Example, example: Example, start: int, unit: float) -> Outputs:
    x, off, _ = sums_before_the_norm(example["x"], shared | example, start)
    return (conditions.layer_norm(x, shared["scale"], shared["shift"], off),)


def gradient_conditions(a: Example, d_out: np.ndarray) -> Outputs:
    """Return the conditions of the gradients of x, y (0 where dropped), bias (a sum of those of y), scale and shift."""
    x, off, keep = sums_before_the_norm(a["x"], a, 0)
    d_x, d_scale, d_shift = conditions.layer_norm_gradients(d_out, x, a["scale"], off)
    return d_x, 2 * keep * d_x, (len(x) + 2) * (keep * d_x).sum(axis=0), d_scale, d_shift


RESIDUAL_LAYER_NORM = (
    Op(
        "residual_layer_norm", "layers", "LAY-1", normed_cases(), ref_residual_layer_norm,
        batched_rows("x", "y", "bias", "scale", "shift", "rate", "seed"), split_by_x,
        diff=("x", "y", "bias", "scale", "shift"), moves=False, condition=condition,
        gradient_conditions=gradient_conditions, sized=dropping_and_not(normed_of_sizes),
        errors=(
            ("y", lambda a: a | {"y": a["y"][:-1]}),
            ("y:|float32", lambda a: a | {"y": np.float32(a["y"])}),
            ("bias", lambda a: a | {"bias": np.ones(99)}),
            ("scale", lambda a: a | {"scale": np.ones(99)}),
            ("shift", lambda a: a | {"shift": np.ones(99)}),
            ("rate", lambda a: a | {"rate": 1.0}),
        ),
    ),
)  # fmt: skip
