"""The tasks by name, the job that each builds, and the options that change its configuration.

Every task has `add_arguments(parser)`, which adds its options, and `build(options, ops, group)`, which returns the job.
A task with results beyond a loss has `evaluate(ops, model, data, settings)`, which returns them for a trained model as
JSON can hold them; `settings` are the options of the training. A task with `GENERATES = True` needs no test file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.data.vocabularies.words import Words
from accel.training.loop import Batches
from accel.training.settings import TrainingConfig

TASKS = (
    "trees", "language_model", "logic", "sentiment", "inference", "agreement", "arithmetic", "translation", "cogs",
    "scan", "acceptability", "cognition", "summarisation", "gpst", "span_parser",
)  # fmt: skip
_TRUTHS = {"true": True, "false": False}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": _TRUTHS.__getitem__,
    "float | None": lambda text: None if text == "none" else float(text),
}


@dataclass(frozen=True)
class Job:
    """A model, its training and its data."""

    model: ModuleType  # of accel.models
    config: Any
    training: TrainingConfig
    vocabulary: Vocabulary | Words
    batches: Batches
    validation: Callable[[], Iterable[Any]] | None
    description: str  # of the data, for people
    reading: Reading | None = None  # how trees are read
    initial: dict[str, Any] | None = None  # parameters that do not start at random, as word vectors


def n_parameters(job: Job) -> int:
    """Return the number of trained parameters of a model."""
    return sum(prod(shape) for shape in job.model.parameter_shapes(job.config).values())


def require_data(options: argparse.Namespace) -> None:
    """Raise ValueError if the options name no data."""
    if options.data is None:
        raise ValueError("train: --data is missing" + (f": {options.out} holds no run yet" if options.resume else ""))


def add_files(parser: argparse.ArgumentParser, metavar: str, content: str) -> None:
    """Add the options that name the training, the validation and the test file."""
    parser.add_argument("--data", type=Path, metavar=metavar, help=f"training {content}; may be .gz or .xz")
    parser.add_argument("--validation", type=Path, metavar=metavar, help="to choose the best checkpoint by")
    parser.add_argument("--test", type=Path, metavar=metavar, help="to evaluate the best checkpoint on")


def configured(
    config: Any, training: TrainingConfig, options: argparse.Namespace, from_data: tuple[str, ...]
) -> tuple[Any, TrainingConfig]:
    """Return both with the changes that the options ask for; settings of `from_data` cannot be changed."""
    classes = (type(config), TrainingConfig)
    types = {f.name: str(f.type) for cls in classes for f in fields(cls) if f.name not in from_data}
    values = {name: getattr(options, name) for name in types if getattr(options, name, None) is not None}
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals or name not in types:
            raise ValueError(f"--set {setting}: give NAME=VALUE with one of the names {', '.join(sorted(types))}")
        try:
            values[name] = _PARSERS[types[name]](text)
        except (KeyError, ValueError) as error:
            raise ValueError(f"--set {setting}: {text!r} is no {types[name]}") from error
    model_settings = {f.name for f in fields(type(config))}
    return (
        replace(config, **{name: value for name, value in values.items() if name in model_settings}),
        replace(training, **{name: value for name, value in values.items() if name not in model_settings}),
    )


def configured_in_epochs(
    config: Any,
    training: TrainingConfig,
    options: argparse.Namespace,
    from_data: tuple[str, ...],
    epochs: int,
    n_batches: Callable[[TrainingConfig], int],
) -> tuple[Any, TrainingConfig]:
    """Return both as `configured` does; by default training has so many epochs of `n_batches(training)` steps each,
    and a validation after each epoch."""
    _, first = configured(config, training, options, from_data)
    steps = n_batches(first)
    return configured(config, replace(first, steps=steps * epochs, validate_every=steps), options, from_data)
