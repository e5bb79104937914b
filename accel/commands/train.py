"""`grove train`: from data to a trained model in a run's directory."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from signal import SIGINT
from types import ModuleType
from typing import Any

import accel
from accel.commands.arithmetic import forms_of
from accel.commands.evaluate import evaluate_run, test_data
from accel.commands.opened import check_folder
from accel.commands.processes import COMMUNICATORS, open_group
from accel.commands.resuming import (
    asking_for_moved,
    lengthened,
    note_on_steps,
    plain,
    require_same_contents,
    require_same_options,
    require_same_settings,
    why_ended,
)
from accel.commands.threads import compile_ahead, use_threads
from accel.commands.threads import note as note_on_threads
from accel.data.files.noted import noted
from accel.models.fasttrees.stack import KINDS
from accel.models.unread import unread
from accel.tasks.job import TASKS, Job, n_parameters, plain_setting
from accel.trained.options import typed
from accel.training.checkpoint import read_state
from accel.training.communicator import Communicator, serial
from accel.training.directory import (
    SETTINGS,
    VOCABULARY,
    digest,
    load_settings,
    remove_unfinished,
    require_free,
    save_settings,
    save_tables,
    unchanged_if_refused,
    write_text,
)
from accel.training.lock import locked
from accel.training.loop import train
from accel.training.memory import keep_freed_memory
from accel.training.run import BEST, NEWEST, TrainingError, on_any_rank
from accel.training.settings import SELECTIONS
from accel.training.signals import Stopped, raised

TASK_OF = {
    **dict.fromkeys(("tg", "txl_cc", "txl_terminals"), "trees"), **dict.fromkeys(KINDS, "language_model"),
    **dict.fromkeys(("transformer", "treeformer"), "translation"), "gpt2": "gpst",
}  # fmt: skip
"""The usual task of a model whose name is no task."""
LENGTHS = ("steps", "epochs", "tokens")  # the options for the length of a training
SETTINGS_TOO = ("batch_size", "micro_batch", "seed")  # options that are settings of --set, too, as steps is
SHOWN = ("loss", *(f"validation_{name}" for name in SELECTIONS))  # of the last step, printed at the end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", choices=TASKS, default="trees", help="what is learned; every task has more options")
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY", help="the run's directory")
    parser.add_argument("--resume", action="store_true", help="resume the run; options not given are as at its start")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument(
        "--precision",
        choices=accel.PRECISIONS,
        help="what to round the factors of matrix products to, on a GPU; on a processor with avx512_bf16, bf16 rounds "
        "only hidden states and their weights in recurrences; sums, and all else, stay float32 (default: float32)",
    )
    parser.add_argument(
        "--kernels",
        choices=accel.KERNELS,
        default="plain",
        help="fast, on a GPU: products of cuBLASLt on tensor cores, and all steps of a recurrent layer in one kernel; "
        "faster for most models, not for all (default: plain)",
    )
    parser.add_argument(
        "--graphs",
        action="store_true",
        help="with --kernels fast: capture a GPU's steps, and replay those of one shape by one call each",
    )
    parser.add_argument("--communicator", choices=COMMUNICATORS, help="default: mpi under mpirun or srun, else serial")
    parser.add_argument("--steps", type=int)
    unit = "in rows (tasks of pairs and masked_words: in tokens; span_parser: in words)"
    parser.add_argument("--batch-size", type=int, help=f"the size of a batch, over all processes, {unit}")
    parser.add_argument(
        "--micro-batch",
        type=int,
        metavar="N",
        help=f"cut every batch into parts of this size, {unit}, and add up their gradients: less memory. The memory of "
        "a token is printed before the first update, and the greatest memory of the process at the end",
    )
    parser.add_argument(
        "--recompute",
        action=argparse.BooleanOptionalAction,
        help="compute layers again in the backward pass: less memory, more time, the same gradient",
    )
    parser.add_argument("--seed", type=int)
    parser.add_argument(
        "--set",
        action="append",
        type=plain_setting,
        default=[],
        metavar="NAME=VALUE",
        help="any other setting, such as d_model=96; given twice, the last value counts; help: a list",
    )


def prepare(argv: list[str], parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the task; the defaults of a resumed run are the options of its start."""
    for name, value in pairwise(argv):
        if name == "--task" and value in TASK_OF:
            raise ValueError(f"--task {value}: a model; use --task {TASK_OF[value]} --model {value}")
    early = type(parser)("grove train", add_help=False, allow_abbrev=False)
    early.add_argument("--task", choices=TASKS)
    early.add_argument("--out", type=Path)
    early.add_argument("--resume", action="store_true")
    early.add_argument("--set", action="append", type=plain_setting, default=[])
    early.add_argument("--model")
    for name in (*LENGTHS, *SETTINGS_TOO):
        early.add_argument(typed(name))
    early_options, _ = early.parse_known_args(argv)
    lengths = [name for name in LENGTHS if getattr(early_options, name) is not None]
    if len(lengths) > 1:
        raise ValueError(f"--{lengths[-1]}: --{lengths[0]} sets the length of the training, too; leave one of them out")
    [*_, steps] = ("", *(text.partition("=")[2] for text in early_options.set if text.startswith("steps=")))
    if steps and lengths and steps != early_options.steps:
        value = getattr(early_options, lengths[0])
        raise ValueError(f"--set steps={steps}: differs from --{lengths[0]} {value}: leave out one of them")
    has_out = early_options.resume and early_options.out is not None
    stored_options = _stored(early_options.out) if has_out else {}
    task = stored_options.get("task", "trees") if stored_options else early_options.task or "trees"
    if early_options.task not in (None, task):
        raise ValueError(
            f"--task {early_options.task}: {early_options.out} holds a run of the task {task}: leave out --task"
        )
    import_module(f"accel.tasks.{task}").add_arguments(parser)
    if "help" in early_options.set:
        parser._option_string_actions["--out"].required = False
    if early_options.model is not None:
        _check_model(parser, early_options.model, task)
    overrides = [name for name in SETTINGS_TOO if getattr(early_options, name) is not None]
    overrides += ["steps", "tokens"] if lengths else []
    settings = map(plain_setting, stored_options.get("set", ()))  # an older version stored blanks, too
    settings = [setting for setting in settings if setting.partition("=")[0] not in overrides]
    stored_options = stored_options | {"set": settings} if stored_options else {}
    parser.set_defaults(**{name: value for name, value in stored_options.items() if name not in overrides})


