"""The tables of RESULTS.md that are written from the result files of the queue, one file a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.markdown import table
from examples.queue_runs import RUNS
from examples.result_files import NAMES

Run = dict[str, Any]
NOT_RUN = "not run: `make results DATA=data`"

PARSERS = {
    "lstm": "LSTM over words and characters", "lstm-0.5": "LSTM, dropout 0.5",
    "lstm-tags": "LSTM that learns tags, too",
    "dropout-0.2": "self-attentive, dropout 0.2", "dropout-0.3": "self-attentive, dropout 0.3",
    "pieces": "self-attentive, SentencePiece",
}  # fmt: skip


def read_runs(folder: Path) -> list[Run]:
    """Return the results of the runs of the queue, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def parsers(runs: Sequence[Run]) -> str:
    """Return the F1 of every parser on the validation trees, best first."""
    of_trees = [(*run["name"].split("/parser-"), run) for run in runs if "/parser-" in run["name"]]
    of_trees.sort(key=lambda row: (row[0], -_scores(row[2])["f1"]))
    return table(
        ("trained on", "parser", "F1", "whole trees, %", "sentences", *OF_RUN),
        [
            (
                trees,
                PARSERS[kind],
                f"{scores['f1']:.1f}",
                f"{scores['exact']:.1f}",
                f"{scores['sentences']:,}",
                *of_run(run),
            )
            for trees, kind, run in of_trees
            for scores in (_scores(run),)
        ],
        n_names=2,
    )


def trainings(runs: Sequence[Run]) -> str:
    """Return the least validation loss of every Transformer Grammar and Transformer-XL."""
    rows = []
    for run in runs:
        trees, _, name = run["name"].partition("/")
        model = name.rpartition("-")[0]
        if model in NAMES:
            loss = min(loss for _, loss in run["validation_loss"])
            rows.append((trees, NAMES[model], str(run["seed"]), f"{loss:.4f}", *of_run(run)))
    return table(("trained on", "model", "seed", "least validation loss, nats a symbol", *OF_RUN), rows, n_names=2)


WINDOWS = {
    "logic/on_lstm-0": ("ON-LSTM", "all before"),
    "logic/fasttrees-0": ("FastTrees", "1"),
    "logic/conv_fasttrees-0": ("Conv. FastTrees", "2"),
    "logic_window/5": ("Conv. FastTrees", "5"),
}
"""Runs of logical inference that differ in the words that a master gate sees: the model, and the number of words."""
WINDOW_EPOCHS = (2, 4, 6, 8, 10, 12)


def windows(runs: Sequence[Run]) -> str:
    """Return the accuracy on validation, epoch by epoch, of models of logical inference whose gates see more words."""
    curves = {run["name"]: run["validation_accuracy"] for run in runs if run["name"] in WINDOWS}
    rows = [
        (*title, *(f"{100 * curves[name][epoch - 1][1]:.1f}" for epoch in WINDOW_EPOCHS))
        if name in curves
        else (*title, NOT_RUN, *[""] * (len(WINDOW_EPOCHS) - 1))
        for name, title in WINDOWS.items()
    ]
    return table(("model", "words that a master gate sees", *(f"epoch {n}" for n in WINDOW_EPOCHS)), rows, n_names=1)


def left(runs: Sequence[Run]) -> str:
    """Return what the runs of every table have taken, and what those without a result will take."""
    hours = {run["name"]: run["core_hours"] for run in runs}
    rows = []
    for name in dict.fromkeys(run.table for run in RUNS):
        of_table = [run for run in RUNS if run.table == name]
        names = [run.name for run in of_table if run.name in hours]
        estimated = sum(run.hours for run in of_table if run.name not in hours)
        used_hours = sum(hours[run] for run in names)
        rows.append((name, f"{len(names)} of {len(of_table)}", f"{used_hours:.1f}", f"{estimated:.1f}"))
    return table(("table", "runs with a result", "core hours used", "core hours left, estimated"), rows)


OF_RUN = "steps", "still improving", "fell in the last tenth, %", "core hours", "commit"


def of_run(run: Run) -> tuple[str, ...]:
    improving = "yes" if run["still_improving"] else "no"
    fall = f"{100 * last_fall(run['validation_loss']):.1f}"
    return f"{run['last_step']['step']:,}", improving, fall, f"{run['core_hours']:.2f}", run["commit"][:7]


def last_fall(curve: Sequence[Sequence[float]]) -> float:
    """Return the share by which a loss falls in the last tenth of the steps; below 0 if it rises.

    Between two validations the curve is a line.
    """
    steps, losses = zip(*curve, strict=True)
    before = float(np.interp(0.9 * steps[-1], steps, losses))
    return 1 - losses[-1] / before


def _scores(run: Run) -> dict[str, Any]:
    (scores,) = run["figures"].values()
    return dict(scores)


TABLES_OF_QUEUE: dict[str, Callable[[Sequence[Run]], str]] = {
    "parsers": parsers,
    "trainings": trainings,
    "windows": windows,
    "left": left,
}
