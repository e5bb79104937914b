"""A folder that travels: the weights of a model without its training, its vocabulary, its settings and a model card.

The folder has the layout that an upload to a model hub expects: `config.json`, `model.safetensors`, `vocabulary.json`
and `README.md`. It names no path of the machine that trained the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import accel
from accel.autodiff.arrays import host
from accel.trained.kinds import kind_of
from accel.trained.opening import Model
from accel.training.checkpoint import Checkpoint, read_state, save
from accel.training.directory import EXPORTED, SETTINGS, VOCABULARY, load_settings, new_folder, save_tables

CARD = "README.md"
_CONTENTS = "contents"  # of a run: the checksums of its data, by their paths
_OF_MODEL = ("model", "config", "vocabulary", "training", "step", "averaged_steps")


def export(model: Model, directory: Path, card: str, options: Mapping[str, Any]) -> None:
    """Write the folder of an opened model, completely or not at all.

    `options` are those of the model's training; paths are left out.

    Raises
    ------
    FileExistsError
        If `directory` exists and is not an empty directory.
    """
    reading, _ = load_settings(model.path.parent)
    settings = {
        "library_name": "grove-lm",
        "library_version": accel.__version__,
        "model_type": kind_of(model),
        "config": asdict(model.config),
        "reading": None if reading is None else asdict(reading),
        "options": {name: without_paths(value) for name, value in options.items() if name != _CONTENTS},
    }
    parameters = {name: host(model.parameters[name]) for name in model.module.parameter_shapes(model.config)}
    tables = {name: host(value) for name, value in model.parameters.items() if name not in parameters}
    with new_folder(directory) as folder:
        save(folder / EXPORTED, Checkpoint(parameters, state_of(model)))
        save_tables(folder, tables, model.vocabulary)
        (folder / VOCABULARY).write_text(model.vocabulary.to_json() + "\n", encoding="utf-8")
        (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        (folder / CARD).write_text(card, encoding="utf-8")


def state_of(model: Model) -> dict[str, Any]:
    """Return the part of a checkpoint's state that says what the model is, and its results on the validation data."""
    state: Mapping[str, Any] = read_state(model.path)
    return {key: value for key, value in state.items() if key in _OF_MODEL or key.startswith("validation_")}


def without_paths(value: Any) -> Any:
    """Return the value of an option; None for an absolute path, and a list without its absolute paths.

    Examples
    --------
    >>> without_paths("/data/train.trees"), without_paths(["/data/a", "tg"]), without_paths("tg")
    (None, ['tg'], 'tg')
    """
    if isinstance(value, list):
        return [item for item in value if without_paths(item) is not None]
    return None if isinstance(value, str) and Path(value).is_absolute() else value
