"""Results that no command prints: losses and gradients in float64, other backends, and generated data.

Except for `accel.cli`, all names of modules of `accel` that the snapshot needs are in this file.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import accel
from accel.commands import train
from accel.data.generated import agreement, arithmetic, grammar, logic
from accel.training.communicator import serial

TASKS = "accel.tasks"
N_BATCHES = 2  # the second one has the memory of the first
DROPOUT_SEED = 7


def gradients(folder: Path, arguments: list[str], backend: str, dtype: str) -> dict[str, Any]:
    """Return losses and gradients of a training's first batches, without and with dropout, and log-probabilities."""
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    out = str(folder / "gradients" / f"{backend}-{dtype}")
    arguments = [*arguments[1:], "--out", out]
    train.prepare(arguments, parser)
    options = parser.parse_args(arguments)
    ops = accel.load(backend)
    job = import_module(f"{TASKS}.{options.task}").build(options, ops, serial())
    draw = np.random.default_rng(5)
    initial = job.model.initialise(job.config, 3) | dict(job.initial or {})
    parameters = {  # nothing at 0 or 1
        name: ops.xp.asarray((x + 0.1 * draw.standard_normal(x.shape)).astype(dtype)) for name, x in initial.items()
    }
    results: dict[str, Any] = {}
    passes: dict[str, int | None] = {"without dropout": None, "with dropout": DROPOUT_SEED}
    if backend == "ref":  # whose gradients are slow, and of GPST not the same bits in every process
        passes = {} if dtype == "float32" or options.task == "gpst" else {"with dropout": DROPOUT_SEED}
    memory: dict[str, Any] = dict.fromkeys([*passes, "scored"])
    try:
        for number, batch in enumerate(islice(job.batches, 1 if backend == "ref" else N_BATCHES), 1):
            for name, seed in passes.items():
                loss, gradients, memory[name] = job.model.loss_and_grad(
                    ops, job.config, parameters, batch, memory[name], dropout_seed=seed
                )
                # copies, since the next call may write there
                gradients = {key: np.array(gradient) for key, gradient in gradients.items()}
                results[f"batch {number} {name}"] = {"loss": float(loss), "gradients": gradients}
            score = getattr(job.model, "token_logps", None) or job.model.scores
            logp, *_, memory["scored"] = score(ops, job.config, parameters, batch, memory["scored"])
            results[f"batch {number} log p"] = np.array(logp)
    finally:
        if hasattr(job.batches, "close"):
            job.batches.close()
    return results


def generated() -> dict[str, Any]:
    """Return samples of the embedded grammars and tasks."""
    english = grammar.ENGLISH
    trees = list(english.sample(50, 3))
    formulas = islice(logic.generate(4), 50)
    return {
        "entropy": [english.entropy, english.perplexity, english.expected_words, english.tree_logp(trees[0])],
        "minimal pairs": [str(x) for kind in grammar.CONSTRUCTIONS for x in grammar.minimal_pairs(kind, 5, 7)],
        "trees": [str(tree) for tree in trees],
        "proposals": [str(tree) for k, tree in enumerate(trees[:9]) for tree in grammar.proposals(tree, 4, k)],
        "formulas": [f"{logic.relation(a.worlds, b.worlds)} {a.text} {b.text}" for a, b in formulas],
        "agreement": [str(item) for item in agreement.generate(50, 5)],
        "arithmetic": [str(arithmetic.Problems(50, 6)[k]) for k in range(50)],
    }
