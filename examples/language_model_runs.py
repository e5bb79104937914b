"""The language models that `examples.queue` trains, for FastTrees' Tables 1 and 7: two sizes on the Penn Treebank.

The trees of all layers are compared with the gold trees. The medium size has one seed, the small one has three.
"""

from __future__ import annotations

from dataclasses import dataclass

from examples.queue_commands import Run, of_text, options_of, settings, train

WSJ = "{data}/ptb_sample/wsj_sample.mrg.xz"
"""Gold trees."""


@dataclass(frozen=True)
class Size:
    """How models of one size are trained; hours are those of one run of each kind of model."""

    folder: str
    epochs: int
    words: str  # further options of `grove train`
    recipe: dict[str, object]
    hours: dict[str, float]


NO_DROPOUT = dict.fromkeys(("embedding_dropout", "input_dropout", "layer_dropout", "output_dropout", "weight_drop"), 0)
LANGUAGE_MODELS = {
    "medium": Size(
        "language_model", 25, "--length 35",
        {"hidden_size": 400, "embedding_size": 200, "embedding_dropout": 0.05, "input_dropout": 0.2,
         "layer_dropout": 0.2, "output_dropout": 0.2, "weight_drop": 0.2},
        {"on_lstm": 2.3, "fasttrees": 2.3, "faster_fasttrees": 1.7},
    ),
    "small": Size(
        "language_model_small", 10, "--length 35 --batch-size 32",
        {"embedding_size": 64, "hidden_size": 64, "chunk_size": 8, "optimizer": "adam", "clip_norm": 1,
         "weight_decay": 0, "schedule": "cosine", "warmup_steps": 100, "maximum_rate": 5e-3, "alpha": 0, "beta": 0,
         **NO_DROPOUT},
        {"on_lstm": 0.31, "fasttrees": 0.31, "conv_fasttrees": 0.31, "faster_fasttrees": 0.26},
    ),
}  # fmt: skip


def language_model(kind: str, seed: int, size: str = "medium") -> Run:
    of_size = LANGUAGE_MODELS[size]
    files = of_text("ptb_lm", "ptb.{}")
    words = f"--task language_model --model {kind} --seed {seed} --epochs {of_size.epochs} {of_size.words}"
    commands = train(f"{words} {options_of(files)} {settings(**of_size.recipe)}")
    scores = tuple(
        f"accel.cli induction --checkpoint {{run}} --gold {WSJ} --convention {convention} --layers 2 1 3 "
        f"--out {{run}}/{convention}.json"
        for convention in ("wsj10", "wsj")
    )
    return Run(f"{of_size.folder}/{kind}-{seed}", "FastTrees, Tables 1 and 7", of_size.hours[kind],
               (*commands, *scores), (*files, WSJ), seed=seed, figures=("{run}/evaluation.json", "{run}/wsj*.json"),
               task=f"fasttrees/language_model_{of_size.epochs}_epochs", model=kind)  # fmt: skip
