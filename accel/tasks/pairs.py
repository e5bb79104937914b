"""Options, jobs and scores that the tasks of sequence pairs share."""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.batches.sequence_pairs import (
    UNKNOWN,
    Column,
    Pairs,
    Split,
    TextPair,
    encode_pairs,
    load_parallel,
    pair_batches,
    read_parallel,
)
from accel.data.corpora.parallel import PARTS, find_ends, find_stem, stems_with
from accel.data.files.json_lines import Field
from accel.data.files.lines import find_file
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.encoder_decoder.model import Config
from accel.search.translations import translations as translate
from accel.tasks.encoder_decoder import (
    TRAINING,
    add_model_arguments,
    configured_transformer,
    sequence_accuracy,
)
from accel.tasks.job import Job, require_data, shared
from accel.tasks.vocabulary import MOST, add_vocabulary, described, open_to_words, size_of, stored_vocabulary
from accel.trained.average import averaged
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.directory import write_text
from accel.training.last_checkpoints import kept_checkpoints
from accel.training.settings import TrainingConfig

AVERAGED = 8
EVALUATION = ("beam", "length_penalty", "extra_length", "average", "write")
"""The options of `grove evaluate` for tasks whose targets are written by beam search."""
OTHER_DATA = "name a folder that has it with --data"


