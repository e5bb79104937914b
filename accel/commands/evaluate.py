"""`grove evaluate`: the scores of a trained model on the test data of its task."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.trained.opening import open_model
from accel.training.directory import load_settings, write_text

RESULTS = "evaluation.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="its directory, for its best checkpoint, or a checkpoint in it"
    )
    parser.add_argument("--data", type=Path, help="the test data (default: those of the run's options)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    evaluate_run(accel.load(options.backend), options.run, options.data)
    return 0


def evaluate_run(ops: ModuleType, path: Path, data: Path | None = None) -> dict[str, Any]:
    """Print the scores of a run's best model, or of one of its checkpoints, write them beside it, and return them."""
    directory, results = (path.parent, f"{path.stem}.{RESULTS}") if path.is_file() else (path, RESULTS)
    _, settings = load_settings(directory)
    name = settings.get("task", "trees")
    task = import_module(f"accel.tasks.{name}")
    if not hasattr(task, "evaluate"):
        raise ValueError(f"{directory}: the task {name} has no test: see grove perplexity and grove parse --gold")
    data = data or test_data(settings)
    if data is None and not getattr(task, "GENERATES", False):
        raise ValueError(f"evaluate: --data is missing: the options of {directory} name no test data")
    test_path = None if data is None else Path(data)
    scores: dict[str, Any] = task.evaluate(ops, open_model(ops, path), test_path, settings)
    write_text(directory / results, json.dumps(scores, indent=2) + "\n")
    lines = {
        f"{name} {key}".rstrip(): number
        for name, value in scores.items()
        for key, number in (value.items() if isinstance(value, dict) else [("", value)])
    }
    width = max(16, *(len(name) + 1 for name in lines))
    for name, number in lines.items():
        print(name.ljust(width) + (f"{number:.4f}" if isinstance(number, float) else str(number)))
    return scores


def test_data(settings: Mapping[str, Any]) -> Path | None:
    """Return the path of a run's test data: its --test, or its --data if the task has no --test.

    None: the options name none, or the folder --data has no test files.
    """
    if settings.get("test_stem", "") is None:
        return None
    path: Path | None = settings["test"] if "test" in settings else settings["data"]
    return path
