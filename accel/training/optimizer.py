"""Adam, plain gradient descent and NT-ASGD on one flat vector, and the clipping of its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array
from accel.training.settings import TrainingConfig


@dataclass
class Optimizer:
    """The state of an optimiser: flat vectors by name, the number of updates, and the number of averaged updates.

    Adam has the vectors "first" and "second", its two moments; NT-ASGD has "average" once it averages. `parts` are
    slices of the vectors, each with a factor of the learning rate.
    """

    settings: TrainingConfig
    parts: tuple[tuple[slice, float], ...] = ((slice(None), 1.0),)
    vectors: dict[str, Array] = field(default_factory=dict)
    step: int = 0
    averaged: int = 0


def start(
    ops: ModuleType, settings: TrainingConfig, parameters: Array, places: Mapping[str, slice] | None = None
) -> Optimizer:
    """Return the state before the first update; the places of the parameters are needed if `own_rate` is set.

    Raises
    ------
    ValueError
        If no parameter has a name that begins with `own_rate_of`.
    """
    names = ("first", "second") if settings.optimizer == "adam" else ()
    vectors = {name: ops.xp.zeros_like(parameters) for name in names}
    if settings.own_rate is None:
        return Optimizer(settings, vectors=vectors)
    if not any(name.startswith(settings.own_rate_of) for name in places or {}):
        raise ValueError(f"own_rate_of: no parameter has a name that begins with {settings.own_rate_of!r}")
    parts = []
    for has_own_rate, group in groupby(
        (places or {}).items(), key=lambda item: item[0].startswith(settings.own_rate_of)
    ):
        of_group = [place for _, place in group]
        factor = settings.own_rate / settings.maximum_rate if has_own_rate else 1.0
        parts.append((slice(of_group[0].start, of_group[-1].stop), factor))
    return Optimizer(settings, tuple(parts), vectors)


def start_average(state: Optimizer, parameters: Array) -> None:
    """Make NT-ASGD begin an average with the parameters after the next update; an earlier average is dropped.

    It is float64: after many updates, what one adds to it is smaller than float32 can add.
    """
    state.vectors["average"], state.averaged = parameters.astype(np.float64), 0


def update(
    ops: ModuleType, state: Optimizer, parameters: Array, gradient: Array, rate: float, scale: float | Array = 1.0
) -> None:
    """Move the flat `parameters` one step against `scale * gradient`, in place; the gradient is overwritten.

    The scale may be an array without axes on the device. Weight decay is added to the scaled gradient, like the
    gradient of a penalty; the decay "decoupled" multiplies the parameters by 1 - rate * weight_decay before the step
    instead (Loshchilov and Hutter 2019; PyTorch's AdamW), which in float32 has no effect where rate * weight_decay is
    below 3e-8. NT-ASGD is PyTorch's ASGD without decay term (lambd 0, t0 0):
    its average is the mean of the parameters after each averaged update but the first.
    """
    state.step += 1
    rates = [rate * factor for _, factor in state.parts]
    apply(ops, state, parameters, gradient, rates, scale, state.averaged)
    state.averaged += "average" in state.vectors


def of_step(ops: ModuleType, state: Optimizer, rate: float) -> list[float]:
    """Return the numbers of the next step that `apply` takes.

    These are for every part its rate and Adam's two bias corrections, then the number of averaged updates.
    """
    settings, step = state.settings, state.step + 1
    is_adam = settings.optimizer == "adam"
    factors = ops.corrections(settings.beta1, settings.beta2, step) if is_adam else (0.0, 0.0)
    numbers = [number for _, factor in state.parts for number in (rate * factor, *factors)]
    return [*numbers, state.averaged]


def apply(
    ops: ModuleType,
    state: Optimizer,
    parameters: Array,
    gradient: Array,
    rates: Sequence[float | Array],
    scale: float | Array,
    averaged: float | Array,
) -> None:
    """Move the parameters one step, and update the vectors of the state, in place; the gradient is overwritten.

    `rates` has for every part its rate, or an array [3] on the device with the numbers of `of_step`. `averaged`, the
    number of averaged updates, may be an array without axes on the device. Whether an average exists already follows
    from `state.averaged` on the host.
    """
    settings = state.settings
    is_decoupled = settings.decay == "decoupled"
    if settings.weight_decay and not is_decoupled:
        gradient *= _as_number_of(gradient, scale)
        gradient += settings.weight_decay * parameters
        scale = 1.0
    for (part, _), rate in zip(state.parts, rates, strict=True):
        of_part = rate[0] if getattr(rate, "ndim", 0) else rate
        if settings.weight_decay and is_decoupled:
            parameters[part] *= _as_number_of(parameters, 1.0 - of_part * settings.weight_decay)
        if settings.optimizer == "adam":
            ops.adam(
                parameters[part],
                gradient[part],
                state.vectors["first"][part],
                state.vectors["second"][part],
                rate=rate,
                beta1=settings.beta1,
                beta2=settings.beta2,
                epsilon=settings.epsilon,
                step=state.step,
                scale=scale,
            )
        else:
            gradient[part] *= _as_number_of(gradient, of_part * scale)
            parameters[part] -= gradient[part]
    if "average" in state.vectors:
        average = state.vectors["average"]
        if state.averaged < 2:
            average[...] = parameters
        else:
            average += (parameters - average) / _as_number_of(average, averaged)


def _as_number_of(array: Array, number: float | Array) -> Any:
    """Return the number in such a type that its product with the array has the array's type."""
    return number.astype(array.dtype) if hasattr(number, "astype") else number


def clipped(ops: ModuleType, gradient: Array, n_labels: float | Array, clip_norm: float | None) -> tuple[Any, Any]:
    """Return the norm of the mean gradient over labels, and the factor that turns the summed gradient into this mean.

    The flat gradient is summed over the labels; there may be none. The factor also limits the norm of the mean to about
    `clip_norm`. On a GPU both results are arrays without axes on the device; a backend may have a kernel for them.
    """
    if hasattr(ops, "clipped"):
        of_backend: tuple[Any, Any] = ops.clipped(gradient, n_labels, clip_norm)
        return of_backend
    scale = 1.0 / np.maximum(n_labels, 1.0)  # a batch without labels: loss 0, gradient 0
    length = norm(gradient) * scale
    return length, scale * clip_factor(length, clip_norm)


SUMMED = 2**22
"""So many squares of a gradient are summed in its own type: float32 sums of sixty million lose up to a hundredth."""


def norm(gradient: Array) -> Any:
    """Return the Euclidean length of a flat vector, float64; SUMMED squares at a time are summed in its own type."""
    parts = (gradient[begin : begin + SUMMED] for begin in range(0, len(gradient), SUMMED))
    return sum((part.dot(part).astype(np.float64) for part in parts), np.float64(0.0)) ** 0.5


def clip_factor(norm: Any, clip_norm: float | None) -> Any:
    """Return the factor that limits a gradient of that norm to about `clip_norm`; None never clips."""
    return 1.0 if clip_norm is None else np.minimum(1.0, clip_norm / (norm + 1e-6))
