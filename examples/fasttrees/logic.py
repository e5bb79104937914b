"""Logical inference with small models: the paper's Table 2 in three minutes.

    python -m examples.fasttrees.logic

Trains small models on generated pairs of formulas with up to six operators, and tests them on up to twelve. `grove
train --task logic` without these settings trains as the released code does, for hours. The released code draws its
first embeddings between -0.1 and 0.1; here their deviation is 1, so that a few epochs are enough.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.data.generated.logic import LONGEST, load_test, write_files
from accel.tasks.numbers import at_least
from accel.training.directory import write_text
from examples.commands import finish, grove, set_options, table
from examples.program import run_program

MODELS = {"on_lstm": "ON-LSTM", "fasttrees": "FastTrees", "conv_fasttrees": "Conv. FastTrees"}
SETTINGS = (
    *("embedding_size=64", "hidden_size=100", "mlp_size=100", "dropout=0", "conv_dropout=0", "embedding_range=1.7"),
    *("batch_size=64", "maximum_rate=2e-3"),
)


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Generate, train, test; return the accuracy of every model on every length."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.fasttrees.logic", description="logical inference, small models"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/fasttrees/logic"))
    parser.add_argument("--samples", type=at_least(1), default=100_000, help="pairs to draw; repeated ones count once")
    parser.add_argument("--epochs", type=at_least(1), default=4)
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the models; the data are always the same")
    parser.add_argument("--models", choices=MODELS, nargs="*", default=list(MODELS), help="none: write the data only")
    options = parser.parse_args(arguments)
    data, count_file = options.out / "data", options.out / "samples"
    if count_file.exists() and count_file.read_text(encoding="utf-8") != f"{options.samples}\n":
        raise SystemExit(f"--samples: {data} has {count_file.read_text(encoding='utf-8').strip()}: give another --out")
    if not (data / f"test{LONGEST}").exists():
        write_files(data, options.samples, seed=1)
        write_text(count_file, f"{options.samples}\n")
    figures = {}
    for kind in options.models:
        title = MODELS[kind]
        sizes = ("--epochs", options.epochs, "--seed", options.seed, *set_options(SETTINGS))
        run = options.out / kind
        grove("train", "--task", "logic", "--model", kind, "--data", data, "--out", run, "--resume", *sizes)
        figures[title] = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["accuracy"]
    if not figures:
        return figures
    tests = {str(length): load_test(data, length).labels for length in range(LONGEST + 1)}
    majority = {length: float(np.bincount(labels).max() / len(labels)) for length, labels in tests.items()}
    rows = table(figures | {"always the most frequent": majority}, list(tests))
    print(f"\nAccuracy in % by the number of operators; trained on up to 6\n\n{rows}")
    if len(figures) == len(MODELS):
        finish(__file__, figures, options.out)
    return figures


if __name__ == "__main__":
    run_program(main)