def _check_model(parser: argparse.ArgumentParser, model: str, task: str) -> None:
    """Raise ValueError if this task does not have the model, and others have; the message names them."""
    if model in _models(parser):
        return
    tasks = []
    for name in sorted(TASKS, key=model.__ne__):  # the task of the same name first
        other = argparse.ArgumentParser()
        import_module(f"accel.tasks.{name}").add_arguments(other)
        tasks += [name] * (model in _models(other))
    if tasks:
        use = f"use --task {tasks[0]}" + f", or one of {', '.join(tasks[1:])}" * (len(tasks) > 1)
        raise ValueError(f"--model {model}: is no model of the task {task}: {use}")


def _models(parser: argparse.ArgumentParser) -> Iterable[str]:
    """Return the models of a task."""
    option = parser._option_string_actions.get("--model")
    return () if option is None else option.choices or ()


def run(options: argparse.Namespace) -> int:
    if "help" in options.set:
        options.out = options.out or Path(os.devnull)  # which holds no run
        import_module(f"accel.tasks.{options.task}").build(options, accel.load(options.backend), serial())
    directory: Path = options.out
    check_folder(directory)
    there = next(folder for folder in (directory, *directory.parents) if folder.exists())
    if not there.is_dir():
        raise TrainingError(f"--out {directory}: {there} is a file, not a directory: choose another name")
    require_free(directory, resume=options.resume)
    keep_freed_memory()
    group = open_group(options.communicator)
    ops = accel.load(options.backend)
    if group.rank == 0:
        compile_ahead(ops, options.task, _kind(options))
    try:
        with ExitStack() as stack:
            stack.enter_context(raised())
            if group.rank == 0:
                stack.enter_context(locked(directory))
            on_any_rank(group, ops.xp, False)  # the other ranks wait for the lock
            _train(options, ops, group)
            if group.rank == 0:
                _finish(options, ops)
    except KeyboardInterrupt as stop:
        if isinstance(stop, Stopped) and stop.is_saved:
            raise Stopped(f"{stop}; continue with --resume", stop.number) from None
        is_saved = (directory / NEWEST).exists()
        saved = f"what was saved before is kept in {directory}" if is_saved else "nothing was saved"
        raise Stopped(f"{str(stop) or 'interrupted'}; {saved}", getattr(stop, "number", SIGINT)) from None
    return 0


