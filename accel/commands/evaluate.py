"""`grove evaluate`: the scores of a trained model on the test data of its task."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import accel
from accel.commands.opened import check_out, check_outs, check_unread, figures
from accel.data.files.lines import is_standard
from accel.tasks.numbers import at_least, length_penalty
from accel.trained.kinds import kind_of, with_article
from accel.trained.opening import checkpoint_of, open_model
from accel.trained.options import typed
from accel.training.checkpoint import read_state
from accel.training.directory import load_settings, write_text

RESULTS = "evaluation.json"
WRITING = ("average", "beam", "length_penalty", "extra_length", "top_k", "sync", "write")
"""The options for the outputs that a model writes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="its directory, for its best checkpoint, or a checkpoint in it"
    )
    parser.add_argument("--data", type=Path, help="the test data (default: those of the run's options)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    group = parser.add_argument_group("of tasks whose targets or summaries are written")
    group.add_argument("--write", type=Path, metavar="FILE", help="what the first model writes, one output a line")
    help_text = "the mean of the last K checkpoints alone (default: the best, and the mean of up to eight)"
    group.add_argument("--average", type=at_least(1), metavar="K", help=help_text)
    group.add_argument("--beam", type=at_least(1), help="of an encoder-decoder: unfinished sequences kept (4)")
    help_text = "of an encoder-decoder: exponent of (5 + length) / 6 (0.6)"
    group.add_argument("--length-penalty", type=length_penalty, metavar="A", help=help_text)
    help_text = "of an encoder-decoder: tokens that a target may have more than its source (50)"
    group.add_argument("--extra-length", type=at_least(0), metavar="N", help=help_text)
    help_text = "of a GPST or GPT-2: hypotheses that each word is drawn from (default: as it was trained)"
    group.add_argument("--top-k", type=at_least(1), metavar="K", help=help_text)
    help_text = "of a GPST: draw every action by itself, instead of words with the actions before them"
    group.add_argument("--no-sync", dest="sync", action="store_false", default=None, help=help_text)


def run(options: argparse.Namespace) -> int:
    check_outs(options, "write")
    writing_options = {name: getattr(options, name) for name in WRITING if getattr(options, name) is not None}
    ops, is_printed = accel.load(options.backend), is_standard(options.write)
    with TemporaryDirectory() as folder:
        if is_printed:
            writing_options["write"] = Path(folder) / "outputs"
        with figures(options.write):
            evaluate_run(ops, options.run, options.data, **writing_options)
        if is_printed:
            print(writing_options["write"].read_text(encoding="utf-8"), end="")
    return 0


def evaluate_run(ops: ModuleType, path: Path, data: Path | None = None, **given: Any) -> dict[str, Any]:
    """Print the scores of a run's best model, or of one of its checkpoints, write them beside it, and return them.

    The name of the written file has the options of `WRITING` that are given, except `write`. If the test data are not
    the run's, it also has their name, and the file holds their path.
    """
    read_state(checkpoint_of(path))  # raises an error with the path if it is no run
    directory, results = (path.parent, f"{path.stem}.{RESULTS}") if path.is_file() else (path, RESULTS)
    _, settings = load_settings(directory)
    name = settings.get("task", "trees")
    task = import_module(f"accel.tasks.{name}")
    generates, run_data = getattr(task, "GENERATES", False), test_data(settings)
    is_own = run_data is not None and data is not None and os.path.realpath(run_data) == os.path.realpath(data)
    other = None if is_own else data
    name_parts = ({"data": other.name} if other is not None else {}) | given
    if search := ",".join(f"{name}={value}" for name, value in name_parts.items() if name != "write"):
        results = f"{results.removesuffix('.json')}.{search}.json"
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ValueError(f"{directory}: the scores cannot be written there: copy the run, and evaluate the copy")
    check_out(directory / results, "the scores")
    if other is not None:
        _refuse_other_data(directory / results, other)
    if not hasattr(task, "evaluate"):
        raise ValueError(f"{directory}: the task {name} has no test: see grove perplexity and grove parse --gold")
    data = data or run_data
    if data is None and not generates:
        raise ValueError(f"evaluate: --data is missing: the options of {directory} name no test data")
    test_path = None if data is None else Path(data)
    if (write := given.get("write")) is not None:
        if os.path.realpath(write) == os.path.realpath(directory / results):
            raise ValueError(f"--write {write}: the scores are written there: name another file")
        if test_path is not None and hasattr(task, "tested_files"):
            reads = (Path(str(file)) for file in task.tested_files(test_path, settings))
            check_unread(write, "--write", (test_path, *reads))
    model = open_model(ops, path)
    choices = task.evaluation_options(model) if hasattr(task, "evaluation_options") else ()
    for option in given:
        if option not in choices:
            use = f"; use {', '.join(typed(name) for name in choices)}" if choices else ""
            raise ValueError(f"{typed(option)}: is not for {with_article(kind_of(model))} of the task {name}{use}")
    scores: dict[str, Any] = task.evaluate(ops, model, test_path, settings, **given)
    content = scores if other is None else {"data": os.path.realpath(other)} | scores
    write_text(directory / results, json.dumps(content, indent=2) + "\n")
    lines = {
        f"{name} {key}".rstrip(): number
        for name, value in scores.items()
        for key, number in (value.items() if isinstance(value, dict) else [("", value)])
    }
    width = max(16, *(len(name) + 1 for name in lines))
    for name, number in lines.items():
        print(name.ljust(width) + (f"{number:.4f}" if isinstance(number, float) else str(number)))
    return scores


def read_results(path: Path) -> dict[str, Any]:
    """Return the scores in a file that `grove evaluate` wrote."""
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        scores = None
    if not isinstance(scores, dict):
        raise ValueError(f"{path}: not the scores of a run: remove it, and run grove evaluate {path.parent} again")
    return scores


def _refuse_other_data(results: Path, data: Path) -> None:
    """Raise ValueError if `results` holds the scores on a file of the same name in another folder."""
    other = read_results(results).get("data") if results.exists() else None
    if other not in (None, os.path.realpath(data)):
        raise ValueError(f"--data {data}: {results} has the scores on {other}: rename one of these two files")


def test_data(settings: Mapping[str, Any]) -> Path | None:
    """Return the path of a run's test data: its --test, or its --data if the task has no --test.

    Returns None if the options name no test data, or the folder --data has no test files.
    """
    if settings.get("test_stem", "") is None:
        return None
    path: Path | None = settings["test"] if "test" in settings else settings["data"]
    return path
