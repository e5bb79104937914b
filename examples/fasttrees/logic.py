"""Logical inference on a small scale: three minutes, and what the paper's Table 2 measures, to be seen.

    python -m examples.fasttrees.logic

Trains small models on generated pairs of formulas with up to six operators, and tests them on up to twelve. `grove
train --task logic` trains as the released code does, for hours: its embeddings start within 0.1; here they have
deviation 1, with which a few epochs do. Otherwise a run is one of `grove train`, and `grove evaluate` reads it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from types import ModuleType

import numpy as np

import accel
from accel.data.logic import LONGEST, RELATIONS, WORDS, load_test, load_training, write_files
from accel.data.sentences import SentenceBatches
from accel.models import sentence_classifier
from accel.saved import VOCABULARY, digest, save_settings, write_text
from accel.tasks.logic import TRAINING
from accel.train import train
from examples.fasttrees.commands import finish, grove, table

MODELS = {"on_lstm": "ON-LSTM", "fasttrees": "FastTrees", "conv_fasttrees": "Conv. FastTrees"}
SIZES = {"embedding_size": 64, "hidden_size": 100, "mlp_size": 100, "dropout": 0.0, "conv_dropout": 0.0}


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Generate, train, test; return the accuracy of every model on every length."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.fasttrees.logic", description="logical inference, small models"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/fasttrees/logic"))
    parser.add_argument("--samples", type=int, default=100_000, help="pairs to draw; repeated ones count once")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="of the models; the data are always the same")
    options = parser.parse_args(arguments)
    data = options.out / "data"
    if not (data / f"test{LONGEST}").exists():
        write_files(data, options.samples, seed=1)
    ops, figures = accel.load("cpu"), {}
    for kind, title in MODELS.items():
        print(f"\n{title}: {options.epochs} epochs", flush=True)
        _train(ops, kind, data, options.out / kind, options.epochs, options.seed)
        grove("evaluate", options.out / kind)
        figures[title] = json.loads((options.out / kind / "evaluation.json").read_text(encoding="utf-8"))["accuracy"]
    tests = {str(length): load_test(data, length).labels for length in range(LONGEST + 1)}
    guessing = {length: float(np.bincount(labels).max() / len(labels)) for length, labels in tests.items()}
    rows = table(figures | {"always the most frequent": guessing}, list(tests))
    print(f"\nAccuracy in % by the number of operators; trained on up to 6\n\n{rows}")
    finish("logic", figures, options.out)
    return figures


def _train(ops: ModuleType, kind: str, data: Path, run: Path, epochs: int, seed: int) -> None:
    config = sentence_classifier.Config(len(WORDS), len(RELATIONS), pair=True, kind=kind, **SIZES)
    pairs, held_out = load_training(data)
    epoch = ceil(len(pairs) / 64)
    settings = {"batch_size": 64, "maximum_rate": 3e-3, "steps": epochs * epoch, "validate_every": epoch, "seed": seed}
    embedding = np.random.default_rng(seed).standard_normal((len(WORDS), config.embedding_size), np.float32)
    run.mkdir(parents=True, exist_ok=True)
    write_text(run / VOCABULARY, WORDS.to_json())
    save_settings(run, None, {"task": "logic", "data": str(data.resolve())})
    train(
        ops,
        sentence_classifier,
        config,
        replace(TRAINING, **settings),
        SentenceBatches(pairs, 64, ops=ops, seed=seed, epochs=None),
        run,
        validation=lambda: SentenceBatches(held_out, 64, ops=ops),
        vocabulary=digest(WORDS),
        initial={"embedding": embedding},
        resume=True,
    )


if __name__ == "__main__":
    main()
