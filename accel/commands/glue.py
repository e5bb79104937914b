"""`grove glue`: the table of GLUE from runs of `grove train --task glue`, with means over seeds and the average.

The figures are those in the run's `evaluation.json`, on the development files. Runs with the same name on the same set
are seeds of one model: their mean is shown, and their standard deviation below it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from accel.commands.evaluate import RESULTS, read_results
from accel.commands.opened import check_outs, figures, named, write_out
from accel.commands.tables import print_table
from accel.data.published.glue import SETS
from accel.evaluation.glue import TABLES, Cell, Column, Table, average, cell
from accel.trained.kinds import kind_of
from accel.trained.opening import Model, checkpoint_of, configuration
from accel.training.checkpoint import read_state
from accel.training.directory import load_settings

_OF_THE_SET = ("vocabulary_size", "n_classes")  # a model's sizes that differ from set to set


class _Run(NamedTuple):
    """A trained model on one set."""

    directory: Path
    title: str
    name: str
    start: tuple[int, str | None]  # its seed, and the pre-trained model that it started from
    sizes: dict[str, Any]
    evaluation: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "runs of grove train --task glue; several of one NAME (default: the kind of model) on a set are seeds"
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN", help=help_text)
    help_text = "gpst: Table 1 of its paper (gpst); treeformer: Table 3 of its paper; glue: every figure"
    parser.add_argument("--table", choices=tuple(TABLES), default="gpst", help=help_text)
    parser.add_argument("--out", type=Path, metavar="JSON", help="write the table, run by run, to a file")


def run(options: argparse.Namespace) -> int:
    check_outs(options, "out", reads=(Path(named(text)[1]) / RESULTS for text in options.runs))
    runs = [_open(text) for text in options.runs]
    for number, one in enumerate(runs):
        for other in runs[:number]:
            _check_pair(one, other)
    table = TABLES[options.table]
    titles = dict.fromkeys(one.title for one in runs)
    rows = {title: _row(table, [one for one in runs if one.title == title]) for title in titles}
    shared = [column for column in table.columns if all(column in row for row in rows.values())]
    sets = [column.name for column in shared] if table.by_set else None
    averages = {
        title: average([row[column].mean for column in shared], sets) if shared else None for title, row in rows.items()
    }
    if options.out is not None:
        write_out(options.out, json.dumps(_content(options.table, table, runs, rows, averages), indent=1) + "\n")
    with figures(options.out):
        _print(table, rows, averages)
        _print_notes(table, runs, shared)
    return 0


def _open(text: str) -> _Run:
    """Read a run from its directory: its names, its start, its sizes and its evaluation."""
    title, path = named(text)
    directory, checkpoint = Path(path), checkpoint_of(Path(path))
    _, settings = load_settings(directory)
    task = settings.get("task", "trees")
    if task != "glue":
        raise ValueError(f"{directory}: holds a run of the task {task}, not of glue; use grove evaluate")
    results = directory / RESULTS
    if not results.is_file():
        raise ValueError(f"{directory}: has no {RESULTS}; use grove evaluate {directory}")
    state = read_state(checkpoint)
    module, config = configuration(checkpoint, state)
    kind = kind_of(Model(checkpoint, config, {}, None, None, module))
    sizes = {name: value for name, value in asdict(config).items() if name not in (*_OF_THE_SET, "kind")}
    return _Run(
        directory,
        title or kind,
        settings["name"],
        (state["training"]["seed"], settings["checkpoint"] and str(settings["checkpoint"])),
        {"kind": kind} | sizes,
        read_results(results),
    )


def _check_pair(one: _Run, other: _Run) -> None:
    """Raise ValueError if two runs have the same directory, or the same name but cannot be seeds of one model."""
    if one.directory.resolve() == other.directory.resolve():
        raise ValueError(f"{one.directory}: given twice; seeds of a model are different runs")
    if one.title != other.title:
        return
    use = f"use NAME={one.directory} with another name"
    names = [name for name in one.sizes if one.sizes[name] != other.sizes.get(name)]
    if names:
        differ = f"{names[0]} is {one.sizes[names[0]]}, and {other.sizes[names[0]]} in {other.directory}"
        raise ValueError(f"{one.directory}: {one.title}: {differ}; {use}")
    if (one.name, one.start) == (other.name, other.start):
        what = f"{one.title} on {SETS[one.name].folder} with seed {one.start[0]}"
        raise ValueError(f"{one.directory}: {what}, as {other.directory}; {use}, or train with another --seed")


def _row(table: Table, runs: Sequence[_Run]) -> dict[Column, Cell]:
    """Return the cells of a model by column; a column is missing if the model has no run on its set."""
    figures_of = {column: [_figure(column, one) for one in runs if one.name == column.name] for column in table.columns}
    return {column: cell(values) for column, values in figures_of.items() if values}


def _figure(column: Column, run: _Run) -> float:
    """Return the figure of a column from the evaluation of a run on its set."""
    try:
        value = run.evaluation[column.metric]
        return float(value[column.part] if column.part else value)
    except (KeyError, TypeError, ValueError) as error:
        path = run.directory / RESULTS
        raise ValueError(f"{path}: has no {column.metric}: run grove evaluate {run.directory} again") from error


def _print(table: Table, rows: dict[str, dict[Column, Cell]], averages: dict[str, float | None]) -> None:
    lines = [["", "seeds", *(column.head for column in table.columns), "average"]]
    for title, row in rows.items():
        counts = sorted({x.seeds for x in row.values()})
        cells = [row.get(column) for column in table.columns]
        seeds = "-".join(str(n) for n in sorted({*counts[:1], *counts[-1:]}))
        lines.append([title, seeds or "-", *(_shown(x and x.mean) for x in cells), _shown(averages[title])])
        if any(x and x.deviation is not None for x in cells):
            lines.append(["  deviation", "", *(_shown(x.deviation) if x else "-" for x in cells), ""])
    print_table(lines, n_names=1)


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def _print_notes(table: Table, runs: Sequence[_Run], shared: Sequence[Column]) -> None:
    """Print over which columns the averages are, if not over all, and the runs that the table leaves out."""
    if len(shared) < len(table.columns):
        heads = ", ".join(column.head for column in shared) or "none"
        print(f"\naverage: of {len(shared)} of {len(table.columns)} columns, those that every row has: {heads}")
    for one in runs:
        if one.name not in {column.name for column in table.columns}:
            print(f"{one.directory}: {SETS[one.name].folder} is no column of this table; --table glue has all")


def _content(
    name: str, table: Table, runs: Sequence[_Run], rows: dict[str, dict[Column, Cell]],
    averages: dict[str, float | None],
) -> dict[str, Any]:  # fmt: skip
    """Return the content of --out: the means, deviations and averages of every row, and its runs."""
    return {
        "table": name,
        "rows": {
            title: {
                "cells": {column.head: row[column]._asdict() for column in table.columns if column in row},
                "average": averages[title],
                "runs": [
                    {"run": str(one.directory), "set": one.name, "seed": one.start[0], **one.evaluation}
                    for one in runs
                    if one.title == title
                ],
            }
            for title, row in rows.items()
        },
    }
