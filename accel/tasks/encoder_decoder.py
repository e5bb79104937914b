"""What the tasks of the encoder-decoder share: its options, and Tensor2Tensor's recipe (FastTrees, 4.5 and 4.6)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from types import ModuleType
from typing import Any

from accel.models.encoder_decoder.model import SIZES, Config, scores
from accel.tasks.job import configured
from accel.training.settings import TrainingConfig

KINDS: dict[str, dict[str, str]] = {
    "transformer": {},
    "fasttrees": {"gate": "positionwise"},
    "conv_fasttrees": {"gate": "causal"},
    "treeformer": {"chart": "paper"},
    "treeformer_released": {"chart": "released"},
}
"""What each --model adds to a Transformer."""
TRAINING = TrainingConfig(
    batch_size=4096,
    warmup_steps=8000,
    schedule="noam",
    beta2=0.997,
    epsilon=1e-9,
    clip_norm=None,
    validate_every=1000,
    checkpoint_every=1000,
    keep_checkpoints=8,
)
RARE_WORDS = replace(
    TRAINING,
    warmup_steps=500,
    maximum_rate=1.5e-3,
    epsilon=1e-5,
    clip_norm=1.0,
    validate_every=500,
    checkpoint_every=500,
)
"""For tasks that test words which training has once or twice; to be used without label smoothing.

With Tensor2Tensor's recipe COGS' generalisation set stayed at 0 % for fifteen epochs, with this one it was at 25 %
after eight. Between two uses of a word, smoothed labels and an epsilon of 1e-9 let Adam make full steps of the tiny
gradients that are left; which of the two harms more was not measured.
"""
FROM_DATA = ("vocabulary_size", "source_vocabulary_size", "n_classes", "gate", "chart")
CONSTANT = 2.0  # Tensor2Tensor's learning_rate_constant


def add_model_arguments(parser: argparse.ArgumentParser, size: str, others: tuple[str, ...] = ()) -> None:
    """Add the options that say which Transformer is trained, or which of the `others`."""
    what = "with a gate behind self-attention, or with a chart of phrases (default: transformer)"
    parser.add_argument("--model", dest="kind", choices=(*KINDS, *others), default="transformer", help=what)
    parser.add_argument("--size", choices=SIZES, default=size, help=f"transformer_tiny or _base (default: {size})")


def configured_transformer(
    options: argparse.Namespace, training: TrainingConfig, vocabulary_size: int, n_classes: int = 0
) -> tuple[Config, TrainingConfig]:
    """Return the model and its training that the options ask for.

    The highest learning rate, that at the end of the warm-up, is 2 / sqrt(d_model warmup_steps) if it is not given.
    """
    config = Config(vocabulary_size, n_classes=n_classes, **KINDS[options.kind], **SIZES[options.size])
    first, recipe = configured(config, training, options, FROM_DATA)
    peak = CONSTANT * (first.d_model * max(1, recipe.warmup_steps)) ** -0.5
    return configured(config, replace(training, maximum_rate=peak), options, FROM_DATA)


def configured_for_rare_words(
    options: argparse.Namespace, steps: int, vocabulary_size: int
) -> tuple[Config, TrainingConfig]:
    """Return the model and its training that the options ask for, by default with the recipe for rare words."""
    config = Config(vocabulary_size, label_smoothing=0.0, **KINDS[options.kind], **SIZES[options.size])
    return configured(config, replace(RARE_WORDS, steps=steps), options, FROM_DATA)


def sequence_accuracy(ops: ModuleType, config: Config, parameters: dict[str, Any], batches: Any) -> float:
    """Return the share of targets every token of which, the end symbol too, is the most probable one.

    Behind a right beginning the most probable token is what a greedy search writes: these targets, and no others, are
    found by it.
    """
    right, count, xp = 0, 0, ops.xp
    for batch in batches:
        wrong = xp.concatenate([xp.zeros(1, int), xp.cumsum(~scores(ops, config, parameters, batch)[1])])
        right += int((wrong[batch.target_offsets[1:]] == wrong[batch.target_offsets[:-1]]).sum())
        count += len(batch.target_offsets) - 1
    return right / max(count, 1)
