"""An ensemble of TG or TXL models that read the same actions, and the probability of the next action under all of them.

Mirrors `refimpl.transformer_grammars.marginal.mixture_logp` and `product_logp` (clauses MARG-3 and MARG-4), for many
hypotheses at once. A state of the ensemble is a state of `accel.search.transformer_grammar_steps` for each model.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.search.pools import log_softmax
from accel.search.transformer_grammar_steps import State, Steps, no_actions
from accel.trained.ensembles import check_ensemble
from accel.trained.opening import Model

States = tuple[State, ...]  # of each model


class EnsembleSteps:
    """One or more models of the same vocabulary and the same actions; `ensemble`: "mixture" or "product".

    Raises ValueError as `check_ensemble`.
    """

    def __init__(self, ops: ModuleType, models: Sequence[Model], ensemble: str = "mixture") -> None:
        check_ensemble(models, ensemble)
        self._xp, self._is_mixture = ops.xp, ensemble == "mixture"
        self._steps = [Steps(ops, model.config, model.parameters, model.vocabulary.type_of) for model in models]

    @property
    def size(self) -> int:
        """How many rows all models store together."""
        return sum(steps.size for steps in self._steps)

    def begin(self, count: int) -> States:
        """Return the states of `count` sequences without any actions."""
        return tuple(no_actions(count) for _ in self._steps)

    def read(self, before: States, actions: np.ndarray) -> tuple[States, list[Array]]:
        """Return the R states after one more action each, and each model's hidden states there [R, d], for `logps`."""
        of_models = [steps.read(states, actions) for steps, states in zip(self._steps, before, strict=True)]
        return tuple(states for states, _ in of_models), [hidden for _, hidden in of_models]

    def logps_of(self, hidden: Sequence[Array], actions: np.ndarray) -> np.ndarray:
        """Return log p of some actions [R, C] from the hidden states that `read` returned: float64, on the host."""
        if len(self._steps) == 1:
            return self._steps[0].logps_of(hidden[0], actions)
        logps = self._xp.take_along_axis(self.logps(hidden), self._xp.asarray(actions), axis=1)
        return host(logps).astype(np.float64)

    def logps(self, hidden: Sequence[Array]) -> Array:
        """Return log p of every action [R, V] from the hidden states that `read` returned."""
        xp, count = self._xp, len(self._steps)
        logps = [steps.logps(of_model) for steps, of_model in zip(self._steps, hidden, strict=True)]
        if count == 1:
            return logps[0]
        if not self._is_mixture:
            return log_softmax(xp, sum(logps[1:], logps[0]) / count)
        highest = logps[0]
        for of_model in logps[1:]:
            highest = xp.maximum(highest, of_model)
        return highest + xp.log(sum(xp.exp(of_model - highest) for of_model in logps)) - log(count)

    def keep(self, states: States) -> States:
        """Delete all rows that these states do not use, and return the states with the new numbers of their rows."""
        return tuple(steps.keep(of_model) for steps, of_model in zip(self._steps, states, strict=True))
