"""Adam, plain gradient descent and NT-ASGD on one flat vector, and the clipping of its gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

from accel.settings import TrainingConfig
from accel.tape import Array


@dataclass
class Optimizer:
    """The state of an optimiser: flat vectors by name, the number of updates, and of those that were averaged.

    Adam has the vectors "first" and "second", both moments; NT-ASGD, once it averages, has "average".
    """

    settings: TrainingConfig
    vectors: dict[str, Array] = field(default_factory=dict)
    step: int = 0
    averaged: int = 0


def start(ops: ModuleType, settings: TrainingConfig, parameters: Array) -> Optimizer:
    """Return the state before the first update."""
    names = ("first", "second") if settings.optimizer == "adam" else ()
    return Optimizer(settings, {name: ops.xp.zeros_like(parameters) for name in names})


def start_average(state: Optimizer, parameters: Array) -> None:
    """Let NT-ASGD average the parameters from the next update on."""
    state.vectors["average"] = parameters.copy()


def update(
    ops: ModuleType, state: Optimizer, parameters: Array, gradient: Array, rate: float, scale: float = 1.0
) -> None:
    """Move the flat `parameters` one step against `scale * gradient`, in place; the gradient is used up.

    Weight decay is added to the scaled gradient, as a penalty would be. NT-ASGD is PyTorch's ASGD without decay term
    (lambd 0, t0 0): its average is the mean of the parameters after each averaged update but the first.
    """
    settings = state.settings
    state.step += 1
    if settings.weight_decay:
        gradient *= scale
        gradient += settings.weight_decay * parameters
        scale = 1.0
    if settings.optimizer == "adam":
        ops.adam(
            parameters,
            gradient,
            state.vectors["first"],
            state.vectors["second"],
            rate=rate,
            beta1=settings.beta1,
            beta2=settings.beta2,
            epsilon=settings.epsilon,
            step=state.step,
            scale=scale,
        )
        return
    gradient *= rate * scale
    parameters -= gradient
    if "average" in state.vectors:
        average = state.vectors["average"]
        if state.averaged < 2:
            average[...] = parameters
        else:
            average += (parameters - average) / state.averaged
        state.averaged += 1


def norm(gradient: Array) -> float:
    """Return the Euclidean length of a flat vector."""
    return float(gradient.dot(gradient)) ** 0.5


def clip_factor(norm: float, clip_norm: float | None) -> float:
    """Return what to multiply a gradient of that norm by, so that it is at most about `clip_norm`; None never clips."""
    return 1.0 if clip_norm is None else min(1.0, clip_norm / (norm + 1e-6))
