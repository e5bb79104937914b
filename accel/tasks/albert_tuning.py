"""Fine-tuning of an ALBERT, with Treeformer's chart above it or alone (Treeformer, section 6.3).

It starts from a run of `masked_words` or from published weights (`grove import --kind albert`), or from scratch. The
paper's hyperparameters are in an appendix that we have not seen: those here are usual for models of this kind.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from types import ModuleType

from accel.data.vocabularies.albert import AlbertPieces, train_albert_pieces
from accel.models.albert.config import KINDS, SIZES, Config
from accel.tasks.fine_tuning import Start, configured_start
from accel.tasks.vocabulary import stored_vocabulary
from accel.trained.kinds import kind_of, with_article
from accel.trained.opening import open_model
from accel.training.run import on_host
from accel.training.settings import TrainingConfig

TRAINING = TrainingConfig(
    batch_size=32, maximum_rate=3e-5, final_rate=0.0, schedule="linear", clip_norm=1.0, select="accuracy"
)
_FROM_DATA = ("vocabulary_size", "n_classes", "chart")
_FREE = ("max_height", "across", "dropout", "attention_dropout", "class_dropout")
_HEADS = ("narrow", "output_bias")
_MOST_PIECES = 8000


def check_settings(options: argparse.Namespace, training: TrainingConfig) -> None:
    """Raise ValueError if an option of a model from scratch has an impossible value, before anything is read."""
    if options.checkpoint is None:
        configured_start(Start(_config(options, 1, 1), None, _FROM_DATA), options, training, 1)


def start_of(options: argparse.Namespace, ops: ModuleType, lines: Callable[[], Iterable[str]], n_classes: int) -> Start:
    """Return the start from --checkpoint, or from scratch with pieces that are trained on the lines.

    Raises
    ------
    ValueError
        If the checkpoint holds no ALBERT that predicts masked tokens.
    """
    if options.checkpoint is None:
        pieces = stored_vocabulary(options, AlbertPieces) or train_albert_pieces(lines(), _MOST_PIECES)
        return Start(_config(options, len(pieces), n_classes), pieces, _FROM_DATA)
    model = open_model(ops, options.checkpoint)
    if kind_of(model) != "albert":
        raise ValueError(f"--checkpoint: {model.path}: holds {with_article(kind_of(model))}, not an albert")
    initial = {name: x for name, x in on_host(model.parameters).items() if not name.startswith(_HEADS)}
    fixed = tuple(field.name for field in fields(Config) if field.name not in _FREE)
    config = replace(model.config, n_classes=n_classes, chart=KINDS[options.kind])
    return Start(config, model.vocabulary, fixed, initial)


def _config(options: argparse.Namespace, n_pieces: int, n_classes: int) -> Config:
    return Config(n_pieces, n_classes=n_classes, chart=KINDS[options.kind], **SIZES["tiny"])
