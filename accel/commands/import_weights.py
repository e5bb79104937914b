"""`grove import`: a run's directory from published weights: of a language model of FastTrees, or of an ALBERT."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accel.commands.opened import check_folder
from accel.data.batches.text import read_text
from accel.data.vocabularies.words import build_words
from accel.models.albert import config as albert
from accel.models.fasttrees.stack import KINDS
from accel.trained.albert_weights import HEADS, read_albert
from accel.trained.released import read_released
from accel.training.checkpoint import Checkpoint, CheckpointError, Tensors, save
from accel.training.directory import SETTINGS, VOCABULARY, digest, save_settings, write_text
from accel.training.run import BEST, METRICS, NEWEST, TrainingError

PUBLISHED = ("fasttrees", "albert")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "weights", type=Path, metavar="PATH", help="a safetensors file with the released names, or an ALBERT's folder"
    )
    help_text = "FastTrees' language models; or an ALBERT: config.json, spiece.model and its weights (fasttrees)"
    parser.add_argument("--kind", choices=PUBLISHED, default=PUBLISHED[0], help=help_text)
    parser.add_argument("--model", choices=KINDS, help="of FastTrees: the cells")
    parser.add_argument(
        "--text",
        type=Path,
        nargs="+",
        metavar="TEXT",
        help="of FastTrees: the texts that gave the words their numbers: as a rule training, validation and test text",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY", help="the directory to write")


def run(options: argparse.Namespace) -> int:
    directory: Path = options.out
    check_folder(directory)
    if any((directory / name).exists() for name in (METRICS, NEWEST, BEST)):
        raise TrainingError(f"{directory}: holds a run already: choose another directory")
    for name in (SETTINGS, VOCABULARY):
        if (directory / name).exists():
            raise TrainingError(f"{directory / name}: is there already: choose another directory")
    if options.weights.is_dir() and directory.is_dir() and directory.samefile(options.weights):
        raise ValueError(f"--out {directory}: this command reads it: name another directory")
    if options.kind == "albert":
        _import_albert(options)
    else:
        _import_language_model(options)
    print(directory / BEST)
    return 0


def _import_language_model(options: argparse.Namespace) -> None:
    for name in ("model", "text"):
        if getattr(options, name) is None:
            raise ValueError(
                f"--{name} is missing: a language model of FastTrees needs it; use --kind albert for ALBERT"
            )
    config, parameters = read_released(options.weights, options.model)
    words = build_words(line for path in options.text for _, line in read_text(path))
    if len(words) != config.vocabulary_size:
        raise CheckpointError(
            f"{options.weights}: has {config.vocabulary_size} words, but the texts have {len(words)} different ones"
        )
    settings = {"task": "language_model", "kind": options.model, "data": None, "test": None}
    _write(options.out, "language_model", config, parameters, words, settings)


def _import_albert(options: argparse.Namespace) -> None:
    for name in ("model", "text"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name}: is for language models of FastTrees; leave it out")
    config, parameters, pieces = read_albert(options.weights)
    new_parameters = {name: x for name, x in albert.initialise(config, 0).items() if name not in parameters}
    if new_parameters:
        heads = [name for name in HEADS if any(key.startswith(name) for key in new_parameters)]
        print(f"not among the weights, drawn at random: {', '.join(heads)}")
    settings = {"task": "masked_words", "data": None, "validation": None, "test": None}
    _write(options.out, "albert", config, parameters | new_parameters, pieces, settings)


def _write(
    directory: Path, model: str, config: Any, parameters: Tensors, vocabulary: Any, settings: dict[str, Any]
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / VOCABULARY, vocabulary.to_json() + "\n")
    save_settings(directory, None, settings)
    state = {"model": model, "config": asdict(config), "vocabulary": digest(vocabulary), "step": 0}
    save(directory / BEST, Checkpoint(parameters, state))
