"""SCAN: from commands to actions, with longer or new commands in the test.

There is no validation file: a twentieth of the training pairs, chosen by the seed, is held out.
"""

from __future__ import annotations

import argparse
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.batches.sequence_pairs import build_of_all_words, encode_pairs
from accel.data.files.lines import find_file
from accel.data.published.scan import SPLITS, file_name, read_scan
from accel.tasks.encoder_decoder import add_model_arguments, configured_for_rare_words
from accel.tasks.job import Job, require_data
from accel.tasks.pairs import accuracies, job_of_pairs
from accel.trained.opening import Model
from accel.training.communicator import Communicator

STEPS, HELD_OUT = 20_000, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with tasks_{train,test}_SPLIT.txt")
    parser.add_argument(
        "--split", choices=SPLITS, default="simple", help="which split: what is new in its test (simple)"
    )
    add_model_arguments(parser, "tiny")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    configured_for_rare_words(options, STEPS, 1)
    require_data(options)
    path = find_file(options.data, file_name("train", options.split))
    deque(read_scan(find_file(options.data, file_name("test", options.split))), maxlen=0)  # reports errors now
    text_pairs = list(read_scan(path))
    vocabulary = build_of_all_words(text_pairs)
    config, training = configured_for_rare_words(options, STEPS, len(vocabulary))
    pairs = encode_pairs(path, text_pairs, vocabulary, training.batch_size)
    order = np.random.default_rng(training.seed).permutation(len(pairs)).tolist()
    validation, training_pairs = (
        [pairs[i] for i in sorted(part)] for part in np.split(order, [-(-len(pairs) // HELD_OUT)])
    )
    return job_of_pairs(config, training, vocabulary, training_pairs, validation, ops, group)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the share of exact answers on all test pairs, and by their number of actions."""
    path = find_file(data, file_name("test", settings["split"]))
    test, by_length = accuracies(ops, model, path, list(read_scan(path)))
    return {"accuracy": {"all": test} | {f"{n} actions": value for n, value in by_length.items()}}
