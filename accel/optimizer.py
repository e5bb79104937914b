"""Adam on one flat vector, the clipping of its gradient, and the learning rate of every step."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from types import ModuleType

from accel.tape import Array


@dataclass
class Adam:
    """The state of Adam: both moments, flat, and the number of updates made."""

    first: Array
    second: Array
    step: int = 0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


def adam(ops: ModuleType, parameters: Array) -> Adam:
    """Return the state before the first update."""
    return Adam(ops.xp.zeros_like(parameters), ops.xp.zeros_like(parameters))


def update(ops: ModuleType, state: Adam, parameters: Array, gradient: Array, rate: float, scale: float = 1.0) -> None:
    """Move the flat `parameters` one step against `scale * gradient`, in place."""
    state.step += 1
    ops.adam(
        parameters,
        gradient,
        state.first,
        state.second,
        rate=rate,
        beta1=state.beta1,
        beta2=state.beta2,
        epsilon=state.epsilon,
        step=state.step,
        scale=scale,
    )


def norm(gradient: Array) -> float:
    """Return the Euclidean length of a flat vector."""
    return float(gradient.dot(gradient)) ** 0.5


def clip_factor(norm: float, clip_norm: float | None) -> float:
    """Return what to multiply a gradient of that norm by, so that it is at most about `clip_norm`; None never clips."""
    return 1.0 if clip_norm is None else min(1.0, clip_norm / (norm + 1e-6))


def learning_rate(step: int, *, steps: int, warmup: int, initial: float, maximum: float, final: float) -> float:
    """Return the rate of update `step` in 0..steps-1.

    Linear from `initial` at step 0 to `maximum` at step `warmup`, then half a cosine down to `final`, which the last
    step has.

    Examples
    --------
    >>> [learning_rate(i, steps=5, warmup=2, initial=0.0, maximum=1.0, final=0.5) for i in range(5)]
    [0.0, 0.5, 1.0, 0.75, 0.5]
    """
    if not 0 <= step < steps:
        raise ValueError(f"step: {step} is not one of 0..{steps - 1}")
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup: {warmup} steps do not fit into {steps}")
    if step < warmup:
        return initial + (maximum - initial) * step / warmup
    progress = (step - warmup) / (steps - 1 - warmup) if warmup < steps - 1 else 1.0
    return final + (maximum - final) * 0.5 * (1.0 + cos(pi * progress))
