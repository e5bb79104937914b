"""`grove info`: what a run is, how far it has come, its last losses, its data, and the process that trains it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from textwrap import wrap
from typing import Any

from accel.commands.tables import print_table
from accel.trained.kinds import kind_of
from accel.trained.opening import Model, checkpoint_of, configuration
from accel.training.checkpoint import read_state
from accel.training.directory import SETTINGS, load_settings
from accel.training.lock import LOCK, holder
from accel.training.metrics import read_metrics
from accel.training.run import METRICS, NEWEST

_DATA = ("data", "validation", "test", "gold", "vectors", "checkpoint")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "a run's folder or a checkpoint in it, or a folder that `grove export` wrote"
    parser.add_argument("run", type=Path, metavar="RUN", help=help_text)


def run(options: argparse.Namespace) -> int:
    path: Path = options.run
    directory = path if path.is_dir() else path.parent
    has_settings = (directory / SETTINGS).exists()
    if path.is_dir() and has_settings and not any(path.glob("*.safetensors")):
        rows = [["checkpoint", "none yet"]]  # its first step is to come
    else:
        newest = path / NEWEST
        rows = _model(newest if newest.exists() else checkpoint_of(path))
    if has_settings:
        rows += _settings(load_settings(directory)[1])
    if (path / METRICS).exists():
        rows += _progress(path)
    lines = [[name, *wrap(text, 100, break_on_hyphens=False, break_long_words=False)] for name, text in rows]
    print_table([["run", str(path)], *([n if not k else "", t] for n, *texts in lines for k, t in enumerate(texts))], 2)
    return 0


def _model(path: Path) -> list[list[str]]:
    """Return what the state of a checkpoint says: the model and its sizes, the steps, the settings of training."""
    state = read_state(path)
    module, config = configuration(path, state)
    count = sum(prod(shape) for shape in module.parameter_shapes(config).values())
    rows = [["model", f"{kind_of(Model(path, config, {}, None, None, module))}, {count:,} parameters"]]
    rows.append(["sizes", _sizes(config)])
    training = state.get("training", {})
    if "steps" in training and "step" in state:
        rows.append(["steps", f"{state['step']:,} of {training['steps']:,}, in {path.name}"])
        names = ("batch_size", "optimizer", "schedule", "maximum_rate", "seed")
        rows.append(["training", " ".join(f"{name}={training[name]}" for name in names if name in training)])
    return rows


def _sizes(config: Any) -> str:
    """Return the whole numbers of a configuration."""
    return " ".join(f"{name}={value}" for name, value in asdict(config).items() if type(value) is int)


def _settings(settings: Mapping[str, Any]) -> list[list[str]]:
    """Return the task and the files that a run's options name."""
    rows = [["task", settings["task"]]] if "task" in settings else []
    return rows + [[name, settings[name]] for name in _DATA if settings.get(name) is not None]


def _progress(directory: Path) -> list[list[str]]:
    """Return the last and the best results of a run, and the process that trains it."""
    path = directory / METRICS
    lines = read_metrics(path) if path.stat().st_size else []
    rows = []
    for name, best in (("loss", None), ("validation_loss", min), ("validation_accuracy", max), ("validation_f1", max)):
        results = [(line[name], line["step"]) for line in lines if name in line]
        if results:
            value, step = results[-1]
            text = f"{value:.4f} at step {step:,}"
            if best is not None:
                value, step = best(results, key=lambda result: result[0])
                text += f"; best {value:.4f} at step {step:,}"
            rows.append([name.replace("_", " "), text])
    process = holder(directory)
    if process is not None:
        rows.append(["process", f"{process.pid} on {process.host} trains it"])
    elif (directory / LOCK).exists():
        rows.append(["process", "none: the one that trained it was killed; grove train --resume continues"])
    else:
        rows.append(["process", "none trains it"])
    return rows
