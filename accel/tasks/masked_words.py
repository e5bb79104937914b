"""An ALBERT that learns from raw text to predict masked tokens (Lan et al. 2020). The task `glue` can start from it.

The text has one sentence a line. The pieces are trained on it. ALBERT's other task, the order of two texts, is not
learnt.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.masked_text import masked_batches, read_masked_text
from accel.data.files.lines import read_text_lines
from accel.data.vocabularies.albert import AlbertPieces, train_albert_pieces
from accel.models.albert import model as albert
from accel.models.albert.config import SIZES, Config
from accel.models.checks import refusal
from accel.tasks.job import Job, add_files, configured, require_data, shared
from accel.tasks.numbers import at_least
from accel.tasks.vocabulary import stored_vocabulary
from accel.trained.opening import Model
from accel.trained.options import typed
from accel.training.communicator import Communicator
from accel.training.loop import evaluate as evaluate_model
from accel.training.settings import TrainingConfig

TRAINING = TrainingConfig(
    batch_size=4096, steps=10_000, warmup_steps=500, maximum_rate=1e-3, final_rate=0.0, schedule="linear",
    clip_norm=1.0, weight_decay=0.01, decay="decoupled", validate_every=500, checkpoint_every=500,
)  # fmt: skip
"""`batch_size` counts tokens."""
FROM_DATA = ("vocabulary_size", "n_classes", "chart")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(kind="albert")
    add_files(parser, "TEXT", "text, a sentence a line")
    parser.add_argument("--size", choices=SIZES, default="tiny", help="base is that of albert-base-v2 (tiny)")
    parser.add_argument(
        "--vocabulary-size", type=at_least(1), default=8000, metavar="V", help="the most pieces (8,000)"
    )


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    configured(Config(1, **SIZES[options.size]), TRAINING, options, FROM_DATA)
    require_data(options)
    lines = (line for _, line in read_text_lines(options.data))
    pieces = stored_vocabulary(options, AlbertPieces) or train_albert_pieces(lines, options.vocabulary_size)
    size = Config(len(pieces), **SIZES[options.size])
    config, training = configured(size, TRAINING, options, FROM_DATA)
    texts = {  # the test, too, to report its errors before the training
        name: read_masked_text(path, pieces, config.n_positions)
        for name in ("data", "validation", "test")
        if (path := getattr(options, name)) is not None
    }
    text, held_out = texts["data"][0], texts["validation"][0] if options.validation else None
    cut_notes = (f"{typed(name)}: {n:,} sentences of more than {config.n_positions - 2:,} pieces were cut"
                 for name, (_, n) in texts.items() if n)  # fmt: skip
    longest = max(map(len, (*text, *(held_out or ()))))
    if longest > training.batch_size:
        but = f"a batch is counted in tokens, and the longest sentence has {longest}"
        raise refusal("batch_size", training.batch_size, but, f"{longest} or more")
    batching = shared(ops, group, training)
    return Job(
        albert,
        config,
        training,
        pieces,
        masked_batches(text, training.batch_size, pieces, training.seed, seed=training.seed, epochs=None, **batching),
        None if held_out is None else lambda: masked_batches(held_out, training.batch_size, pieces, 0, **batching),
        f"{len(text):,} sentences, {sum(map(len, text)):,} tokens",
        notes=(f"vocabulary: {len(pieces):,} pieces", *cut_notes),
    )


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the loss of masked tokens of the test text, nats, and the share of them that is predicted correctly."""
    text, n_cut = read_masked_text(data, model.vocabulary, model.config.n_positions)
    most = max(TRAINING.batch_size, *map(len, text))
    batches = masked_batches(text, most, model.vocabulary, 0, ops=ops)
    results = evaluate_model(ops, model.module, model.config, model.parameters, batches)
    return results | ({"sentences cut": n_cut} if n_cut else {})
