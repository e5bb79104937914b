"""A run of `examples.queue`, and the words of its commands.

A command is a module and its arguments. {data} is the folder of published data, {runs} the folder of all runs, {run}
that of this run, and {best} that of the run with the highest F1 among those that this one needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Run:
    """The commands of one run; each can be repeated, and resumes."""

    name: str  # also its folder among the runs
    table: str
    hours: float  # estimated
    commands: tuple[str, ...]
    data: tuple[str, ...] = ()  # files and folders whose digests the result names
    needs: tuple[str, ...] = ()  # runs whose files it reads
    seed: int = 0
    figures: tuple[str, ...] = ("{run}/*evaluation.json",)  # files of the runs' folder that the result holds
    task: str = ""  # of a run of one model: its table in RESULTS.md
    model: str = ""
    after: tuple[str, ...] = ()  # runs that write the same files: they come first if they are made at all


def settings(**values: object) -> str:
    return " ".join(f"--set {name}={value}" for name, value in values.items())


def train(words: str) -> tuple[str, ...]:
    return (f"accel.cli train --resume --out {{run}} {words}",)


def of_trees(kind: str) -> tuple[str, ...]:
    return tuple(f"{{runs}}/treebanks/{kind}/{split}.trees" for split in ("train", "valid", "test"))


def trees(kind: str) -> str:
    train_file, validation_file, _ = of_trees(kind)
    return f"--data {train_file} --validation {validation_file}"


def of_text(folder: str, name: str) -> tuple[str, ...]:
    """Return the files of a text for training, validation and test."""
    return tuple(f"{{data}}/{folder}/{name.format(split)}.txt.xz" for split in ("train", "valid", "test"))


def options_of(files: Sequence[str]) -> str:
    return " ".join(f"--{name} {path}" for name, path in zip(("data", "validation", "test"), files, strict=False))


def selected(queued: Sequence[Run], patterns: Sequence[str]) -> tuple[Run, ...]:
    """Return the runs whose names match, in the order of the patterns, each after the runs that it needs."""
    of_name = {run.name: run for run in queued}
    selection: dict[str, Run] = {}

    def choose(run: Run) -> None:
        for name in run.needs:
            choose(of_name[name])
        selection.setdefault(run.name, run)

    for pattern in patterns:
        matching = [run for run in queued if fnmatchcase(run.name, pattern)]
        if not matching:
            raise SystemExit(f"--runs: no run is named {pattern}: python -m examples.queue --status lists all of them")
        for run in matching:
            choose(run)
    return tuple(selection.values())
