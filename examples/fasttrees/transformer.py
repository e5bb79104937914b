"""A small Transformer with and without the FastTrees block after its self-attention: agreement and arithmetic.

    python -m examples.fasttrees.transformer

Agreement: is the verb after these generated words singular or plural? Training has at most one noun between subject and
verb, the test has two. Arithmetic: from "x=85,y=-523,x*y" to "-44455", by characters. The paper trains a larger model
for 10,000 and 100,000 steps. The models here take 100 and 1,000 steps, so that arithmetic is scored by characters too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from accel.tasks.numbers import at_least
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from examples.commands import finish, grove, set_options, table
from examples.program import run_program

MODELS = {
    "transformer": "Transformer",
    "fasttrees": "FastTrees Transformer",
    "conv_fasttrees": "Conv. FastTrees Transformer",
}
SETTINGS = (
    *("d_model=64", "d_ff=256", "warmup_steps=20", "maximum_rate=2e-3", "label_smoothing=0", "keep_checkpoints=0"),
    *("dropout=0", "attention_dropout=0", "relu_dropout=0"),
)


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Train both tasks; return the accuracies of every model."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.fasttrees.transformer", description="Transformers with and without the block"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/fasttrees/transformer"))
    parser.add_argument("--agreement-steps", type=at_least(1), default=100)
    parser.add_argument("--arithmetic-steps", type=at_least(1), default=1000)
    parser.add_argument("--sentences", type=at_least(1), default=5_000, help="to learn agreement from")
    parser.add_argument("--problems", type=at_least(1), default=50_000, help="to learn arithmetic from")
    parser.add_argument("--seed", type=at_least(0), default=0)
    options = parser.parse_args(arguments)
    figures = {}
    for model, title in MODELS.items():
        runs = {}
        for task, steps, size in (
            ("agreement", options.agreement_steps, ("--sentences", options.sentences, "--batch-size", 64)),
            ("arithmetic", options.arithmetic_steps, ("--problems", options.problems, "--batch-size", 1024)),
        ):
            run = options.out / f"{task}-{model}"
            interval = f"validate_every={max(1, steps // 5)}"
            sizes = ("--steps", steps, *size, "--seed", options.seed, *set_options((*SETTINGS, interval)))
            grove("train", "--task", task, "--model", model, "--out", run, "--resume", *sizes)
            runs[task] = run
        figures[title] = _figures(runs["agreement"], runs["arithmetic"])
    print(f"\nIn %, after few steps:\n\n{table(figures, list(figures[title]))}")
    finish(__file__, figures, options.out)
    return figures


def _figures(agreement: Path, arithmetic: Path) -> dict[str, float]:
    accuracy = json.loads((agreement / "evaluation.json").read_text(encoding="utf-8"))["accuracy"]
    return {
        "agreement, one noun between": _validations(agreement)[-1],
        "agreement, two": accuracy["all"],
        "arithmetic, characters": max(_validations(arithmetic)),
        "arithmetic, answers": json.loads((arithmetic / "evaluation.json").read_text(encoding="utf-8"))["accuracy"],
    }


def _validations(run: Path) -> list[float]:
    return [line["validation_accuracy"] for line in read_metrics(run / METRICS) if "validation_accuracy" in line]


if __name__ == "__main__":
    run_program(main)
