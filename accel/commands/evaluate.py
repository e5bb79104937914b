"""`grove evaluate`: what a trained model reaches on the test data of its task."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.saved import load_model, load_settings, write_text

RESULTS = "evaluation.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="DIRECTORY", help="of a run; its best checkpoint is taken")
    parser.add_argument("--data", type=Path, help="where the test data lie (default: where the training data lay)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    evaluate_run(accel.load(options.backend), options.run, options.data)
    return 0


def evaluate_run(ops: ModuleType, directory: Path, data: Path | None = None) -> dict[str, Any]:
    """Print what the best model of a run reaches, write it beside the run, and return it."""
    _, settings = load_settings(directory)
    task = import_module(f"accel.tasks.{settings.get('task', 'trees')}")
    if not hasattr(task, "evaluate"):
        raise ValueError(f"{directory}: the task {settings.get('task', 'trees')} has no test of its own")
    stored = settings.get("data")  # a task that generates its data has none
    data = data or (None if stored is None else Path(stored))
    found: dict[str, Any] = task.evaluate(ops, load_model(ops, directory), data)
    write_text(directory / RESULTS, json.dumps(found, indent=2) + "\n")
    for name, value in found.items():
        for key, number in value.items() if isinstance(value, dict) else [("", value)]:
            print(f"{name} {key}".rstrip().ljust(16) + f"{number:.4f}")
    return found
