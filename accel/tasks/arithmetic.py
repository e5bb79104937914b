"""Mathematical language understanding: from ``x=85,y=-523,x*y`` to ``-44455`` (FastTrees, section 4.6).

Problems are generated; a tenth of all combinations of numbers and operator is held out. The paper trains for 100,000
steps. The score is the share of answers that are right to the last character.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sequence_pairs import Pairs, pair_batches
from accel.data.generated.arithmetic import VOCABULARY, Problems, encode, read_problems
from accel.tasks.encoder_decoder import TRAINING, add_model_arguments, configured_transformer, sequence_accuracy
from accel.tasks.job import Job, refuse_beside_data
from accel.tasks.numbers import at_least
from accel.tasks.pairs import job_of_pairs
from accel.trained.opening import Model
from accel.training.communicator import Communicator

GENERATES = True  # its data, if no file is given
STEPS, N_PROBLEMS, N_VALIDATION, N_TEST = 100_000, 10_000_000, 1_000, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FILE", help="lines problem:answer (default: generated problems)")
    parser.add_argument("--test", type=Path, metavar="FILE", help="problems to test on (default: generated ones)")
    parser.add_argument(
        "--problems", type=at_least(1), default=N_PROBLEMS, help=f"how many to generate ({N_PROBLEMS:,})"
    )
    add_model_arguments(parser, "tiny")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    refuse_beside_data(options, "problems", N_PROBLEMS)
    recipe = replace(TRAINING, steps=STEPS, select="accuracy")
    config, training = configured_transformer(options, recipe, len(VOCABULARY))
    problems = _problems(options.data) if options.data else Problems(options.problems, training.seed)
    if options.test is not None:
        _problems(options.test)  # reports its errors before the training
    held_out = Problems(N_VALIDATION, training.seed + 1, "test")
    return job_of_pairs(config, training, VOCABULARY, problems, held_out, ops, group)


def evaluate(ops: ModuleType, model: Model, data: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the share of right answers to problems that never occur in training, or to those of a file."""
    problems = _problems(data) if data else Problems(N_TEST, 0, "test")
    batches = pair_batches(problems, TRAINING.batch_size, ops=ops)
    return {"accuracy": sequence_accuracy(ops, model.config, model.parameters, batches)}


def _problems(path: Path) -> Pairs:
    return [encode(text, value) for text, value in read_problems(path)]
