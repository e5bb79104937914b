"""Options, jobs and scores that the tasks of sequence pairs share."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.batches.sequence_pairs import (
    UNKNOWN,
    Pairs,
    Split,
    TextPair,
    encode_pairs,
    load_parallel,
    pair_batches,
    read_parallel,
)
from accel.data.files.lines import find_file
from accel.data.vocabularies.vocabulary import KINDS, Vocabulary, build_of_words
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.encoder_decoder.model import Config
from accel.search.beam import translate
from accel.tasks.encoder_decoder import TRAINING, add_model_arguments, configured_transformer, sequence_accuracy
from accel.tasks.job import Job, require_data
from accel.trained.average import average_checkpoints, kept_checkpoints
from accel.trained.opening import Model, open_model
from accel.training.communicator import Communicator
from accel.training.directory import VOCABULARY, load_vocabulary
from accel.training.settings import TrainingConfig

AVERAGED = 8


def add_parallel_arguments(
    parser: argparse.ArgumentParser, ends: tuple[str, str], stems: tuple[str, str, str], vocabulary: str, size: str,
    others: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Add the options of a task that reads files STEM.SOURCE and STEM.TARGET, with these defaults."""
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with the files STEM.SOURCE and STEM.TARGET")
    for name, end in zip(("source", "target"), ends, strict=True):
        parser.add_argument(f"--{name}", default=end, help=f"the ending of {name} files ({end})")
    for name, stem in zip(("train", "validation", "test"), stems, strict=True):
        parser.add_argument(f"--{name}-stem", default=stem, metavar="STEM", help=f"({stem})")
    parser.add_argument("--vocabulary", choices=KINDS, default=vocabulary, help=f"the kind of tokens ({vocabulary})")
    parser.add_argument("--vocabulary-size", type=int, default=8000, metavar="V", help="the most ids (8000)")
    add_model_arguments(parser, size, others)


def parallel_files(folder: Path, settings: dict[str, Any], name: str) -> tuple[Path, Path]:
    """Return the source and the target file for training, validation or test."""
    stem = settings[f"{name}_stem"]
    return find_file(folder, f"{stem}.{settings['source']}"), find_file(folder, f"{stem}.{settings['target']}")


def build_parallel(
    options: argparse.Namespace,
    ops: ModuleType,
    group: Communicator,
    recipe: TrainingConfig,
    split: Split = str.split,
) -> Job:
    """Return the job of learning parallel files; source and target share one vocabulary."""
    require_data(options)
    training_files, validation_files = (
        parallel_files(options.data, vars(options), name) for name in ("train", "validation")
    )
    if options.resume and (options.out / VOCABULARY).exists():
        vocabulary = load_vocabulary(options.out)
    else:
        words = (words for pair in read_parallel(*training_files, split) for words in pair)
        vocabulary = build_of_words(words, options.vocabulary, options.vocabulary_size)
    config, training = configured_transformer(options, recipe, len(vocabulary))
    pairs, validation = (
        load_parallel(*files, vocabulary, training.batch_size, split) for files in (training_files, validation_files)
    )
    return job_of_pairs(config, training, vocabulary, pairs, validation, ops, group)


def best_and_average(ops: ModuleType, model: Model) -> dict[str, Model]:
    """Return by name the best model of a run, and the average of its last checkpoints, up to eight."""
    candidates = {"best": model}
    count = min(AVERAGED, len(kept_checkpoints(model.path.parent)))
    if count > 1:
        path = average_checkpoints(model.path.parent, model.module.parameter_shapes(model.config), count)
        candidates[f"average of {count}"] = open_model(ops, path)
    return candidates


def translations(ops: ModuleType, model: Model, sources: Sequence[Sequence[str]], **options: Any) -> list[list[str]]:
    """Return the words of the best targets; `options` are those of `accel.search.beam.translate`."""
    vocabulary: Vocabulary = model.vocabulary
    encoded = [vocabulary.encode_words(words) for words in sources]
    targets = translate(ops, model.config, model.parameters, encoded, **options)
    return [vocabulary.decode(target) for target in targets]


def accuracies(
    ops: ModuleType, model: Model, path: Path, pairs: Sequence[TextPair]
) -> tuple[float, dict[str | int, float]]:
    """Return the share of targets that a greedy search writes, over all pairs of a file and over each kind of pair.

    A target with a word outside the vocabulary counts as wrong.
    """
    unknown = model.vocabulary.encode_words([UNKNOWN])
    shares: dict[str | int, float] = {}
    for kind in sorted({pair.kind for pair in pairs}):
        of_kind = [pair for pair in pairs if pair.kind == kind]
        encoded = encode_pairs(path, of_kind, model.vocabulary)
        known = [pair for pair in encoded if not np.isin(pair[1], unknown).any()]
        longest = max((len(source) + len(target) + 2 for source, target in known), default=0)
        batches = pair_batches(known, max(longest, TRAINING.batch_size), ops=ops) if known else []
        share_of_known = sequence_accuracy(ops, model.config, model.parameters, batches)
        shares[kind] = share_of_known * len(known) / len(of_kind)
    counts = Counter(pair.kind for pair in pairs)
    return sum(shares[kind] * counts[kind] for kind in shares) / len(pairs), shares


def job_of_pairs(
    config: Config,
    training: TrainingConfig,
    vocabulary: Vocabulary,
    pairs: Pairs,
    held_out: Pairs,
    ops: ModuleType,
    group: Communicator,
) -> Job:
    """Return the job of learning pairs, with a held-out set for validation."""
    reading: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    return Job(
        encoder_decoder,
        config,
        training,
        vocabulary,
        pair_batches(pairs, training.batch_size, seed=training.seed, epochs=None, **reading),
        lambda: pair_batches(held_out, training.batch_size, **reading),
        f"{len(pairs):,} pairs, {len(held_out):,} held out, {len(vocabulary):,} ids ({vocabulary.kind})",
    )
