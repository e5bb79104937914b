"""Sentiment of sentences of the Stanford Sentiment Treebank (FastTrees, section 4.3).

What the paper leaves open is as in `accel.tasks.logic`: batch size, weight decay and clipping.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.communicator import Communicator
from accel.data.sentences import Example
from accel.data.sentiment import BINARY, FINE, read_sentiment
from accel.models.fasttrees import KINDS
from accel.models.sentence_classifier import Config
from accel.saved import Model
from accel.tasks import Job, add_files, logic
from accel.tasks.sentences import add_vectors, build_classifier, evaluate_classifier

TRAINING = replace(logic.TRAINING, maximum_rate=4e-4, factor=0.2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TREES", "trees with a sentiment at every node")
    parser.add_argument("--model", dest="kind", choices=KINDS, default="fasttrees")
    parser.add_argument("--fine", action="store_true", help="five classes; else neutral sentences are left out of two")
    parser.add_argument("--phrases", action=argparse.BooleanOptionalAction, default=True, help="train on phrases, too")
    parser.add_argument("--epochs", type=int, default=20)
    add_vectors(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    classes = FINE if options.fine else BINARY
    config = Config(  # 512 units are no multiple of 10, the usual size of a chunk
        1, len(classes), pair=False, kind=options.kind, embedding_size=300, projection_size=256, hidden_size=512,
        mlp_size=512, dropout=0.5, chunk_size=8,
    )  # fmt: skip
    read = partial(_read, classes)
    training = partial(read, phrases=options.phrases)
    return build_classifier(options, ops, group, config, TRAINING, classes, training, read)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return loss and accuracy on the sentences of a file."""
    classes = FINE if settings["fine"] else BINARY
    return evaluate_classifier(ops, model, data, classes, _read(classes, data))


def _read(classes: tuple[str, ...], path: Path, phrases: bool = False) -> list[Example]:
    return list(read_sentiment(path, classes, phrases=phrases))