def _train(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> None:
    """Train the run; an error before the first step leaves the directory as it was."""
    directory: Path = options.out
    with ExitStack() as stack:
        has_begun = stack.enter_context(unchanged_if_refused(directory))
        stored_options = _stored(directory) if options.resume else {}
        require_same_options(directory, stored_options, options)
        with noted() as files, asking_for_moved(directory, stored_options, options):
            job: Job = import_module(f"accel.tasks.{options.task}").build(options, ops, group)
        contents = require_same_contents(directory, stored_options, options, files)
        if hasattr(job.batches, "close"):  # a thread that reads ahead
            stack.callback(job.batches.close)
        note: str | None = None
        more: dict[str, Any] = {}
        if options.resume and (directory / NEWEST).exists():
            different = require_same_settings(directory, stored_options, options, job)
            note = note_on_steps(directory, job.training, different)
            more = lengthened(directory, stored_options, different)
        elif options.resume:
            note = f"{directory}: no checkpoint is there: training starts from step 1"
        threads = use_threads(options, ops, job)
        stack.enter_context(forms_of(options, job))

        def begin() -> None:
            has_begun()
            if group.rank == 0:
                remove_unfinished(directory)
                settings = plain(options) | more | contents | {"threads": threads}
                save_settings(directory, job.reading, settings)  # before all others: see `require_free`
                write_text(directory / VOCABULARY, job.vocabulary.to_json() + "\n")
                save_tables(directory, job.frozen, job.vocabulary)
                lines = [*_description(options, job, group), *note_on_threads(threads), *([note] if note else [])]
                print(*lines, sep="\n", file=sys.stderr)

        last = train(
            ops, job.model, job.config, job.training, job.batches, directory,
            validation=job.validation, measure=job.measure, vocabulary=digest(job.vocabulary), initial=job.initial,
            frozen=job.frozen, communicator=group, resume=options.resume, begin=begin,
            report=None if group.rank else partial(print, file=sys.stderr),
        )  # fmt: skip
    if last and group.rank == 0:
        results = [f"{name.replace('_', ' ')} {last[name]:.4f}" for name in SHOWN if name in last]
        print(f"step {last['step']:,}: {', '.join(results)}", file=sys.stderr)
        if last["step"] < job.training.steps:
            reason, setting = why_ended(read_state(directory / NEWEST)["results"], job.training)
            print(f"ended: {reason} ({setting})", file=sys.stderr)


def _description(options: argparse.Namespace, job: Job, group: Communicator) -> list[str]:
    """Return the lines with which a training begins."""
    processes = f"; {group.size} processes" if group.size > 1 else ""
    first = f"{_kind(options)}: {n_parameters(job):,} parameters; {job.description}{processes}"
    products = "products of hidden states" if options.backend == "cpu" else "matrix products"
    form = f"{products} in {job.training.precision}, {options.kernels} kernels{', graphs' * options.graphs}"
    forms = [form] if (job.training.precision, options.kernels) != ("float32", "plain") else []
    names = dict.fromkeys(setting.partition("=")[0] for setting in options.set)
    of_training = job.training.unread(names, has_validation=job.validation is not None)
    return [first, job.training.summary(), *of_training, *unread(job.config, names), *forms, *job.notes]


def _kind(options: argparse.Namespace) -> str:
    return str(getattr(options, "kind", None) or options.model)


def _finish(options: argparse.Namespace, ops: ModuleType) -> None:
    """Evaluate the best checkpoint if the task has a test, and print the path of the checkpoint to use."""
    directory: Path = options.out
    task = import_module(f"accel.tasks.{options.task}")
    generates = getattr(task, "GENERATES", False)  # its test data, too
    if hasattr(task, "evaluate") and (generates or test_data(vars(options)) is not None):
        evaluate_run(ops, directory)
    print(directory / (BEST if (directory / BEST).exists() else NEWEST))  # a training may end before a validation


def _stored(directory: Path) -> dict[str, Any]:
    """Return the options of a run's start; {} if there is no run."""
    return load_settings(directory)[1] if (directory / SETTINGS).exists() else {}
