"""A set of GLUE: sentences or pairs with a class, or with a score (GPST, 4.1 and A.3; Treeformer, 6.3).

The figures are those of the development files: `grove glue` makes their table. GPST's paper states neither the number
of epochs nor the batch size. Both follow the authors' code, which also leaves long examples out of the training.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import host
from accel.data.batches.masked_text import between_symbols, words_of
from accel.data.batches.sentences import (
    Examples,
    SentenceBatches,
    cut_long,
    encode_examples,
    joined_examples,
    without_long,
)
from accel.data.published.glue import SETS, Part, read_development, read_training
from accel.data.vocabularies.albert import AlbertPieces
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.evaluation.classification import accuracy, f1, matthews, pearson, spearman
from accel.models.albert import model as albert
from accel.models.albert.config import KINDS as ALBERTS
from accel.models.checks import refusal
from accel.models.gpst import model as gpst
from accel.models.gpst.config import MODELS
from accel.tasks import albert_tuning, fine_tuning
from accel.tasks.job import Job, require_data, shared
from accel.tasks.numbers import at_least
from accel.tasks.vocabulary import described
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.loop import Measure
from accel.training.settings import TrainingConfig

Metric = Callable[[Sequence[Any], Sequence[Any]], float]
METRICS: dict[str, dict[str, Metric]] = {
    "cola": {"matthews": matthews},
    "mrpc": {"f1": f1, "accuracy": accuracy},
    "qqp": {"f1": f1, "accuracy": accuracy},
    "stsb": {"pearson": pearson, "spearman": spearman},
    **dict.fromkeys(("sst2", "mnli", "qnli", "rte"), {"accuracy": accuracy}),
}
"""The metrics of every set; GPST's Table 1 has the first one."""
PARTS = {"mnli": ("matched", "mismatched")}
"""The sets whose development files have separate figures, with the names of these files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "a set of GLUE, or the folder of all; for cola CoLA's archive, for sst2 the trees of SST, too"
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=help_text)
    parser.add_argument("--name", choices=tuple(SETS), default="cola", help="the set (cola)")
    parser.add_argument("--model", dest="kind", choices=(*MODELS, *ALBERTS), default="gpst")
    fine_tuning.add_checkpoint(parser, (*MODELS, *ALBERTS))
    parser.add_argument("--epochs", type=at_least(1), default=20)
    parser.add_argument(
        "--max-tokens", type=at_least(1), metavar="N",
        help="leave longer examples out of the training; tokens with symbols (default: as many as the model reads)",
    )  # fmt: skip


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    tuning: Any = albert_tuning if options.kind in ALBERTS else fine_tuning
    recipe = _recipe(options.name, tuning.TRAINING)
    tuning.check_settings(options, recipe)
    require_data(options)
    part, held_out = read_training(options.name, options.data), read_development(options.name, options.data)
    classes = SETS[options.name].classes

    def words() -> Vocabulary:
        sentences = (sentence for example in part.examples for sentence in example.sentences)
        return build_of_words(sentences, "unknown_classes")

    if tuning is albert_tuning:
        start = albert_tuning.start_of(options, ops, lambda: words_of(part.examples), max(1, len(classes)))
    else:
        start = fine_tuning.start_of(options, ops, words, max(1, len(classes)))
    config, _ = fine_tuning.configured_start(start, options, recipe, 1)
    model: Any = albert if tuning is albert_tuning else gpst
    room = _room(model, config)
    data, left_out = _training_examples(part, options, start.vocabulary, room)
    config, training = fine_tuning.configured_start(start, options, recipe, len(data))
    if training.select not in ("loss", "accuracy", *METRICS[options.name]):
        raise refusal("select", training.select, f"{options.name} has no such metric", recipe.select)
    parts, n_cut = _development_examples(held_out, options.name, start.vocabulary, room)
    validation, size = joined_examples(parts), training.batch_size
    batching = shared(ops, group, training)
    cut_note = f", {n_cut:,} of them cut to the {room:,} tokens of a context" if n_cut else ""
    untrained = Model(options.out, config, {}, start.vocabulary, None, model)
    return Job(
        model,
        config,
        training,
        start.vocabulary,
        _batches(model, start.vocabulary, data, size, seed=training.seed, epochs=None, **batching),
        lambda: _batches(model, start.vocabulary, validation, size, **batching),
        f"{len(data):,} examples of {_labels(classes)}; {len(validation):,} for validation{cut_note}",
        initial=start.initial,
        measure=_measure_of(ops, untrained, parts, training, options),
        notes=(_vocabulary(start.vocabulary), *left_out, *filter(None, map(_broken, (part, *held_out)))),
    )


def _measure_of(
    ops: ModuleType, model: Model, parts: list[Examples], training: TrainingConfig, options: argparse.Namespace
) -> Measure | None:
    """Return the metric to select the best checkpoint by; None for loss and accuracy."""
    name = training.select
    if name not in METRICS[options.name] or name == "accuracy":
        return None
    return Measure(name, lambda p: _metrics(ops, replace(model, parameters=p), parts, options.name)[name])


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics on the development files, and the numbers of examples and of those cut for their length."""
    name = settings["name"]
    room = _room(model.module, model.config)
    parts, n_cut = _development_examples(read_development(name, data), name, model.vocabulary, room)
    return {"examples": sum(map(len, parts)), "cut": n_cut} | _metrics(ops, model, parts, name)


