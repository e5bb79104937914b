"""The result files of `examples.queue` in the repository: copy them there, and find the runs that lack one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from examples.queue_commands import Run
from examples.queue_state import best, f1_of, of
from examples.task_results import store


def collect(folder: Path, queued: Sequence[Run], collected: Path, *, copy: bool, of_tasks: bool) -> None:
    """Copy the results, and write those of one model and task in the form of `examples.task_results`."""
    paths = sorted(folder.glob("results/*.json"))
    if not paths:
        raise SystemExit(f"{folder}: holds no result of a run: give the --folder of a queue")
    collected.mkdir(parents=True, exist_ok=True)
    runs = {of(folder, "results", run): run for run in queued}
    for path in paths:
        if copy:
            shutil.copy(path, collected / path.name)
        if of_tasks and (run := runs.get(path)):
            of_task = {"task": run.task, "model": run.model, "commands": list(run.commands)}  # older results lack these
            store(of_task | json.loads(path.read_text(encoding="utf-8")), collected.parent)


def missing(folder: Path, queued: Sequence[Run], collected: Path) -> tuple[Run, ...]:
    """Return the runs that have no collected result, and the runs that they need whose result is not in the folder.

    Some runs use only the best of the runs that they need. Such a run gets the best one among the collected results,
    and does not wait for runs without a result. If a better result is collected later, later runs get that one.
    """
    queued = of_best(queued, collected)
    of_name = {run.name: run for run in queued}
    results = {run.name: collected / of(folder, "results", run).name for run in queued}
    to_make = {name for name, path in results.items() if not path.exists()}
    waiting = list(to_make)
    while waiting:
        run = of_name[waiting.pop()]
        again = {name for name in run.needs if not of(folder, "results", name).exists()}
        waiting += again - to_make
        to_make |= again
    here = {run.name for run in queued if of(folder, "results", run).exists()}
    runs = [run for run in queued if run.name in to_make | here]
    return tuple(replace(run, needs=tuple(name for name in run.needs if name in to_make | here)) for run in runs)


def of_best(queued: Sequence[Run], collected: Path) -> tuple[Run, ...]:
    """Return the runs; those that use the best of several runs need only the best one with a collected result."""
    return tuple(_with_best(run, {other.name: other.table for other in queued}, collected) for run in queued)


def _with_best(run: Run, tables: Mapping[str, str], collection: Path) -> Run:
    chosen_from = {name for name in run.needs if f1_of(collection, name) is not None}
    if not chosen_from or not any("{best}" in command for command in run.commands):
        return run
    winner = best(collection, chosen_from)
    return replace(run, needs=tuple(name for name in run.needs if name == winner or tables[name] != tables[winner]))
