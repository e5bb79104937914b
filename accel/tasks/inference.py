"""Whether a premise entails or contradicts a hypothesis: SNLI and SICK (FastTrees, section 4.4).

Hyperparameters that the paper does not state are as in `accel.tasks.sentiment`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import Example
from accel.data.published.inference import CLASSES, read_inference
from accel.models.fasttrees.stack import KINDS
from accel.models.gpst.config import MODELS
from accel.tasks import sentiment
from accel.tasks.job import Job, add_files
from accel.tasks.numbers import at_least
from accel.tasks.sentences import Source, add_kinds, build_classifier, evaluate_classifier
from accel.trained.opening import Model
from accel.training.communicator import Communicator

TABLE_4 = replace(sentiment.TABLE_3, n_classes=len(CLASSES), pair=True, compare=True, mlp_size=1024, dropout=0.2)
"""The classifier of Table 4, without its vocabulary."""
TRAINING = replace(sentiment.TRAINING, least_rate=8e-5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "PAIRS", "pairs of sentences, in the format of SNLI or SICK")
    add_kinds(parser, (*KINDS, *MODELS))
    parser.add_argument("--epochs", type=at_least(1), default=20)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    config = replace(TABLE_4, n_tables=0)

    def training() -> Source:
        return options.data, _read(options.data)

    def held_out() -> list[Source | None]:
        return [x and (x, _read(x)) for x in (options.validation, options.test)]

    job = build_classifier(options, ops, group, config, TRAINING, CLASSES, training, held_out)
    files = {path: read_inference(path)[1] for path in (options.data, options.validation, options.test) if path}
    notes = (f"{path.name}: {n:,} pairs without a label left out" for path, n in files.items() if n)
    return replace(job, notes=(*job.notes, *notes))


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return loss and accuracy on the pairs of a file."""
    return evaluate_classifier(ops, model, data, CLASSES, _read(data))


def _read(path: Path) -> list[Example]:
    return read_inference(path)[0]
