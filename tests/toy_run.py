"""A training run of seconds on a toy treebank, in this process or as a program that may be killed or run by mpirun.

    python -m tests.toy_run DIRECTORY [--resume] [--mpi] [--no-dropout] [--kill-in FUNCTION --kill-at CALL]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import accel
from accel import communicator, train
from accel.data.batches import Batches
from accel.data.treebank import encode_trees
from accel.data.vocabulary import build
from accel.models import transformer_grammar
from tests.strategies import make_tree

TREES = [make_tree("random", 2 + seed % 9, seed) for seed in range(60)]
VOCABULARY = build(TREES)
CORPUS = encode_trees(TREES, VOCABULARY)
CONFIG = transformer_grammar.Config(
    model="tg",
    vocabulary_size=len(VOCABULARY),
    d_model=16,
    d_ff=24,
    n_layers=2,
    n_heads=2,
    segment_length=8,
    memory_length=6,
    embedding_dropout=0.1,
    core_dropout=0.2,
    output_dropout=0.3,
)
SURE = replace(CONFIG, embedding_dropout=0.0, core_dropout=0.0, output_dropout=0.0)
TRAINING = train.TrainingConfig(
    batch_size=5, steps=14, warmup_steps=3, maximum_rate=5e-3, validate_every=3, checkpoint_every=4, seed=2**40 + 3
)


def run(
    directory: Path,
    *,
    config: transformer_grammar.Config = CONFIG,
    training: train.TrainingConfig = TRAINING,
    backend: str = "cpu",
    group: communicator.Communicator | None = None,
    prefetch: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Train; return the last line of metrics."""
    ops, group = accel.load(backend), group or communicator.serial()
    read = {"ops": ops, "rank": group.rank, "ranks": group.size, "prefetch": prefetch}
    with Batches(CORPUS, VOCABULARY, config, training.batch_size, seed=training.seed, epochs=None, **read) as batches:
        return train.train(
            ops,
            transformer_grammar,
            config,
            training,
            batches,
            directory,
            validation=lambda: Batches(CORPUS, VOCABULARY, config, training.batch_size, **read),
            communicator=group,
            progress=False,
            **options,
        )


def metrics(directory: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics without what the clock says."""
    lines = [json.loads(line) for line in (directory / train.METRICS).read_text().splitlines()]
    clock = ("seconds", "tokens_per_second")
    return [{name: value for name, value in line.items() if name not in clock} for line in lines]


def kill_at(module: Any, name: str, call: int) -> None:
    """Make the call of that number to a function the last thing that this process does."""
    function, calls = getattr(module, name), iter(range(1, call + 1))

    def deadly(*arguments: Any, **options: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    setattr(module, name, deadly)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--no-dropout", action="store_true")
    parser.add_argument("--kill-in", choices=("loss_and_grad", "replace"))
    parser.add_argument("--kill-at", type=int, default=1)
    options = parser.parse_args()
    if options.kill_in:
        kill_at(os if options.kill_in == "replace" else transformer_grammar, options.kill_in, options.kill_at)
    group = communicator.mpi() if options.mpi else None
    config = SURE if options.no_dropout else CONFIG
    run(options.directory, config=config, group=group, prefetch=2, resume=options.resume)


if __name__ == "__main__":
    main()
