"""Sentiment of sentences with every cell: the paper's Table 3 with small models, in minutes.

    python -m examples.fasttrees.sentiment --data sst

The folder has the trees of the Stanford Sentiment Treebank: train.txt, dev.txt and test.txt, each of which may be .gz
or .xz. Without `--vectors` the two tables of word vectors are drawn at random, for the words of the training sentences.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.data.files.lines import find_file
from accel.data.published.sentiment import read_sentiment
from accel.models.fasttrees.stack import KINDS
from accel.tasks.numbers import at_least
from accel.training.directory import write_text
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from examples import markdown, provenance
from examples.commands import grove, set_options
from examples.program import run_program
from examples.task_results import training_result, value_of
from examples.task_tables import CELLS, SENTIMENT

SETTINGS = (
    *("projection_size=64", "hidden_size=64", "chunk_size=8", "mlp_size=64", "dropout=0.2"),
    *("batch_size=128", "maximum_rate=2e-3", "least_rate=2e-4"),
)
NUMBERS = 50  # the length of a random vector


def main(arguments: Sequence[str] | None = None) -> list[dict[str, float]]:
    """Train and test every cell; return a row of figures for each of them."""
    parser = argparse.ArgumentParser(prog="python -m examples.fasttrees.sentiment", description="SST-2, small models")
    parser.add_argument("--data", type=Path, required=True, metavar="SST", help="a folder with train, dev and test.txt")
    help_text = "word vectors, as in grove train (default: random ones)"
    parser.add_argument("--vectors", type=Path, action="append", metavar="FILE", help=help_text)
    parser.add_argument("--out", type=Path, default=Path("runs/fasttrees/sentiment"))
    parser.add_argument(
        "--epochs", type=at_least(1), default=3, help="the most epochs; a training ends after four without progress (3)"
    )
    parser.add_argument("--seed", type=at_least(0), default=0)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    files = {name: find_file(options.data, f"{name}.txt") for name in ("train", "dev", "test")}
    vectors = options.vectors or [random_vectors(files["train"], options.out / f"vectors-{k}.txt", k) for k in (1, 2)]
    model_options = [word for file in vectors for word in ("--vectors", file)]
    model_options += set_options(SETTINGS)
    data = ("--data", files["train"], "--validation", files["dev"], "--test", files["test"], "--no-phrases")
    rows = []
    for kind in KINDS:
        run = options.out / f"{kind}-{options.seed}"
        more = ("--epochs", options.epochs, "--seed", options.seed, *model_options)
        grove("train", "--task", "sentiment", "--model", kind, *data, "--out", run, "--resume", *more)
        task = "fasttrees/sentiment_vectors" if options.vectors else "fasttrees/sentiment_random"
        command = f"examples.fasttrees.sentiment --data {{data}}/sst --seed {options.seed} --epochs {options.epochs}"
        command += "".join(f" --vectors {file.name}" for file in options.vectors or ())
        digests = provenance.digests([*files.values(), *(options.vectors or [])])
        result = training_result(run, task, kind, options.seed, [command], digests)
        write_text(run / "result.json", json.dumps(result, indent=1) + "\n")
        lines = read_metrics(run / METRICS)
        epochs = sum("validation_accuracy" in line for line in lines)
        rows.append({"model": kind, "accuracy": value_of(result, "accuracy"), "epochs": epochs,
                     "seconds": sum(line["seconds"] for line in lines) / epochs})  # fmt: skip
    print(f"\n{table(rows)}")
    return rows


def random_vectors(path: Path, out: Path, seed: int) -> Path:
    """Write a vector of normal numbers for every word of the training sentences, and return the file."""
    words = dict.fromkeys(word for example in read_sentiment(path) for word in example.sentences[0])
    draw = np.random.default_rng(seed)
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in draw.standard_normal(NUMBERS))}" for word in words)
    write_text(out, "\n".join(lines) + "\n")
    return out


def table(rows: Sequence[dict[str, float]]) -> str:
    """Return the rows in Markdown, beside the paper's accuracy."""
    head = ("model", "accuracy, %", "epochs", "seconds an epoch", "accuracy, paper")
    cells = []
    for row in rows:
        kind = str(row["model"])
        numbers = (f"{row['accuracy']:.1f}", f"{row['epochs']}", f"{row['seconds']:.0f}", SENTIMENT[kind])
        cells.append((CELLS[kind], *numbers))
    return markdown.table(head, cells)


if __name__ == "__main__":
    run_program(main)
