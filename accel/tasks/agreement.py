"""Agreement of subject and verb: does a singular or a plural verb follow these words? (FastTrees, section 4.6)

Sentences are read from a file, or generated with attractors between subject and verb. The paper trains for 10,000
steps.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import Examples, SentenceBatches, encode_examples
from accel.data.files.lines import LineError
from accel.data.generated.agreement import CLASSES, Item, examples, generate, read_items
from accel.data.vocabularies.words import UNKNOWN, Words, build_words
from accel.models.encoder_decoder import model as encoder_decoder
from accel.tasks.encoder_decoder import TRAINING, add_model_arguments, configured_transformer
from accel.tasks.job import Job, refuse_beside_data, shared
from accel.tasks.numbers import at_least
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.loop import evaluate as evaluate_batches

GENERATES = True  # its data, if no file is given
STEPS, BATCH_SIZE, N_ITEMS, N_VALIDATION, N_TEST, MOST_ATTRACTORS = 10_000, 256, 100_000, 1_000, 10_000, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FILE", help="tab-separated (default: generated sentences)")
    parser.add_argument("--sentences", type=at_least(1), default=N_ITEMS, help=f"how many to generate ({N_ITEMS:,})")
    add_model_arguments(parser, "tiny")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    refuse_beside_data(options, "sentences", N_ITEMS)
    recipe = replace(TRAINING, steps=STEPS, batch_size=BATCH_SIZE, select="accuracy")
    _, training = configured_transformer(options, recipe, 1, len(CLASSES))
    items = read_items(options.data) if options.data else _generated(options.sentences, training.seed)
    sentences = [item.words for item in _of_split(options.data, items, "train")]
    words = build_words(sentences, least=2 if options.data else 1, extra=(UNKNOWN,))
    config, training = configured_transformer(options, recipe, len(words), len(CLASSES))
    splits = ("train", "dev", "test") if options.data else ("train", "dev")  # a file's test is checked now, too
    training_set, held_out, *_ = (_encoded(options.data, items, words, split) for split in splits)
    batching = shared(ops, group, training)
    return Job(
        encoder_decoder,
        config,
        training,
        words,
        SentenceBatches(training_set, training.batch_size, seed=training.seed, epochs=None, **batching),
        lambda: SentenceBatches(held_out, training.batch_size, **batching),
        f"{len(training_set):,} sentences, {len(held_out):,} held out",
        notes=(f"vocabulary: {len(words):,} words, {UNKNOWN} for all others",),
    )


def evaluate(ops: ModuleType, model: Model, data: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracy on all test items, and by the number of attractors."""
    items = read_items(data) if data else generate(N_TEST, 0, split="test")
    tests = [item for item in items if item.split == "test"]
    accuracies = {"all": _accuracy(ops, model, data, tests)}
    for n in range(MOST_ATTRACTORS + 1):
        items_of_n = [item for item in tests if item.n_diff_intervening == n]
        if items_of_n:
            accuracies[f"{n} attractors"] = _accuracy(ops, model, data, items_of_n)
    return {"accuracy": accuracies}


def _accuracy(ops: ModuleType, model: Model, path: Path | None, items: list[Item]) -> float:
    batches = SentenceBatches(_encoded(path, items, model.vocabulary, "test"), BATCH_SIZE, ops=ops)
    return evaluate_batches(ops, model.module, model.config, model.parameters, batches)["accuracy"]


def _generated(count: int, seed: int) -> list[Item]:
    return [*generate(count, seed), *generate(N_VALIDATION, seed, split="dev")]


def _encoded(path: Path | None, items: list[Item], words: Words, split: str) -> Examples:
    of_split = _of_split(path, items, split)
    return encode_examples(path or "generated", examples(of_split), words.encode, CLASSES, width=1)


def _of_split(path: Path | None, items: list[Item], split: str) -> list[Item]:
    of_split = [item for item in items if item.split == split]
    if not of_split:
        raise LineError(path or "generated", 0, f"no items of the split {split}: give some")
    return of_split
