"""`grove train`: from data to a trained model in a run's directory."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import accel
from accel.commands.evaluate import evaluate_run, test_data
from accel.commands.processes import COMMUNICATORS, open_group
from accel.tasks.job import TASKS, n_parameters
from accel.training.directory import SETTINGS, VOCABULARY, digest, load_settings, save_settings, write_text
from accel.training.loop import TrainingError, train
from accel.training.memory import keep_freed_memory
from accel.training.run import BEST, METRICS, NEWEST


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", choices=TASKS, default="trees", help="what is learned; every task has more options")
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY", help="the run's directory")
    parser.add_argument("--resume", action="store_true", help="resume the run; options not given are as at its start")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--communicator", choices=COMMUNICATORS, help="default: mpi under mpirun, else serial")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch-size", type=int, help="rows of the batch (of pairs: tokens), of all processes")
    parser.add_argument("--seed", type=int)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting, such as d_model=96; help: a list",
    )


def prepare(argv: list[str], parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the task; the defaults of a resumed run are the options of its start."""
    early = type(parser)("grove train", add_help=False, allow_abbrev=False)
    early.add_argument("--task", choices=TASKS)
    early.add_argument("--out", type=Path)
    early.add_argument("--resume", action="store_true")
    early_options, _ = early.parse_known_args(argv)
    stored: dict[str, Any] = {}
    if early_options.resume and early_options.out is not None and (early_options.out / SETTINGS).exists():
        _, stored = load_settings(early_options.out)
    task = stored.get("task", "trees") if stored else early_options.task or "trees"
    if early_options.task not in (None, task):
        raise ValueError(f"--task {early_options.task}: {early_options.out} holds a run of the task {task}")
    import_module(f"accel.tasks.{task}").add_arguments(parser)
    parser.set_defaults(**stored)


def run(options: argparse.Namespace) -> int:
    directory: Path = options.out
    if not options.resume and any((directory / name).exists() for name in (METRICS, NEWEST)):
        raise TrainingError(f"{directory}: holds a run already: resume it, or choose another directory")
    keep_freed_memory()
    group = open_group(options.communicator)
    ops = accel.load(options.backend)
    task = import_module(f"accel.tasks.{options.task}")
    job = task.build(options, ops, group)
    directory.mkdir(parents=True, exist_ok=True)
    if group.rank == 0:
        write_text(directory / VOCABULARY, job.vocabulary.to_json() + "\n")
        save_settings(directory, job.reading, _plain(options))
        processes = f"; {group.size} processes" if group.size > 1 else ""
        name = getattr(options, "kind", None) or options.model
        print(f"{name}: {n_parameters(job):,} parameters; {job.description}{processes}", file=sys.stderr)
        print(f"{job.training.summary()}", *job.notes, sep="\n", file=sys.stderr)
    with ExitStack() as stack:
        if hasattr(job.batches, "close"):  # a thread that reads ahead
            stack.callback(job.batches.close)
        train(
            ops,
            job.model,
            job.config,
            job.training,
            job.batches,
            directory,
            validation=job.validation,
            vocabulary=digest(job.vocabulary),
            initial=job.initial,
            communicator=group,
            resume=options.resume,
        )
    if group.rank == 0:
        generates = getattr(task, "GENERATES", False)  # also its test data
        if hasattr(task, "evaluate") and (generates or test_data(vars(options)) is not None):
            evaluate_run(ops, directory)
        print(directory / (NEWEST if job.validation is None else BEST))
    return 0


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options as JSON can hold them, without those of this process only."""
    of_process = ("out", "resume", "backend", "communicator", "threads", "traceback")
    of_run = {name: value for name, value in vars(options).items() if name not in of_process}
    return {name: str(value.resolve()) if isinstance(value, Path) else value for name, value in of_run.items()}
