"""`grove import`: a run's directory from the weights of a language model trained by the released code."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from accel.data.batches.text import read_text
from accel.data.vocabularies.words import build_words
from accel.models.fasttrees.stack import KINDS
from accel.trained.released import read_released
from accel.training.checkpoint import Checkpoint, CheckpointError, save
from accel.training.directory import VOCABULARY, digest, save_settings, write_text
from accel.training.run import BEST, METRICS, NEWEST, TrainingError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("weights", type=Path, metavar="FILE", help="a safetensors file with the released names")
    parser.add_argument("--model", choices=KINDS, required=True)
    parser.add_argument(
        "--text",
        type=Path,
        nargs="+",
        required=True,
        metavar="TEXT",
        help="the texts that gave the words their numbers, in order: as a rule training, validation and test text",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY", help="the directory to write")


def run(options: argparse.Namespace) -> int:
    directory: Path = options.out
    if any((directory / name).exists() for name in (METRICS, NEWEST, BEST)):
        raise TrainingError(f"{directory}: holds a run already: choose another directory")
    config, parameters = read_released(options.weights, options.model)
    words = build_words(line for path in options.text for _, line in read_text(path))
    if len(words) != config.vocabulary_size:
        raise CheckpointError(
            f"{options.weights}: has {config.vocabulary_size} words, but the texts have {len(words)} different ones"
        )
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / VOCABULARY, words.to_json() + "\n")
    save_settings(directory, None, {"task": "language_model", "kind": options.model, "data": None, "test": None})
    state = {"model": "language_model", "config": asdict(config), "vocabulary": digest(words), "step": 0}
    save(directory / BEST, Checkpoint(parameters, state))
    print(directory / BEST)
    return 0
