"""The forward and backward passes that all models share, for training and for scoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.layers import DropoutSites
from accel.autodiff.learned import OnFinal, learned
from accel.autodiff.tape import OnOp, Tape
from accel.autodiff.variables import Variable, constant

Result = tuple[float, dict[str, Array], list[Array]]
LOGITS = 2**24
"""How many logits are in memory at a time when the most probable label is computed."""


@dataclass(frozen=True)
class Pass:
    """State that all parts of one forward pass share."""

    tape: Tape
    config: Any  # the `Config` of the model
    p: Mapping[str, Variable]  # its parameters
    sites: DropoutSites
    whole: Mapping[str, int] | None = None  # the counts of the whole batch, if this is a part of it


@dataclass(frozen=True)
class Forward:
    """The results of a forward pass for the loss."""

    loss: Callable[[], Array | float]  # nats, the sum over the labels: a number, or an array without axes
    backward: Callable[[], None]  # runs the tape from its end
    memory: list[Array] = field(default_factory=list)  # for the next batch


def scoring(ops: ModuleType, config: Any, parameters: Mapping[str, Array], on_op: OnOp | None = None) -> Pass:
    """Return a pass without gradients and without dropout; `on_op` is called with every op."""
    variables = {name: constant(value) for name, value in parameters.items()}
    return Pass(Tape(ops, recording=False, on_op=on_op), config, variables, DropoutSites(None))


def negative_sum(f: Pass, logps: Variable, memory: list[Array] | None = None) -> Forward:
    """Return the loss of a model that gives every label a log-probability: the sum of -log p."""
    xp = f.tape.xp
    return Forward(
        lambda: -logps.value.sum(dtype=xp.float64),
        lambda: f.tape.backward(logps, xp.full_like(logps.value, -1.0)),
        memory or [],
    )


def most_probable(xp: ModuleType, h: Array, table: Array, bias: Array | None = None) -> Array:
    """Return for every row of states h [n, d] the number of the label with the greatest logit, h @ table.T + bias."""
    rows = max(1, LOGITS // len(table))
    logits = (xp.matmul(h[i : i + rows], table.T) for i in range(0, max(len(h), 1), rows))
    return xp.concatenate([(part if bias is None else part + bias).argmax(axis=1) for part in logits])


def no_memory(ops: ModuleType, config: Any, parameters: Mapping[str, Array]) -> list[Array]:
    """Return the memory of a model that has none."""
    return []


def _dtype(parameters: Mapping[str, Array]) -> Any:
    return next(iter(parameters.values())).dtype


def differentiated(
    forward: Callable[[Pass, Any, list[Array] | None], Forward], empty_memory: Callable[..., list[Array]] = no_memory
) -> Callable[..., Result]:
    """Return a model's `loss_and_grad`.

    forward : takes the pass, the batch, and the memory of the last batch
    empty_memory : takes ops, config and parameters; returns the memory after a batch without words
    """

    def loss_and_grad(
        ops: ModuleType,
        config: Any,
        parameters: Mapping[str, Array],
        batch: Any,
        memory: list[Array] | None = None,
        dropout_seed: int | None = None,
        gradients: dict[str, Array] | None = None,
        *,
        whole: Mapping[str, int] | None = None,
        add: bool = False,
        recompute: bool = False,
        watch: Callable[[Tape], None] | None = None,
        wait: bool = True,
        on_final: OnFinal | None = None,
    ) -> Result:
        """Return the loss of a batch summed over its labels, nats, its gradient, and the next batch's memory.

        No gradient flows into the memory. Every mask of dropout follows from `dropout_seed`; with None nothing is
        dropped. `gradients`, if not None, are overwritten and returned.

        A micro-batch gets in `whole` the sums of the model's `counts` over all micro-batches, if the model has them:
        then losses and gradients of all micro-batches add up to those of the whole batch. With `add` its gradients are
        added to those that `gradients` hold. With `recompute` layers keep no arrays for the backward pass, which
        computes them again; the gradients are the same bit for bit. `watch` is called with the tape after the forward
        pass. Without `wait` the loss may be an array without axes that the device has not computed yet. `on_final` is
        called with the name of every parameter once its gradient is final, while the backward pass runs.
        """
        with learned(ops, parameters, gradients, add, on_final) as p:
            if not len(batch.ids):
                return 0.0, p.gradients, empty_memory(ops, config, parameters)
            tape = Tape(ops, recompute=recompute, on_final=p.on_final)
            result = forward(Pass(tape, config, p.variables, DropoutSites(dropout_seed), whole), batch, memory)
            if watch is not None:
                watch(tape)
            result.backward()
        loss = result.loss()
        return float(loss) if wait else loss, p.gradients, result.memory

    return loss_and_grad


def scored(
    logps: Callable[[Pass, Any, list[Array] | None], tuple[Array, list[Array]]],
    empty_memory: Callable[..., list[Array]] = no_memory,
) -> Callable[..., tuple[Array, list[Array]]]:
    """Return a model's `token_logps`; `logps` takes what `forward` takes in `differentiated`."""

    def token_logps(
        ops: ModuleType,
        config: Any,
        parameters: Mapping[str, Array],
        batch: Any,
        memory: list[Array] | None = None,
    ) -> tuple[Array, list[Array]]:
        """Return the log-probability of every label, nats (0 where there is none), and the next batch's memory."""
        if not len(batch.ids):
            return ops.xp.zeros(0, _dtype(parameters)), empty_memory(ops, config, parameters)
        return logps(scoring(ops, config, parameters), batch, memory)

    return token_logps


def judged(rights: Callable[[Pass, Any], tuple[Array, Array]]) -> Callable[..., tuple[Array, Array, list[Array]]]:
    """Return the `scores` function of a model without memory; `rights` takes the pass and the batch."""

    def scores(
        ops: ModuleType,
        config: Any,
        parameters: Mapping[str, Array],
        batch: Any,
        memory: list[Array] | None = None,
    ) -> tuple[Array, Array, list[Array]]:
        """Return the log-probability of every label, whether the label is the most probable one, and no memory."""
        if not len(batch.ids):
            return ops.xp.zeros(0, _dtype(parameters)), ops.xp.zeros(0, bool), []
        return *rights(scoring(ops, config, parameters), batch), []

    return scores
