"""Language models of words, trained as the AWD-LSTM is (FastTrees, section 4.1; Merity, Keskar and Socher 2018).

Gradient descent begins to average the parameters when the validation loss stalls. It begins a new average after 500
epochs, and training ends when the loss stalls once more. The length of a batch varies, and the learning rate with it.
An epoch has the mean number of steps that read the text once. Words that the training text has once are read as
``<unk>``, unless the text has ``<unk>`` itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.batches.text import TextBatches, build_text_words, encode_text, mean_steps
from accel.data.vocabularies.vocabulary import UNKNOWN
from accel.data.vocabularies.words import Words
from accel.models.checks import refusal
from accel.models.fasttrees import language_model
from accel.models.fasttrees.language_model import Config
from accel.models.fasttrees.stack import KINDS
from accel.scoring.perplexity import text_perplexity
from accel.tasks.job import (
    Job,
    add_files,
    add_tokens,
    add_variant,
    as_trained,
    check_variant,
    configured,
    configured_in_epochs,
    in_chunks,
    in_tokens,
    require_data,
    shared,
)
from accel.tasks.numbers import at_least
from accel.tasks.vocabulary import open_to_words, stored_vocabulary
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.settings import TrainingConfig

TRAINING = TrainingConfig(
    batch_size=20,
    maximum_rate=30.0,
    weight_decay=1.2e-6,
    clip_norm=0.25,
    optimizer="nt_asgd",
    schedule="constant",
    nonmonotone=5,
    restart_after=500,
    checkpoint_every=200,
)
VALIDATION_COLUMNS = 10
_FROM_DATA = ("vocabulary_size",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TEXT", "text, a sentence a line")
    parser.add_argument("--model", dest="kind", choices=KINDS, default="fasttrees")
    add_variant(parser)
    help_text = "words seen less often are read as <unk> (default: 2, or 1 where the text has <unk>); 1: all are words"
    parser.add_argument("--min-count", type=at_least(1), metavar="N", help=help_text)
    parser.add_argument("--vocabulary-size", type=at_least(1), metavar="V", help="the most words (default: no limit)")
    parser.add_argument(
        "--length", type=at_least(1), default=70, help="the usual number of words of a batch's rows (70)"
    )
    parser.add_argument("--epochs", type=at_least(1), default=1000)
    add_tokens(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    check_variant(options)
    config, recipe = as_trained(options, Config(1, options.kind), TRAINING)
    _, training = configured(config, recipe, options, _FROM_DATA)
    require_data(options)
    limits = options.min_count, options.vocabulary_size
    words = stored_vocabulary(options, Words) or build_text_words(options.data, *limits)
    with open_to_words("--min-count 2"):
        text, held_out, _ = (
            encode_text(x, words) if x else None for x in (options.data, options.validation, options.test)
        )
    assert text is not None
    columns = VALIDATION_COLUMNS if held_out is None else max(1, min(VALIDATION_COLUMNS, len(held_out) - 1))
    n_batches: Callable[[TrainingConfig], int] = partial(_n_batches, len(text), options.length)
    if recipe is not TRAINING and not any(setting.startswith("validate_every=") for setting in options.set):
        n_batches = attrgetter("validate_every")  # a resumed run keeps the length of its epochs
    config = replace(config, vocabulary_size=len(words))
    config, training = configured_in_epochs(
        config, recipe, options, _FROM_DATA, options.epochs, n_batches, len(text) - 1
    )
    if len(text) <= training.batch_size:
        but = f"{options.data} has {len(text)} words, and a batch reads as many columns of it"
        raise refusal("batch_size", training.batch_size, but, f"{max(1, len(text) // 2)} or less")
    batching = shared(ops, group, training) | {"length": options.length}
    return Job(
        language_model,
        config,
        training,
        words,
        TextBatches(text, training.batch_size, seed=training.seed, epochs=None, **batching),
        None if held_out is None else lambda: TextBatches(held_out, columns, **batching),
        f"{len(text):,} words and ends of lines",
        notes=(
            _described(words, options.validation, held_out),
            *in_chunks(config),
            *in_tokens(options, training, len(text) - 1),
        ),
    )


def _described(words: Words, path: Path | None, held_out: np.ndarray | None) -> str:
    """Return a line about the vocabulary."""
    if words.unknown is None:
        return f"vocabulary: {len(words):,} words; a word outside is an error: --min-count 2 reads it as {UNKNOWN}"
    text = f"vocabulary: {len(words):,} words, {UNKNOWN} for all others"
    if path is None or held_out is None:
        return text
    return f"{text}: {(held_out == words.ids[UNKNOWN]).mean():.1%} of {path.name}"


def _n_batches(n_words: int, length: int, training: TrainingConfig) -> int:
    """Return the mean number of batches of an epoch, the last of which is cut at the end of the text."""
    steps = (n_words - 1) / training.batch_size
    return max(1, round(steps / mean_steps(length) + 0.5))


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the perplexity of the test text: every word but the first is predicted from all words before it."""
    result = text_perplexity(ops, model, encode_text(data, model.vocabulary))
    return {"perplexity": result.perplexity, "words": result.n_words}
