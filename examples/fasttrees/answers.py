"""Which test pairs of logical inference a trained model answers right, so that two models are compared pair by pair.

    python -m examples.fasttrees.answers --checkpoint RUN --data FOLDER --out answers.json

The file holds, for every length of formulas, the number of pairs, and one bit for each pair, 1 for a right answer, as
hexadecimal digits. The order of the pairs is the same for all models.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import accel
from accel.autodiff.arrays import host
from accel.data.batches.sentences import SentenceBatches
from accel.data.generated.logic import LONGEST, load_test
from accel.tasks.logic import TRAINING
from accel.trained.opening import Model, open_model
from accel.training.directory import write_text
from examples.program import run_program

Answers = dict[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.fasttrees.answers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--checkpoint", type=Path, required=True, help="a run of grove train --task logic, or its file")
    parser.add_argument("--data", type=Path, required=True, help="the folder with test0 to test12")
    parser.add_argument("--out", type=Path, required=True, help="the file that is written")
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args(arguments)
    ops = accel.load(options.backend)
    answers = answers_of(ops, open_model(ops, options.checkpoint), options.data)
    write_text(options.out, json.dumps({"answers": answers}, indent=1) + "\n")


def answers_of(ops: ModuleType, model: Model, data: Path) -> Answers:
    """Return which pairs of every length are answered right."""
    answers = {}
    for length in range(LONGEST + 1):
        right = []
        for batch in SentenceBatches(load_test(data, length), TRAINING.batch_size, ops=ops):
            right.append(host(model.module.scores(ops, model.config, model.parameters, batch, None)[1]))
        bits = np.concatenate(right)
        answers[str(length)] = {"pairs": len(bits), "right": np.packbits(bits).tobytes().hex()}
    return answers


def right_of(answers: Answers, lengths: str) -> np.ndarray:
    """Return the bits of one length of formulas, or of several.

    >>> of = {"9": {"pairs": 3, "right": "a0"}, "10": {"pairs": 1, "right": "80"}}
    >>> right_of(of, "9"), right_of(of, "9 to 10")
    (array([1, 0, 1], dtype=uint8), array([1, 0, 1, 1], dtype=uint8))
    """
    first, _, last = lengths.partition(" to ")
    every = [answers[str(length)] for length in range(int(first), int(last or first) + 1)]
    bits = [np.frombuffer(bytes.fromhex(of["right"]), np.uint8) for of in every]
    return np.concatenate([np.unpackbits(x, count=of["pairs"]) for x, of in zip(bits, every, strict=True)])


if __name__ == "__main__":
    run_program(main)
