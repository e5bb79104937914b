"""Three short trainings by `grove train`, on the GPU and on the CPU: their losses, step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu_report.records import Row, Setting, write

FOLDER = "trainings"
SENTENCES, SMALL_SENTENCES = 2000, 60
COMMON = {"validate_every": 10**6, "checkpoint_every": 20}
TRAININGS: dict[str, tuple[int, int, str, dict[str, Any]]] = {
    "Transformer Grammar": (
        100, 32, "--task trees --model tg --data {trees}",
        {"warmup_steps": 10, "embedding_dropout": 0.1, "core_dropout": 0.1, "output_dropout": 0.1},
    ),
    "FastTrees": (
        100, 16, "--task language_model --model fasttrees --data {text} --min-count 1 --length 35",
        {"embedding_size": 64, "hidden_size": 64, "chunk_size": 8, "optimizer": "adam", "schedule": "cosine",
         "warmup_steps": 10, "maximum_rate": 1e-2},
    ),
    "GPST": (
        40, 4, "--task gpst --sentence-a-line --vocabulary words --data {text} --max-tokens 64",
        {"d_model": 64, "d_compose": 64, "n_heads": 2, "type_layers": 1, "token_layers": 1},
    ),
}  # fmt: skip
"""The number of steps, the size of a batch, options and settings; data are drawn from the embedded grammar."""
SMALL: dict[str, dict[str, Any]] = {
    "Transformer Grammar": {"d_model": 16, "d_ff": 16, "n_layers": 1, "n_heads": 2, "warmup_steps": 1},
    "FastTrees": {"embedding_size": 8, "hidden_size": 8, "chunk_size": 4, "n_layers": 1, "warmup_steps": 1},
    "GPST": {
        "d_model": 16,
        "d_compose": 16,
        "token_layers": 1,
        "compose_layers": 1,
        "parser_layers": 1,
        "d_parser": 16,
    },
}
WAYS = {
    "cuda": "", "cuda, graphs": "--kernels fast --graphs", "cuda, bf16": "--precision bf16 --kernels fast", "cpu": "",
}  # fmt: skip


def rows(setting: Setting) -> Iterator[Row]:
    setting.ops()
    draw(setting)
    for way in WAYS:
        for name in TRAININGS:
            yield f"{name} | {way}", partial(train, setting, name, way)


def draw(setting: Setting) -> None:
    """Write generated trees, and their sentences."""
    from accel.data.generated.grammar import ENGLISH
    from accel.evaluation.evalb_input import with_tags
    from refimpl.trees import words

    folder = setting.out / FOLDER
    folder.mkdir(exist_ok=True)
    trees = list(ENGLISH.sample(SMALL_SENTENCES if setting.small else SENTENCES, seed=1))
    write(folder / "train.trees", "".join(f"{with_tags(tree, ['X'] * len(words(tree)))}\n" for tree in trees))
    write(folder / "train.txt", "".join(" ".join(words(tree)) + "\n" for tree in trees))


def train(setting: Setting, name: str, way: str) -> dict[str, Any]:
    """Train, or continue, and return the loss of every step."""
    from accel.cli import main

    folder = setting.out / FOLDER
    directory = folder / f"{name} {way}".lower().replace(" ", "-").replace(",", "")
    steps, size, options, values = TRAININGS[name]
    values = COMMON | values | (SMALL[name] if setting.small else {})
    paths = {"trees": folder / "train.trees", "text": folder / "train.txt"}
    command = ["train", "--resume", "--backend", way.partition(",")[0], "--out", str(directory)]
    command += ["--steps", str(2 if setting.small else steps), "--seed", "1", *WAYS[way].split()]
    command += ["--batch-size", str(2 if setting.small else size)]
    command += [word.format(**paths) for word in options.split()]
    command += [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    status = main(command)
    if status:
        raise RuntimeError(f"grove {' '.join(command)}: status {status}: see trainings.log")
    return curve(directory)


def curve(directory: Path) -> dict[str, Any]:
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {"losses": [json.loads(line)["loss"] for line in lines]}
