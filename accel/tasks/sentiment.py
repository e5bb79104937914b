"""Sentiment of sentences of the Stanford Sentiment Treebank (FastTrees, section 4.3; Treeformer, sections 5 and 6.3).

FastTrees' paper states sizes, dropout, learning rate and its factor, but no batch size, clipping, least rate or end of
the training. These are from the code of Kiela et al. (2018), which has the same sizes, dropout, rate and factor: see
section R of specs/errata.md.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import Example
from accel.data.files.lines import LineError
from accel.data.published import glue
from accel.data.published.sentiment import BINARY, FINE, read_sentiment
from accel.models.fasttrees.sentence_classifier import Config
from accel.tasks.job import Job, add_files
from accel.tasks.sentences import Source, add_models, build_classifier, evaluate_classifier
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.training.communicator import Communicator
from accel.training.settings import TrainingConfig

TABLE_3 = Config(
    1, len(BINARY), pair=False, kind="fasttrees", n_tables=2, embedding_size=300, projection_size=256, hidden_size=512,
    chunk_size=16, mlp_size=512, mlp_layers=2, activation="relu", dropout=0.5,
)  # fmt: skip
"""The classifier of Table 3, without its vocabulary."""
TRAINING = TrainingConfig(
    batch_size=64,
    maximum_rate=4e-4,
    clip_norm=5.0,
    schedule="plateau",
    factor=0.2,
    patience=0,
    least_rate=5e-5,
    stop_after=4,
    select="accuracy",
    checkpoint_every=200,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "FILE", "trees with a sentiment at every node, or a .tsv of GLUE")
    parser.add_argument("--fine", action="store_true", help="five classes; else two, without neutral sentences")
    parser.add_argument("--phrases", action=argparse.BooleanOptionalAction, default=True, help="train on phrases too")
    add_models(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    classes = FINE if options.fine else BINARY
    if options.data is not None and ".tsv" in options.data.suffixes and not options.phrases and not options.resume:
        raise OptionError("no_phrases", "is for trees; a .tsv does not say which lines are phrases: leave it out")

    def training() -> Source:
        return options.data, _read(classes, options.data, options.phrases)

    def held_out() -> list[Source | None]:
        return [x and (x, _read(classes, x)) for x in (options.validation, options.test)]

    return build_classifier(options, ops, group, recurrent(len(classes)), TRAINING, classes, training, held_out)


def recurrent(n_classes: int) -> Config:
    """Return a recurrent classifier without its vocabulary; `--model` sets its cell type, `--vectors` its tables."""
    return replace(TABLE_3, n_classes=n_classes, n_tables=0)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return loss and accuracy on the sentences of a file."""
    classes = FINE if settings["fine"] else BINARY
    return evaluate_classifier(ops, model, data, classes, _read(classes, data))


def _read(classes: tuple[str, ...], path: Path, phrases: bool = False) -> list[Example]:
    if ".tsv" in path.suffixes:
        if classes != BINARY:
            raise ValueError(f"--fine: {path} has two classes; leave out --fine, or name a file of trees")
        return [x._replace(label=BINARY[int(x.label)]) for x in glue.read_file("sst2", path).examples]
    try:
        examples = list(read_sentiment(path, classes, phrases=phrases))
    except LineError as error:
        if "outside the root" not in error.reason:
            raise
        forms = "use trees with a class at every node, as (3 (2 It) (3 works)), or a .tsv of GLUE's SST-2"
        raise LineError(error.path, error.line, f"{error.reason}; {forms}", error.column) from error
    if not examples:
        raise LineError(path, 0, "no examples in this file: neutral trees are left out without --fine")
    return examples
