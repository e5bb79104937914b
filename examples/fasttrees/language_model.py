"""Language models of generated English, and their induced trees beside the true ones: three minutes.

    python -m examples.fasttrees.language_model

The entropy of the grammar is known, so that perplexities can be compared with the best possible one; every tree is
known too. Texts and trees have no full stops, since scores of induced trees leave out punctuation; the models read the
end of every line as a word.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import accel
from accel.data.generated.grammar import ENGLISH
from accel.data.published.wsj import read_gold
from accel.evaluation.induced_f1 import score, score_baselines, table
from accel.parsing.distances import induced_spans
from accel.tasks.numbers import at_least
from accel.trained.opening import open_model
from examples.commands import finish, grove, set_options, write_sentences
from examples.program import run_program

MODELS = {"on_lstm": "ON-LSTM", "fasttrees": "FastTrees", "faster_fasttrees": "Faster FastTrees"}
SETTINGS = (
    *("embedding_size=64", "hidden_size=64", "chunk_size=8", "optimizer=adam", "clip_norm=1", "weight_decay=0"),
    *("schedule=cosine", "warmup_steps=20", "maximum_rate=1e-2"),
    *("embedding_dropout=0", "input_dropout=0", "layer_dropout=0", "output_dropout=0", "weight_drop=0"),
    *("alpha=0", "beta=0"),
)
SENTENCE = "the dog behind many small horses sees the girls that he likes"
LAYERS = (1, 2, 3)


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Generate, train, parse; return perplexity and F1 of every model."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.fasttrees.language_model", description="language models and their trees"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/fasttrees/language_model"))
    parser.add_argument("--sentences", type=at_least(1), default=20_000, help="to train on")
    parser.add_argument("--test", type=at_least(1), default=1000, help="sentences to measure perplexity and trees on")
    parser.add_argument("--epochs", type=at_least(1), default=4)
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the models; the sentences are always the same")
    options = parser.parse_args(arguments)
    files = write_sentences(options.out, options.sentences, options.test)
    gold = list(read_gold(options.out / "test.trees", "plain"))
    ops, figures, rows = accel.load("cpu"), {}, {}
    for name, title in MODELS.items():
        run = options.out / name
        sizes = (
            "--epochs",
            options.epochs,
            "--batch-size",
            16,
            "--length",
            20,
            "--min-count",
            1,
            "--seed",
            options.seed,
        )
        options_of_run = (*files, "--out", run, "--resume", *sizes, *set_options(SETTINGS))
        grove("train", "--task", "language_model", "--model", name, *options_of_run)
        figures[title] = {"perplexity": json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["perplexity"]}
        model = open_model(ops, run)
        for layer in LAYERS:
            scores = score(gold, list(induced_spans(ops, model, [sentence.words for sentence in gold], layer=layer)))
            rows[f"{title}, layer {layer}"] = scores
            figures[title][f"F1 of layer {layer}"] = scores.sentence_f1
    print(f"\nPerplexity (the lowest possible is {ENGLISH.perplexity:.3f}):")
    print("\n".join(f"{title:20}{row['perplexity']:.3f}" for title, row in figures.items()))
    print(f"\nInduced trees against the grammar's own:\n{table(rows | score_baselines(gold), gold)}\n")
    picture = ("--checkpoint", options.out / "faster_fasttrees", "--out", options.out / "distances.svg")
    grove("draw", "distances", SENTENCE, *picture)
    finish(__file__, figures, options.out)
    return figures


if __name__ == "__main__":
    run_program(main)
