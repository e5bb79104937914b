"""Several TG or TXL that read the same actions, and how probable the next one is under all of them together.

Mirrors `refimpl.transformer_grammars.marginal.mixture_logp` and `product_logp` (clauses MARG-3 and MARG-4), for many
hypotheses at once. A state is one of `accel.search.transformer_grammar_steps` for each of the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.search.transformer_grammar_steps import State, Steps, no_actions
from accel.trained.opening import Model

States = tuple[State, ...]  # of each model


class EnsembleSteps:
    """One or more models of the same vocabulary; `ensemble`: "mixture" or "product"."""

    def __init__(self, ops: ModuleType, models: Sequence[Model], ensemble: str = "mixture") -> None:
        self._xp, self._is_mixture = ops.xp, ensemble == "mixture"
        self._steps = [Steps(ops, model.config, model.parameters, model.vocabulary.type_of) for model in models]

    @property
    def size(self) -> int:
        """How many rows all models have."""
        return sum(steps.size for steps in self._steps)

    def begin(self, count: int) -> States:
        """Return the states of so many sequences without any actions."""
        return tuple(no_actions(count) for _ in self._steps)

    def read(self, before: States, actions: np.ndarray) -> tuple[States, list[Array]]:
        """Return R states one action later, and what the probabilities there are made of, [R, d] of each model."""
        of_models = [steps.read(states, actions) for steps, states in zip(self._steps, before, strict=True)]
        return tuple(states for states, _ in of_models), [hidden for _, hidden in of_models]

    def logps_of(self, hidden: Sequence[Array], actions: np.ndarray) -> np.ndarray:
        """Return log p of some actions [R, C] after what `read` returned: float64, on the host."""
        if len(self._steps) == 1:
            return self._steps[0].logps_of(hidden[0], actions)
        logps = self._xp.take_along_axis(self.logps(hidden), self._xp.asarray(actions), axis=1)
        return host(logps).astype(np.float64)

    def logps(self, hidden: Sequence[Array]) -> Array:
        """Return log p of every action [R, V] after what `read` returned."""
        xp, count = self._xp, len(self._steps)
        logps = [steps.logps(of_model) for steps, of_model in zip(self._steps, hidden, strict=True)]
        if count == 1:
            return logps[0]
        if not self._is_mixture:
            mean = sum(logps[1:], logps[0]) / count
            mean -= mean.max(axis=1, keepdims=True)
            return mean - xp.log(xp.exp(mean).sum(axis=1, keepdims=True))
        highest = logps[0]
        for of_model in logps[1:]:
            highest = xp.maximum(highest, of_model)
        return highest + xp.log(sum(xp.exp(of_model - highest) for of_model in logps)) - log(count)

    def keep(self, states: States) -> States:
        """Forget the rows of all other states, and return these with the new numbers of theirs."""
        return tuple(steps.keep(of_model) for steps, of_model in zip(self._steps, states, strict=True))
