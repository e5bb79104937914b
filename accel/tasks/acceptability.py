"""Acceptability of sentences: CoLA, scored by accuracy and Matthews' correlation (Treeformer, sections 5 and 6.3)."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.files.lines import find_file
from accel.data.published.acceptability import CLASSES, read_acceptability
from accel.evaluation.classification import matthews
from accel.tasks import sentiment
from accel.tasks.job import Job
from accel.tasks.sentences import Source, add_models, batches_of, build_classifier
from accel.trained.opening import Model
from accel.training.communicator import Communicator

FORMS = ("tokenized", "raw")
TESTS = {"in domain": "in_domain_dev.tsv", "out of domain": "out_of_domain_dev.tsv"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="with the folders tokenized and raw; or CoLA's archive"
    )
    parser.add_argument("--form", choices=FORMS, default=FORMS[0], help="which of the two folders to read (tokenized)")
    add_models(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    config = sentiment.recurrent(len(CLASSES))

    def held_out() -> list[Source]:
        return [_read(options.data, options.form, name) for name in TESTS.values()]

    def training() -> Source:
        return _read(options.data, options.form, "in_domain_train.tsv")

    return build_classifier(options, ops, group, config, sentiment.TRAINING, CLASSES, training, held_out)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy and correlation on the two test sets that have labels, and on both, as in GLUE."""
    right: dict[str, list[bool]] = {name: [] for name in TESTS}
    labels: dict[str, list[int]] = {name: [] for name in TESTS}
    for name, file in TESTS.items():
        for batch in batches_of(ops, model, CLASSES, _read(data, settings["form"], file)):
            right[name] += model.module.scores(ops, model.config, model.parameters, batch)[1].tolist()
            labels[name] += batch.labels.tolist()
    for values in (right, labels):
        values["both"] = [value for name in TESTS for value in values[name]]
    answers = {name: np.equal(labels[name], right[name]).tolist() for name in right}  # wrong: the other class
    return {
        "accuracy": {name: float(np.mean(right[name])) for name in right},
        "correlation": {name: matthews(labels[name], answers[name]) for name in right},
    }


def _read(folder: Path, form: str, name: str) -> Source:
    path = find_file(folder, f"{form}/{name}")
    return path, list(read_acceptability(path))
