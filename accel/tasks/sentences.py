"""What the classifiers of words have in common: a vocabulary from the training data, and vectors from elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.communicator import Communicator
from accel.data.sentences import Example, SentenceBatches, encode_examples
from accel.data.vectors import read_vectors
from accel.data.words import UNKNOWN, Words, build_words
from accel.models import sentence_classifier
from accel.models.sentence_classifier import Config
from accel.saved import VOCABULARY, Model, load_vocabulary
from accel.settings import TrainingConfig
from accel.tasks import Job, configured_in_epochs, require_data
from accel.train import evaluate

_FROM_DATA = ("vocabulary_size", "n_classes", "pair")
Read = Callable[[Path], list[Example]]


def add_vectors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vectors", type=Path, metavar="FILE", help="word vectors to start from, as GloVe's")


def build_classifier(
    options: argparse.Namespace,
    ops: ModuleType,
    group: Communicator,
    config: Config,
    training: TrainingConfig,
    classes: tuple[str, ...],
    read_training: Read,
    read_held_out: Read,
) -> Job:
    """Return the job of a classifier; `config` lacks the size of the vocabulary."""
    require_data(options)
    examples = read_training(options.data)
    there = options.resume and (options.out / VOCABULARY).exists()
    words = load_vocabulary(options.out, Words) if there else _words(examples)
    config = replace(config, vocabulary_size=len(words))
    width = 1 + config.pair
    data = encode_examples(options.data, examples, words, classes, width)
    held_out = None
    if options.validation is not None:
        held_out = encode_examples(options.validation, read_held_out(options.validation), words, classes, width)
    config, training = configured_in_epochs(
        config, training, options, _FROM_DATA, options.epochs, lambda t: -(-len(data) // t.batch_size)
    )
    description = f"{len(data):,} examples of {len(classes)} classes; {len(words):,} words"
    initial = None
    if options.vectors is not None:
        table = sentence_classifier.initialise(config, training.seed)["embedding"]
        table, found = read_vectors(options.vectors, words, table)
        initial, description = {"embedding": table}, f"{description}, {found:,} of them with vectors"
    read: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    size = training.batch_size
    return Job(
        sentence_classifier,
        config,
        training,
        words,
        SentenceBatches(data, size, seed=training.seed, epochs=None, **read),
        None if held_out is None else lambda: SentenceBatches(held_out, size, **read),
        description,
        initial=initial,
    )


def evaluate_classifier(
    ops: ModuleType, model: Model, path: Path, classes: tuple[str, ...], examples: list[Example]
) -> dict[str, Any]:
    """Return loss and accuracy on examples that were read from `path`."""
    data = encode_examples(path, examples, model.vocabulary, classes, 1 + model.config.pair)
    return evaluate(ops, model.module, model.config, model.parameters, SentenceBatches(data, 64, ops=ops))


def _words(examples: list[Example]) -> Words:
    """Return the words of the training data, and one for all others."""
    return build_words(chain.from_iterable(e.sentences for e in examples), extra=(UNKNOWN,))
