"""What the commands that use trained models have in common: which models, on which backend, and how trees are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar

from tqdm import tqdm

import accel
from accel.data.corpora.treebank import Reading
from accel.models.transformer_grammars import model as transformer_grammar
from accel.scoring.text import require_language_model
from accel.scoring.trees import ENSEMBLES, check_ensemble
from accel.trained.opening import Model, open_model
from accel.training.directory import load_settings

T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """The models of a command, ready to be used."""

    ops: ModuleType
    models: list[Model]
    reading: Reading
    scoring: dict[str, Any]  # options of `accel.scoring.trees.event_logps`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        action="append",
        required=True,
        metavar="PATH",
        help="a run's directory or a checkpoint in it; repeat it for an ensemble",
    )
    parser.add_argument("--ensemble", choices=ENSEMBLES, default="mixture", help="what several models make together")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=int, default=64, help="how many trees are read side by side")
    add_reading(parser, default=None, otherwise="as the model was trained")


def add_reading(parser: argparse.ArgumentParser, default: bool | None, otherwise: str) -> None:
    """Add the options that say what of a tree goes when it is read."""
    for name, what in (
        ("--drop-traces", "drop (-NONE- ...) and what is empty without"),
        ("--drop-function-tags", "cut labels as NP-SBJ to NP"),
        ("--keep-tags", "take the trees as they are; else part-of-speech tags are dropped, which every word must have"),
    ):
        parser.add_argument(
            name, action=argparse.BooleanOptionalAction, default=default, help=f"{what} (default: {otherwise})"
        )


def changed(reading: Reading, options: argparse.Namespace) -> Reading:
    """Return the reading with what the options change of it."""
    keep = options.keep_tags
    chosen = {
        "drop_traces": options.drop_traces,
        "drop_function_tags": options.drop_function_tags,
        "drop_preterminals": None if keep is None else not keep,
    }
    return replace(reading, **{name: value for name, value in chosen.items() if value is not None})


def open_models(options: argparse.Namespace) -> Opened:
    """Load the models that the options name."""
    ops = accel.load(options.backend)
    models = [open_model(ops, path) for path in options.checkpoint]
    for model in models:
        if model.module is not transformer_grammar or model.reading is None:
            raise ValueError(f"{model.path}: holds a {name_of(model)}, not a model of trees")
    check_ensemble(models, options.ensemble)
    for model in models[1:]:
        if model.reading != models[0].reading:
            raise ValueError(f"{model.path}: reads trees in another way than {models[0].path}")
    scoring = {"ensemble": options.ensemble, "batch_size": options.batch_size}
    return Opened(ops, models, changed(models[0].reading, options), scoring)


def open_language_model(options: argparse.Namespace) -> tuple[ModuleType, Model]:
    """Load the one language model of words that the options name."""
    if len(options.checkpoint) > 1:
        raise ValueError("--checkpoint: language models of words make no ensemble: give one")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint[0])
    require_language_model(model)
    return ops, model


def add_max_height(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how high a chart is."""
    parser.add_argument(
        "--max-height",
        type=_height,
        metavar="N",
        help="tokens of the longest phrase of a chart, which no sentence may exceed; none: no limit (default)",
    )


def _height(text: str) -> int | None:
    """Return what --max-height says."""
    return None if text == "none" else int(text)


def line_reader(model: Model) -> Callable[[str], list[str]]:
    """Return what makes words of a line: they stand between blanks, or are characters where arithmetic was learned."""
    _, settings = load_settings(model.path.parent)
    return (lambda line: list(line.strip())) if settings.get("task") == "arithmetic" else str.split


def name_of(model: Model) -> str:
    """Return what kind of model this is."""
    return model.module.NAME


def progress(found: Iterable[T], count: int) -> Iterable[T]:
    """Show on a terminal how many trees are scored or found."""
    return tqdm(found, total=count, unit="tree", disable=None, leave=False)
