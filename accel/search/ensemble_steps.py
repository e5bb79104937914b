"""Several TG or TXL that read the same actions, and how probable the next one is under all of them together.

Mirrors `refimpl.transformer_grammars.marginal.mixture_logp` and `product_logp` (clauses MARG-3 and MARG-4), for many
hypotheses at once. A state is one of `accel.search.transformer_grammar_steps` for each of the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array
from accel.search.transformer_grammar_steps import State, Steps
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

    def begin(self) -> States:
        return tuple(State() for _ in self._steps)

    def read(self, before: Sequence[States], actions: Sequence[int] | np.ndarray) -> tuple[list[States], list[Array]]:
        """Return R states one action later, and what the probabilities there are made of, [R, d] of each model."""
        of_models = [steps.read([states[k] for states in before], actions) for k, steps in enumerate(self._steps)]
        return list(zip(*(states for states, _ in of_models), strict=True)), [hidden for _, hidden in of_models]

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

    def keep(self, states: Sequence[States]) -> list[States]:
        """Forget the rows of all other states, and return these with the new numbers of theirs."""
        of_models = [steps.keep([one[k] for one in states]) for k, steps in enumerate(self._steps)]
        return list(zip(*of_models, strict=True))
