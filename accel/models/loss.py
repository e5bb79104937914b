"""The loss of a batch and its gradient, for every model: a model writes its forward pass, which is run backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.tape import Tape, Variable, learned


@dataclass(frozen=True)
class Forward:
    """What a forward pass leaves behind for the loss."""

    loss: Callable[[], float]  # nats, the sum over the labels
    backward: Callable[[], None]  # runs the tape from its end
    memory: list[Array] = field(default_factory=list)  # what the next batch continues


def negative_sum(tape: Tape, logps: Variable, memory: list[Array] | None = None) -> Forward:
    """Return the loss of a model that gives every label a log-probability: the sum of -log p."""
    xp = tape.xp
    return Forward(
        lambda: float(-logps.value.sum(dtype=xp.float64)),
        lambda: tape.backward(logps, xp.full_like(logps.value, -1.0)),
        memory or [],
    )


def _no_memory(ops: ModuleType, config: Any, parameters: Mapping[str, Array]) -> list[Array]:
    return []


def differentiated(
    forward: Callable[..., Forward], empty_memory: Callable[..., list[Array]] = _no_memory
) -> Callable[..., tuple[float, dict[str, Array], list[Array]]]:
    """Return a model's `loss_and_grad`.

    forward : takes tape, config, variables, batch, memory and the seed of dropout, None where nothing is dropped
    empty_memory : takes ops, config and parameters; what a batch without a word leaves to the next one
    """

    def loss_and_grad(
        ops: ModuleType,
        config: Any,
        parameters: Mapping[str, Array],
        batch: Any,
        memory: list[Array] | None = None,
        dropout_seed: int | None = None,
        gradients: dict[str, Array] | None = None,
    ) -> tuple[float, dict[str, Array], list[Array]]:
        """Return the loss of a batch summed over its labels, nats, its gradient, and the next batch's memory.

        No gradient flows into the memory. Every mask of dropout follows from `dropout_seed`; with None nothing is
        dropped. `gradients` are overwritten and returned if given.
        """
        with learned(ops.xp, parameters, gradients) as (variables, gradients):
            if not len(batch.ids):
                return 0.0, gradients, empty_memory(ops, config, parameters)
            result = forward(Tape(ops), config, variables, batch, memory, dropout_seed)
            result.backward()
        return result.loss(), gradients, result.memory

    return loss_and_grad
