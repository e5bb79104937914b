"""Logical inference: which of seven relations holds between two formulas (FastTrees, section 4.2).

Training has formulas of at most 6 operators, tests have all lengths up to 12. Hyperparameters are those of the released
code; ON-LSTM's released code trains for 50 epochs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import SentenceBatches
from accel.data.generated.logic import LONGEST, RELATIONS, WORDS, load_test, load_training
from accel.models.fasttrees import sentence_classifier
from accel.models.fasttrees.sentence_classifier import Config
from accel.models.fasttrees.stack import KINDS
from accel.tasks.job import (
    Job,
    add_variant,
    as_trained,
    batch_size_of,
    check_variant,
    configured,
    configured_in_epochs,
    in_chunks,
    require_data,
    shared,
)
from accel.tasks.numbers import at_least
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.loop import evaluate as evaluate_batches
from accel.training.settings import TrainingConfig

TRAINING = TrainingConfig(
    batch_size=128,
    maximum_rate=1e-3,
    epsilon=1e-9,
    weight_decay=1.2e-6,
    clip_norm=1.0,
    schedule="plateau",
    factor=0.5,
    patience=2,
    select="accuracy",
    checkpoint_every=200,
)
_FROM_DATA = ("vocabulary_size", "n_classes", "pair", "n_tables")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with train0 to train6 and test0 to test12")
    parser.add_argument("--model", dest="kind", choices=KINDS, default="fasttrees")
    add_variant(parser)
    parser.add_argument("--epochs", type=at_least(1), default=50)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    check_variant(options)
    config = Config(len(WORDS), len(RELATIONS), pair=True, kind=options.kind)
    config, recipe = as_trained(options, config, TRAINING)
    configured(config, recipe, options, _FROM_DATA)
    require_data(options)
    training_pairs, held_out = load_training(options.data)
    for length in range(LONGEST + 1):
        load_test(options.data, length)  # reports its errors before the training
    config, training = configured_in_epochs(
        config, recipe, options, _FROM_DATA, options.epochs, lambda t: -(-len(training_pairs) // t.batch_size)
    )
    batching = shared(ops, group, training)
    return Job(
        sentence_classifier,
        config,
        training,
        WORDS,
        SentenceBatches(training_pairs, training.batch_size, seed=training.seed, epochs=None, **batching),
        lambda: SentenceBatches(held_out, training.batch_size, **batching),
        f"{len(training_pairs):,} pairs of formulas, {len(held_out):,} held out",
        notes=(f"vocabulary: the {len(WORDS)} words of the formulas", *in_chunks(config)),
    )


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracy on the test pairs of every length."""
    accuracy, batch_size = {}, batch_size_of(model, TRAINING.batch_size)
    for length in range(LONGEST + 1):
        batches = SentenceBatches(load_test(data, length), batch_size, ops=ops)
        result = evaluate_batches(ops, model.module, model.config, model.parameters, batches)
        accuracy[str(length)] = result["accuracy"]
    return {"accuracy": accuracy}