def _metrics(ops: ModuleType, model: Model, parts: list[Examples], name: str) -> dict[str, Any]:
    """Return the metrics of a set on its development files; for a set in `PARTS` on each file."""
    labels = [part.labels for part in parts]
    answers = [_answers(ops, model, part) for part in parts]
    if name not in PARTS:
        labels, answers = [np.concatenate(labels)], [np.concatenate(answers)]
    names = PARTS.get(name, (name,))
    figures: dict[str, Any] = {}
    for metric_name, metric in METRICS[name].items():
        values = {part: metric(y, a) for part, y, a in zip(names, labels, answers, strict=True)}
        figures[metric_name] = values if name in PARTS else values[name]
    return figures


def _answers(ops: ModuleType, model: Model, examples: Examples) -> np.ndarray:
    """Return the classes or the scores that a model gives to examples [n]."""
    batches = _batches(model.module, model.vocabulary, examples, fine_tuning.TRAINING.batch_size, ops=ops)
    rows = [host(model.module.class_logits(ops, model.config, model.parameters, batch)) for batch in batches]
    logits = np.concatenate(rows)
    return logits.argmax(axis=1) if logits.shape[1] > 1 else logits[:, 0]


def _recipe(name: str, training: TrainingConfig) -> TrainingConfig:
    """Return the training of a set, with the measure that selects the best checkpoint.

    CoLA has Matthews' correlation, for always answering one class has a high accuracy; scores have no accuracy.
    """
    if name == "cola":
        return replace(training, select="matthews")
    return training if SETS[name].classes else replace(training, select="loss")


def _room(model: ModuleType, config: Any) -> int:
    """Return the most tokens of an example, with its symbols."""
    room: int = config.n_positions - (model is gpst)
    return room


def _batches(model: ModuleType, vocabulary: Any, examples: Examples, size: int, **batching: Any) -> SentenceBatches:
    """Return the batches of a model, with its symbols around the sentences."""
    if model is albert:
        return SentenceBatches(between_symbols(examples, vocabulary), size, **batching)
    return SentenceBatches(examples, size, in_contexts=True, **batching)


def _vocabulary(vocabulary: Any) -> str:
    if isinstance(vocabulary, AlbertPieces):
        return f"vocabulary: {len(vocabulary):,} pieces"
    return described(vocabulary)


def _training_examples(
    part: Part, options: argparse.Namespace, vocabulary: Any, room: int
) -> tuple[Examples, list[str]]:
    """Return the training examples that are short enough, and a note on the others."""
    corpus, most = SETS[options.name], min(options.max_tokens or room, room)
    every = encode_examples(part.path, part.examples, vocabulary.encode_words, corpus.classes, len(corpus.texts))
    data = without_long(every, most)
    if not len(data):
        limit = f"--max-tokens {options.max_tokens}" if options.max_tokens else "n_positions"
        raise ValueError(
            f"{limit}: every training example has more than {most} tokens; use {every.sizes.min()} or more"
        )
    n = len(every) - len(data)
    return data, [f"left out: {n:,} training examples of more than {most:,} tokens"] if n else []


def _development_examples(parts: Sequence[Part], name: str, vocabulary: Any, room: int) -> tuple[list[Examples], int]:
    """Return the examples of the development files, and how many were cut to the room of a context."""
    corpus = SETS[name]
    cut_parts = [
        cut_long(
            encode_examples(part.path, part.examples, vocabulary.encode_words, corpus.classes, len(corpus.texts)), room
        )
        for part in parts
    ]
    return [examples for examples, _ in cut_parts], sum(n for _, n in cut_parts)


def _labels(classes: tuple[str, ...]) -> str:
    return f"{len(classes)} classes" if classes else "scores"


def _broken(part: Part) -> str:
    """Return a note on the broken lines of a file; "" if there are none."""
    numbers = ", ".join(map(str, part.broken))
    return f"left out: lines of {part.path} that have other columns, or no words: {numbers}" if numbers else ""
