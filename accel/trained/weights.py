"""The parameters of a trained model by their names, and a folder that holds the same model with other parameters."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.trained.opening import checkpoint_of, configuration
from accel.training.checkpoint import Checkpoint, load, read_state, save
from accel.training.directory import EXPORTED, SETTINGS, TABLES, VOCABULARY, new_folder

Arrays = dict[str, NDArray[Any]]


def read_weights(run: str | Path) -> Arrays:
    """Return the parameters of a trained model.

    `run` is a folder that `grove train` or `grove export` wrote, or a checkpoint; if not, CheckpointError is raised.
    """
    return _read(run)[2]


def write_weights(run: str | Path, folder: str | Path, weights: Mapping[str, NDArray[Any]]) -> None:
    """Write a folder that Grove opens: the model of `run`, in which these weights replace those of the same names.

    It is written completely or not at all. Raises CheckpointError if `run` is no model, ValueError if a weight is none
    of its parameters, has another shape or is not finite in their dtype, FileExistsError if the folder has files.
    """
    path, state, parameters = _read(run)
    for name, weight in weights.items():
        if name not in parameters:
            raise ValueError(f"{name}: no parameter of {path}, which has {', '.join(list(parameters)[:3])}, ...")
        if parameters[name].shape != weight.shape:
            raise ValueError(f"{name}: shape {weight.shape}, but in {path} {parameters[name].shape}")
        with np.errstate(over="ignore"):
            parameters[name] = weight.astype(parameters[name].dtype)
        if not np.isfinite(parameters[name]).all():
            raise ValueError(f"{name}: holds a NaN or an infinity, or a number too large for {parameters[name].dtype}")
    rest = {key: value for key, value in state.items() if not key.startswith("validation_")}  # of the old weights
    with new_folder(Path(folder)) as new:
        for file in (VOCABULARY, SETTINGS, TABLES):
            if (path.parent / file).exists():
                shutil.copyfile(path.parent / file, new / file)
        save(new / EXPORTED, Checkpoint(parameters, rest))


def _read(run: str | Path) -> tuple[Path, dict[str, Any], Arrays]:
    path = checkpoint_of(Path(run))
    state = read_state(path)
    module, config = configuration(path, state)
    return path, state, load(path, module.parameter_shapes(config)).parameters
