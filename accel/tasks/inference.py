"""Whether a premise entails or contradicts a hypothesis: SNLI and SICK (FastTrees, section 4.4).

The paper states no batch size, weight decay and clipping: they are those of `accel.tasks.logic`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import Example
from accel.data.published.inference import CLASSES, read_inference
from accel.models.fasttrees.sentence_classifier import Config
from accel.models.fasttrees.stack import KINDS
from accel.models.gpst.config import MODELS
from accel.tasks import sentiment
from accel.tasks.job import Job, add_files, count
from accel.tasks.sentences import Source, add_kinds, build_classifier, evaluate_classifier
from accel.trained.opening import Model
from accel.training.communicator import Communicator

TRAINING = sentiment.TRAINING


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "PAIRS", "pairs of sentences, in the format of SNLI or SICK")
    add_kinds(parser, (*KINDS, *MODELS))
    parser.add_argument("--epochs", type=count, default=20)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    config = Config(  # 512 units are no multiple of 10, the usual size of a chunk
        1, len(CLASSES), pair=True, kind="fasttrees", embedding_size=300, projection_size=256, hidden_size=512,
        mlp_size=1024, dropout=0.2, chunk_size=8, compare=False,
    )  # fmt: skip

    def training() -> Source:
        return options.data, _read(options.data)

    def validation() -> Source | None:
        held_out, _ = (x and (x, _read(x)) for x in (options.validation, options.test))
        return held_out

    return build_classifier(options, ops, group, config, TRAINING, CLASSES, training, validation)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return loss and accuracy on the pairs of a file."""
    return evaluate_classifier(ops, model, data, CLASSES, _read(data))


def _read(path: Path) -> list[Example]:
    return read_inference(path)[0]
