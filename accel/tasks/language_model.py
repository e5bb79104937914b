"""Language models of words, trained as the AWD-LSTM is (FastTrees, section 4.1; Merity, Keskar and Socher 2018).

Gradient descent begins to average when the validation loss stalls. Batches change their length, and the learning rate
changes with it. The number of steps of an epoch is its mean.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.text import TextBatches, build_text_words, encode_text
from accel.data.vocabularies.words import Words
from accel.models.fasttrees import language_model
from accel.models.fasttrees.language_model import Config
from accel.models.fasttrees.stack import KINDS
from accel.scoring.perplexity import text_perplexity
from accel.tasks.job import Job, add_files, configured_in_epochs, require_data
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.directory import VOCABULARY, load_vocabulary
from accel.training.settings import TrainingConfig

TRAINING = TrainingConfig(
    batch_size=20,
    maximum_rate=30.0,
    weight_decay=1.2e-6,
    clip_norm=0.25,
    optimizer="nt_asgd",
    schedule="constant",
    nonmonotone=5,
    checkpoint_every=200,
)
VALIDATION_COLUMNS = 10
_FROM_DATA = ("vocabulary_size",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TEXT", "text, a sentence a line")
    parser.add_argument("--model", dest="kind", choices=KINDS, default="fasttrees")
    parser.add_argument("--variant", choices=("paper", "released"), help="the inputs that Conv. FastTrees convolves")
    parser.add_argument("--length", type=int, default=70, help="the usual number of words of a batch's rows (70)")
    parser.add_argument("--epochs", type=int, default=1000)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    require_data(options)
    is_stored = options.resume and (options.out / VOCABULARY).exists()
    words = load_vocabulary(options.out, Words) if is_stored else build_text_words(options.data)
    text = encode_text(options.data, words)
    held_out = None if options.validation is None else encode_text(options.validation, words)
    n_batches = partial(_n_batches, len(text), options.length)
    config = Config(len(words), options.kind)
    config, training = configured_in_epochs(config, TRAINING, options, _FROM_DATA, options.epochs, n_batches)
    reading: dict[str, Any] = {"ops": ops, "length": options.length, "rank": group.rank, "ranks": group.size}
    return Job(
        language_model,
        config,
        training,
        words,
        TextBatches(text, training.batch_size, seed=training.seed, epochs=None, **reading),
        None if held_out is None else lambda: TextBatches(held_out, VALIDATION_COLUMNS, **reading),
        f"{len(text):,} words of text; {len(words):,} different ones",
    )


def _n_batches(n_words: int, length: int, training: TrainingConfig) -> int:
    """Return the mean number of batches of an epoch: one batch in twenty is half as long as the others."""
    steps = (n_words - 1) / training.batch_size
    return max(1, round(steps / (0.975 * length - 0.5)))


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the perplexity of the test text: every word but the first is predicted from all words before it."""
    result = text_perplexity(ops, model, encode_text(data, model.vocabulary))
    return {"perplexity": result.perplexity, "words": result.n_words}