def add_parallel_arguments(
    parser: argparse.ArgumentParser, ends: Sequence[str | None], stems: Sequence[str | None], vocabulary: str,
    size: str, others: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Add the options of a task that reads files STEM.SOURCE and STEM.TARGET, with these defaults.

    Where a default is None, `parallel_names` looks for the name in the folder.
    """
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with the files STEM.SOURCE and STEM.TARGET")
    for name, end in zip(("source", "target"), ends, strict=True):
        default = end or "the other one, if the folder has two"
        parser.add_argument(f"--{name}", default=end, help=f"the ending of {name} files (default: {default})")
    for part, stem in zip(PARTS, stems, strict=True):
        default = stem or f"that of the files with such a name: {', '.join(PARTS[part])}"
        help_text = f"the name of the {part} files without their endings (default: {default})"
        parser.add_argument(f"--{part}-stem", default=stem, metavar="STEM", help=help_text)
    add_vocabulary(parser, vocabulary, MOST, MOST)
    help_text = "what --batch-size counts: tokens of both sides, or of the longer one, as Tensor2Tensor and fairseq do"
    parser.add_argument("--batch-by", choices=("both", "longer"), default="both", help=f"{help_text} (both)")
    add_model_arguments(parser, size, others)


def parallel_files(folder: Path, settings: dict[str, Any], name: str, use: str = "") -> tuple[Column, Column]:
    """Return the source and the target for training, validation or test: two files, or two fields of one file.

    If one is missing, the error ends with the advice `use`, or else names the options of `grove train`.
    """
    ends = _ends_of(settings)
    stem = settings[f"{name}_stem"] or find_stem(folder, ends, PARTS[name], f"--{name}-stem")
    if stem is None:
        names = " and ".join(f"{PARTS[name][0]}.{end}" for end in ends)
        raise ValueError(f"{folder}: no files with a name such as {names}")
    try:
        first, *others = (find_file(folder, f"{stem}.{end}") for end in ends)
        if others:
            return first, others[0]
        article, summary = settings["fields"]
        return Field(first, article), Field(first, summary)
    except FileNotFoundError as error:
        use = use or f"use {'--source, --target and ' * (len(ends) > 1)}--{name}-stem for other names"
        raise ValueError(f"{error.filename}: no such file, nor one ending in .xz or .gz; {use}") from error


def tested_files(data: Path, settings: dict[str, Any]) -> tuple[Column, Column]:
    """Return the test files that `evaluate` of a task reads."""
    return parallel_files(data, settings, "test", OTHER_DATA)


def _ends_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the endings of the files of one part of the data."""
    return ("jsonl",) if settings.get("fields") else (settings["source"], settings["target"])


def parallel_names(options: argparse.Namespace) -> tuple[str, ...]:
    """Set the endings and the stems of the files that the options do not give, and return a line that names them.

    Without test files the model is not evaluated after the training.

    Raises
    ------
    ValueError
        If the folder has no such files, or several; the message names the option to give.
    """
    folder = options.data
    if not getattr(options, "fields", None):
        options.source, options.target = find_ends(folder, options.source, options.target)
    ends = _ends_of(vars(options))
    for part, names in PARTS.items():
        if getattr(options, f"{part}_stem") is None:
            stem = find_stem(folder, ends, names, f"--{part}-stem")
            if stem is None and part != "test":
                stems = stems_with(folder, ends)
                none = "no pair of files with these endings" if len(ends) > 1 else "no file with this ending"
                has = f"it has {', '.join(stems) or none}"
                file_names = " and ".join(f"{names[0]}.{end}" for end in ends)
                raise ValueError(f"{folder}: no {file_names}: {has}; use --{part}-stem")
            setattr(options, f"{part}_stem", stem)
    stems = (f"{part} {getattr(options, f'{part}_stem') or 'none'}" for part in PARTS)
    first, second = getattr(options, "fields", None) or ends
    return (f"files: {', '.join(stems)}; from {first} to {second}",)


def read_test(options: argparse.Namespace) -> None:
    """Read the test files, if there are some, so that errors in them are reported before the training."""
    if options.test_stem is not None:
        deque(read_parallel(*parallel_files(options.data, vars(options), "test")), maxlen=0)


def build_parallel(
    options: argparse.Namespace,
    ops: ModuleType,
    group: Communicator,
    recipe: TrainingConfig,
    split: Split = str.split,
    check: Callable[[argparse.Namespace], object] = read_test,
) -> Job:
    """Return the job of learning parallel files; source and target share one vocabulary. `check` reads the test."""
    configured_transformer(options, recipe, 1)  # refuses impossible values before anything is read
    require_data(options)
    names = parallel_names(options)
    check(options)
    training_files, validation_files, *_ = (
        parallel_files(options.data, vars(options), name) for name in PARTS if getattr(options, f"{name}_stem")
    )
    vocabulary = stored_vocabulary(options)
    if vocabulary is None:
        words = (words for pair in read_parallel(*training_files, split) for words in pair)
        size = size_of(options.vocabulary, options.vocabulary_size, MOST, MOST)
        vocabulary = build_of_words(words, options.vocabulary, **size)
    config, training = configured_transformer(options, recipe, len(vocabulary))
    longer = options.batch_by == "longer"
    with open_to_words():
        pairs, validation = (
            load_parallel(*files, vocabulary, training.batch_size, split, longer=longer)
            for files in (training_files, validation_files)
        )
    job = job_of_pairs(config, training, vocabulary, pairs, validation, ops, group, longer)
    return replace(job, notes=(described(vocabulary), *names))


def best_and_average(ops: ModuleType, model: Model, average: int | None = None) -> dict[str, Model]:
    """Return by name the best model of a run, and the average of its last checkpoints, up to eight.

    With `average`, return only the average of that many checkpoints.
    """
    candidates = {"best": model} if average is None else {}
    count = min(AVERAGED, len(kept_checkpoints(model.path.parent))) if average is None else average
    if count > 1 or average is not None:
        candidates[f"average of {count}"] = averaged(ops, model, count)
    return candidates


def outputs_of(
    ops: ModuleType, model: Model, write_all: Callable[[Model], list[list[str]]], average: int | None,
    write: Path | None,
) -> dict[str, list[list[str]]]:  # fmt: skip
    """Return the outputs of each model of `best_and_average` by name; those of the first one go to the file `write`.

    The file has one output a line, its words between blanks.
    """
    outputs = {name: write_all(candidate) for name, candidate in best_and_average(ops, model, average).items()}
    if write is not None:
        lines = (" ".join(words) for words in next(iter(outputs.values())))
        write_text(write, "".join(f"{line}\n" for line in lines))
    return outputs


def translations(ops: ModuleType, model: Model, sources: Sequence[Sequence[str]], **options: Any) -> list[list[str]]:
    """Return the words of the best targets; `options` are those of `accel.search.translations.translations`."""
    return [list(target.words) for target in translate(ops, model, sources, **options)]


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
        known_pairs = [pair for pair in encoded if not np.isin(pair[1], unknown).any()]
        longest = max((len(source) + len(target) + 2 for source, target in known_pairs), default=0)
        batches = pair_batches(known_pairs, max(longest, TRAINING.batch_size), ops=ops) if known_pairs else []
        share_of_known = sequence_accuracy(ops, model.config, model.parameters, batches)
        shares[kind] = share_of_known * len(known_pairs) / len(of_kind)
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
    longer: bool = False,
) -> Job:
    """Return the job of learning pairs, with a held-out set for validation."""
    batching = shared(ops, group, training) | {"longer": longer}
    return Job(
        encoder_decoder,
        config,
        training,
        vocabulary,
        pair_batches(pairs, training.batch_size, seed=training.seed, epochs=None, **batching),
        lambda: pair_batches(held_out, training.batch_size, **batching),
        f"{len(pairs):,} pairs, {len(held_out):,} held out",
        notes=(f"vocabulary: {len(vocabulary):,} ids, of sources and targets",),
    )
