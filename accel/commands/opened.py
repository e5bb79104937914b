"""What the commands that use trained models have in common: which models, on which backend, and their progress."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from tqdm import tqdm

import accel
from accel.data.corpora.treebank import Reading
from accel.scoring.trees import ENSEMBLES, check_ensemble
from accel.tasks.reading import add_reading, changed
from accel.trained.kinds import TEXT_LOGPS, TREE_LOGPS, require
from accel.trained.opening import Model, open_model

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


def open_models(options: argparse.Namespace) -> Opened:
    """Load the models that the options name."""
    ops = accel.load(options.backend)
    models = [open_model(ops, path) for path in options.checkpoint]
    for model in models:
        require(model, TREE_LOGPS)
    check_ensemble(models, options.ensemble)
    for model in models[1:]:
        if model.reading != models[0].reading:
            raise ValueError(f"{model.path}: reads trees in another way than {models[0].path}")
    scoring = {"ensemble": options.ensemble, "batch_size": options.batch_size}
    return Opened(ops, models, changed(models[0].reading or Reading(), options), scoring)


def open_language_model(options: argparse.Namespace) -> tuple[ModuleType, Model]:
    """Load the one language model of words that the options name."""
    if len(options.checkpoint) > 1:
        raise ValueError("--checkpoint: language models of words make no ensemble: give one")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint[0])
    require(model, TEXT_LOGPS)
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


def progress(results: Iterable[T], count: int) -> Iterable[T]:
    """Show on a terminal for how many trees there are results."""
    return tqdm(results, total=count, unit="tree", disable=None, leave=False)
