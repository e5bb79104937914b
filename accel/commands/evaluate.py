"""`grove evaluate`: what a trained model reaches on the test data of its task."""

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
        "run", type=Path, metavar="RUN", help="its directory, whose best checkpoint is taken, or a checkpoint in it"
    )
    parser.add_argument("--data", type=Path, help="where the test data lie (default: as the run was told)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    evaluate_run(accel.load(options.backend), options.run, options.data)
    return 0


def evaluate_run(ops: ModuleType, path: Path, data: Path | None = None) -> dict[str, Any]:
    """Print what the best model of a run reaches, or that of one of its checkpoints, write it beside, and return it."""
    directory, results = (path.parent, f"{path.stem}.{RESULTS}") if path.is_file() else (path, RESULTS)
    _, settings = load_settings(directory)
    name = settings.get("task", "trees")
    task = import_module(f"accel.tasks.{name}")
    if not hasattr(task, "evaluate"):
        raise ValueError(f"{directory}: the task {name} has no test of its own")
    data = data or test_data(settings)
    if data is None and not getattr(task, "GENERATES", False):
        raise ValueError(f"evaluate: --data is missing: {directory} was told of no test data")
    where = None if data is None else Path(data)
    reached: dict[str, Any] = task.evaluate(ops, open_model(ops, path), where, settings)
    write_text(directory / results, json.dumps(reached, indent=2) + "\n")
    lines = {
        f"{name} {key}".rstrip(): number
        for name, value in reached.items()
        for key, number in (value.items() if isinstance(value, dict) else [("", value)])
    }
    width = max(16, *(len(name) + 1 for name in lines))
    for name, number in lines.items():
        print(name.ljust(width) + (f"{number:.4f}" if isinstance(number, float) else str(number)))
    return reached


def test_data(settings: Mapping[str, Any]) -> Path | None:
    """Return where the test data of a run lie: what its --test says, or where it has none its --data."""
    path: Path | None = settings["test"] if "test" in settings else settings["data"]
    return path
