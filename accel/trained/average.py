"""The average of the last checkpoints of a run, which often translates better than each of them (FastTrees, 4.5).

`grove train --set keep_checkpoints=8` keeps the parameters of the last eight checkpoints, each under its step.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np

from accel.trained.opening import Model, configuration
from accel.training.checkpoint import Checkpoint, CheckpointError, load, read_state, save
from accel.training.directory import digest
from accel.training.last_checkpoints import kept_checkpoints

AVERAGE = "average.safetensors"
_SHARED = ("model", "config", "vocabulary")


def averaged(ops: ModuleType, model: Model, last: int) -> Model:
    """Return a model with the mean of the parameters of its run's last checkpoints, see `average_checkpoints`.

    The file of the mean is for people to use again, and is not read here: another process may write another mean to it.
    If it cannot be written, as in the run of another user, a message says so.
    """
    directory = model.path.parent
    average = average_checkpoints(directory, model.module.parameter_shapes(model.config), last)
    of_model = model.module, model.config, digest(model.vocabulary)
    if (*configuration(directory, average.state), average.state.get("vocabulary")) != of_model:
        raise CheckpointError(f"{directory}: its last checkpoints are not of the model in {model.path}")
    try:
        save(directory / AVERAGE, average)
    except CheckpointError as error:
        print(f"grove: the average is used, and not kept: {error}", file=sys.stderr)
    parameters = {name: ops.xp.asarray(tensor) for name, tensor in average.parameters.items()}
    return replace(model, path=directory / AVERAGE, parameters=model.parameters | parameters)


def average_checkpoints(directory: Path, shapes: Mapping[str, tuple[int, ...]], last: int) -> Checkpoint:
    """Return the mean of the parameters of a run's last checkpoints.

    `shapes` are the names and shapes of the model's parameters. The sums are float64, in the order of the steps; the
    mean has the type of the parameters. Its results on the validation data are not known, and not in its state.

    Raises
    ------
    CheckpointError
        If there are fewer checkpoints, or they are not of one model.
    """
    if last < 1:
        raise ValueError(f"last: {last} checkpoints have no average")
    paths = kept_checkpoints(directory)[-last:]
    if len(paths) < last:
        count = f"{len(paths)} checkpoint{'s' * (len(paths) != 1)}"
        use = f"{f'average at most {len(paths)}, or ' * bool(paths)}train with --set keep_checkpoints={last}"
        raise CheckpointError(f"{directory}: keeps {count}, not {last}: {use}")
    states = [read_state(path) for path in paths]
    for path, state in zip(paths, states, strict=True):
        for key in _SHARED:
            if state.get(key) != states[0].get(key):
                raise CheckpointError(f"{path}: its {key} is not that of {paths[0]}")
    sums: dict[str, np.ndarray] = {}
    for path in paths:
        parameters = load(path, shapes).parameters
        sums = {name: sums.get(name, 0.0) + x.astype(np.float64) for name, x in parameters.items()}
    mean = {name: (total / last).astype(parameters[name].dtype) for name, total in sums.items()}
    state = {key: value for key, value in states[-1].items() if not key.startswith("validation_")}
    state["averaged_steps"] = [state["step"] for state in states]
    return Checkpoint(mean, state)
