"""`grove info`: what a run is, how far it has come, its last losses, its data, and the process that trains it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from statistics import fmean
from textwrap import wrap
from typing import Any

from accel.commands.tables import print_table
from accel.models.gpst import model as gpst
from accel.models.gpst.config import layer_weights
from accel.trained.kinds import kind_of
from accel.trained.opening import Model, checkpoint_of, configuration
from accel.training.checkpoint import read_state
from accel.training.directory import SETTINGS, load_settings
from accel.training.lock import LOCK, holder
from accel.training.metrics import read_metrics
from accel.training.run import METRICS, NEWEST
from accel.training.settings import SELECTIONS

_DATA = ("data", "validation", "test", "gold", "validation_gold", "vectors", "checkpoint", "vocabulary_from")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "a run's folder or a checkpoint in it, or a folder that `grove export` wrote"
    parser.add_argument("run", type=Path, metavar="RUN", help=help_text)


def run(options: argparse.Namespace) -> int:
    path: Path = options.run
    directory = path if path.is_dir() else path.parent
    has_settings = (directory / SETTINGS).exists()
    if path.is_dir() and has_settings and not any(path.glob("*.safetensors")):
        rows = [["checkpoint", "none yet"]]  # it has made no step yet
    else:
        newest = path / NEWEST
        rows = _model(newest if newest.exists() else checkpoint_of(path))
    if has_settings:
        rows += _settings(load_settings(directory)[1])
    if (path / METRICS).exists():
        rows += _progress(path, load_settings(directory)[1] if has_settings else {})
    lines = [[name, *wrap(text, 100, break_on_hyphens=False, break_long_words=False)] for name, text in rows]
    print_table([["run", str(path)], *([n if not k else "", t] for n, *texts in lines for k, t in enumerate(texts))], 2)
    return 0


def _model(path: Path) -> list[list[str]]:
    """Return what the state of a checkpoint says: the model and its sizes, the steps, the settings of training."""
    state = read_state(path)
    module, config = configuration(path, state)
    count = sum(prod(shape) for shape in module.parameter_shapes(config).values())
    rows = [["model", f"{kind_of(Model(path, config, {}, None, None, module))}, {count:,} parameters"]]
    rows.append(["parts", _parts(module.parameter_shapes(config))])
    if module is gpst:
        for name, parts in layer_weights(config).items():
            weights = ", ".join(f"{part} {number:,}" for part, number in parts.items() if number)
            rows.append(["weights of a layer", f"{name}: {weights}; together {sum(parts.values()):,}"])
    rows.append(["sizes", _sizes(config)])
    rows.append(["other settings", _others(config)])
    training = state.get("training", {})
    if "steps" in training and "step" in state:
        rows.append(["steps", f"{state['step']:,} of {training['steps']:,}, in {path.name}"])
        rows.append(["training", " ".join(f"{name}={value}" for name, value in training.items())])
    return [row for row in rows if row[1]]


def _parts(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return how many parameters and layers each part of a model has; its name is the first word of their names.

    >>> _parts({"embedding": (5, 2), "output_bias": (5,), "layer.0.in": (2, 3), "layer.1.in": (2, 3)})
    'embedding 10; output 5; layer 12 in 2 layers'
    """
    counts, layers = Counter[str](), dict[str, set[str]]()
    for name, shape in shapes.items():
        part, _, rest = name.partition(".")
        part, number = part.removesuffix("_bias"), rest.partition(".")[0]
        counts[part] += prod(shape)
        layers.setdefault(part, set()).update([number] if number.isdigit() else [])
    several = {part: f" in {len(numbers)} layers" for part, numbers in layers.items() if len(numbers) > 1}
    return "; ".join(f"{part} {count:,}{several.get(part, '')}" for part, count in counts.items())


def _others(config: Any) -> str:
    """Return the settings of a configuration that are not whole numbers."""
    return " ".join(f"{name}={value}" for name, value in asdict(config).items() if type(value) is not int)


def _sizes(config: Any) -> str:
    """Return the whole numbers of a configuration."""
    return " ".join(f"{name}={value}" for name, value in asdict(config).items() if type(value) is int)


def _settings(settings: Mapping[str, Any]) -> list[list[str]]:
    """Return the task and the files that a run's options name."""
    task = ", ".join(settings[key] for key in ("task", "name") if settings.get(key))  # the name of a set of GLUE
    rows = [["task", task]] if task else []
    data = {name: settings[name] for name in _DATA if settings.get(name) is not None}
    return rows + [[name, " ".join(value) if isinstance(value, list) else value] for name, value in data.items()]


def _times(lines: Sequence[Mapping[str, float]], newest: Path, settings: Mapping[str, Any]) -> list[list[str]]:
    """Return the seconds of a step, and of an epoch where the run's options count epochs and not steps.

    Validations are left out; the first step, which may compile, counts only if there is no other.
    """
    seconds = [line["seconds"] for line in lines if "seconds" in line]
    seconds = seconds[1:] or seconds
    if not seconds:
        return []
    text, epochs = f"{fmean(seconds):.3g} a step, the mean of {len(seconds):,}", settings.get("epochs")
    is_set = any(setting.startswith("steps=") for setting in settings.get("set", ()))
    others = [settings.get(name) for name in ("steps", "tokens")]
    if epochs and not is_set and others == [None, None] and newest.exists():
        n_steps = read_state(newest)["training"]["steps"] / epochs
        text += f"; {n_steps * fmean(seconds):.3g} an epoch of {n_steps:,.4g} steps"
    return [["seconds", text]]


def _progress(directory: Path, settings: Mapping[str, Any]) -> list[list[str]]:
    """Return the last and the best results of a run, its times, and the process that trains it."""
    path = directory / METRICS
    lines = read_metrics(path) if path.stat().st_size else []
    rows = []
    for name in ("loss", *(f"validation_{name}" for name in SELECTIONS)):
        results = [(line[name], line["step"]) for line in lines if name in line]
        if results:
            value, step = results[-1]
            text = f"{value:.4f} at step {step:,}"
            if name != "loss":
                best = min if name == "validation_loss" else max
                value, step = best(results, key=lambda result: result[0])
                text += f"; best {value:.4f} at step {step:,}"
            rows.append([name.replace("_", " "), text])
    rows += _times(lines, directory / NEWEST, settings)
    process = holder(directory)
    if process is not None:
        rows.append(["process", f"{process.pid} on {process.host} trains it"])
    elif (directory / LOCK).exists():
        rows.append(["process", "none: the one that trained it was killed; grove train --resume continues"])
    else:
        rows.append(["process", "none trains it"])
    return rows
