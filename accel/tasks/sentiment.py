"""Sentiment of sentences of the Stanford Sentiment Treebank (FastTrees, section 4.3; Treeformer, section 4).

The first paper states no batch size, weight decay and clipping: they are those of `accel.tasks.logic`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import Example
from accel.data.published.sentiment import BINARY, FINE, read_sentiment
from accel.models.fasttrees.sentence_classifier import Config
from accel.tasks import logic
from accel.tasks.job import Job, add_files
from accel.tasks.sentences import Source, add_models, build_classifier, evaluate_classifier
from accel.trained.opening import Model
from accel.training.communicator import Communicator

TRAINING = replace(logic.TRAINING, maximum_rate=4e-4, factor=0.2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TREES", "trees with a sentiment at every node")
    parser.add_argument("--fine", action="store_true", help="five classes; else two, without neutral sentences")
    parser.add_argument("--phrases", action=argparse.BooleanOptionalAction, default=True, help="train on phrases too")
    add_models(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    classes = FINE if options.fine else BINARY

    def training() -> Source:
        return options.data, _read(classes, options.data, options.phrases)

    def validation() -> Source | None:
        held_out, _ = (x and (x, _read(classes, x)) for x in (options.validation, options.test))
        return held_out

    return build_classifier(options, ops, group, recurrent(len(classes)), TRAINING, classes, training, validation)


def recurrent(n_classes: int) -> Config:
    """Return a recurrent classifier without its vocabulary; `--model` sets its cell type."""
    return Config(  # 512 units are no multiple of 10, the usual size of a chunk
        1, n_classes, pair=False, kind="fasttrees", embedding_size=300, projection_size=256, hidden_size=512,
        mlp_size=512, dropout=0.5, chunk_size=8,
    )  # fmt: skip


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return loss and accuracy on the sentences of a file."""
    classes = FINE if settings["fine"] else BINARY
    return evaluate_classifier(ops, model, data, classes, _read(classes, data))


def _read(classes: tuple[str, ...], path: Path, phrases: bool = False) -> list[Example]:
    return list(read_sentiment(path, classes, phrases=phrases))
