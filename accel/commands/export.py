"""`grove export`: a trained model as a self-contained folder, in the layout of model hubs, with a model card.

`trained.open` and every command with --checkpoint take such a folder. The exported model gives the same scores as the
run, bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import accel
from accel.commands import train
from accel.commands.evaluate import RESULTS, read_results
from accel.commands.opened import check_folder
from accel.trained.exporting import CARD, export, state_of
from accel.trained.kinds import kind_of
from accel.trained.opening import Model, checkpoint_of, open_model
from accel.trained.options import OptionError
from accel.training.directory import EXPORTED, load_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a checkpoint in it")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder to write; it must not exist")
    parser.add_argument(
        "--license", default="unknown", metavar="NAME", help="of the weights, as hubs name it: mit, cc-by-4.0 (unknown)"
    )


def run(options: argparse.Namespace) -> int:
    check_folder(options.folder, "DIR")
    if not re.fullmatch(r"[A-Za-z0-9.+-]+", options.license):
        raise OptionError("license", "a name as hubs have them is needed: mit, cc-by-4.0, other", repr(options.license))
    path = checkpoint_of(options.run)
    if path.name == EXPORTED and path.with_name(CARD).exists():
        raise ValueError(f"{path.parent}: is an export already: copy this folder, and edit its card, {CARD}")
    model = open_model(accel.load("cpu"), path)
    _, settings = load_settings(model.path.parent)
    task = import_module(f"accel.tasks.{settings.get('task', 'trees')}")
    if hasattr(task, "exported_options"):
        settings = task.exported_options(settings)
    export(model, options.folder, card_of(model, options.folder.name, options.license), settings)
    print(options.folder)
    return 0


def card_of(model: Model, name: str, license_name: str) -> str:
    """Return the model card: what the model is, its figures, its data, its command and its licence."""
    _, settings = load_settings(model.path.parent)
    kind = kind_of(model)
    figures = "".join(f"| {key} | {value} |\n" for key, value in _figures(model))
    data = "".join(f"- {line}\n" for line in _data(settings)) or "The run names no data.\n"
    is_trained = "set" in settings
    command = shlex.join(command_of(settings)) if is_trained else "grove import"
    licence = "None is stated." if license_name == "unknown" else f"{license_name}."
    return f"""---
library_name: grove-lm
license: {license_name}
tags:
- grove
- {kind.replace(" ", "-")}
---

# {name}

A model of the kind `{kind}`, {"trained" if is_trained else "imported"} with grove-lm {accel.__version__}.

```python
from accel import trained

model = trained.open("{name}")
```

## Figures

| what | value |
|---|---|
{figures}
## Data

{data}
## Training

```
{command}
```
{_lengthened(settings)}
## Licence

Of the weights: {licence} The data have licences of their own.
"""


def _figures(model: Model) -> Iterator[tuple[str, str]]:
    """Yield names and values: sizes, steps, validation, and the results of `grove evaluate`."""
    shapes = model.module.parameter_shapes(model.config)  # without tables of word vectors, which are not learned
    yield "parameters", f"{sum(map(prod, shapes.values())):,}"
    yield "vocabulary", f"{len(model.vocabulary):,}"
    state = state_of(model)
    if state.get("step"):  # imported weights have 0
        yield "steps", f"{state['step']:,}"
    if "averaged_steps" in state:
        yield "mean of the checkpoints at steps", ", ".join(f"{step:,}" for step in state["averaged_steps"])
    for key, value in state.items():
        if key.startswith("validation_"):
            yield key.replace("_", " "), f"{value:.4f}"
    of_run, of_file = model.path.parent / RESULTS, model.path.with_name(f"{model.path.stem}.{RESULTS}")
    path = of_run if model.path == checkpoint_of(model.path.parent) and not of_file.exists() else of_file
    results = read_results(path) if path.exists() else {}
    for key, value in results.items():
        for part, number in value.items() if isinstance(value, dict) else [("", value)]:
            yield f"test {key} {part}".rstrip(), f"{number:.4f}" if isinstance(number, float) else str(number)


def _data(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for every file and folder that the options name: its option, its name, its size and its digest."""
    values = ((name, x) for name, value in settings.items() for x in (value if isinstance(value, list) else [value]))
    for option, value in values:
        if not isinstance(value, str) or not Path(value).is_absolute():
            continue
        path = Path(value)
        if path.is_file():
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield f"`{option}`: {path.name}, {path.stat().st_size:,} bytes, SHA-256 {digest}"
        else:
            yield f"`{option}`: {path.name}" + ("/" if path.is_dir() else ", no longer there at the export")


def _lengthened(settings: Mapping[str, Any]) -> str:
    """Return the card's text on changes of the number of steps, which the command does not show; "" without changes."""
    parts = [f"until step {step:,} it was {steps:,}" for step, steps in settings.get("lengthened", [])]
    if not parts:
        return ""
    but = "The command makes all steps in one run, so that its learning rates may be others."
    return f"\nThe number of steps was changed: {', '.join(parts)}. {but}\n"


def command_of(settings: Mapping[str, Any]) -> list[str]:
    """Return the command that trains such a model: options that differ from their defaults, files without folders."""
    task, parser = settings.get("task", "trees"), argparse.ArgumentParser()
    train.add_arguments(parser)
    import_module(f"accel.tasks.{task}").add_arguments(parser)
    parts = ["grove", "train", "--task", task, "--out", "RUN"]
    for action in parser._actions:
        value = settings.get(action.dest, action.default)
        if action.dest == "task" or value is None or value == action.default:
            continue
        option = action.option_strings[-1 if value is False else 0]
        if isinstance(value, bool):
            parts.append(option)
            continue
        if action.nargs is None and isinstance(value, list) and not isinstance(action, argparse._AppendAction):
            value = ",".join(map(str, value))  # --fields document,summary
        for item in value if isinstance(value, list) else [value]:
            text = str(item)
            parts += [option] if option not in parts or action.nargs is None else []
            parts.append(Path(text).name if Path(text).is_absolute() else text)
    return parts
