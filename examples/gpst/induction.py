"""A GPST of generated English, and its induced trees beside the true ones.

    python -m examples.gpst.induction

The model is trained on raw text only. Its trees are those of the composition model (inside), of the parser that prunes
the chart, and of the generative model, which reads from left to right. Its search compares hypotheses with equally many
words, or (no sync) with equally many actions.
"""

from __future__ import annotations

from collections.abc import Sequence

import accel
from accel.trained.opening import open_model
from examples.commands import finish, grove, table
from examples.gpst.runs import apart, best_perplexity, read_options, test_sentences, train
from examples.program import run_program

TREE = 5  # the test sentence whose trees are drawn


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Generate, train, parse; return perplexities and F1 of every kind of tree."""
    options = read_options("induction", "the trees that a small GPST induces", arguments)
    scores = train(options, "gpst")
    sentences, ops, run = test_sentences(options), accel.load("cpu"), options.out / "gpst"
    perplexities_apart = apart(ops, open_model(ops, run), sentences, options.beam)
    figures = {"GPST": {"in contexts": scores["perplexity"], **perplexities_apart}}
    for name, sentence_f1 in scores["sentence_f1"].items():
        figures[name] = {"sentence F1": sentence_f1, "corpus F1": scores["corpus_f1"][name]}
    parse = ("--checkpoint", run, "--gold", options.out / "test.trees", "--convention", "plain", "--preset", "gpst")
    picture = ("--picture", run / "trees.svg", "--number", min(TREE, options.test), "--beam", options.beam)
    grove("parse", *parse, "--mode", "inside")
    grove("parse", *parse, "--mode", "left-to-right", *picture)
    perplexities = {"GPST": figures["GPST"], "the grammar": {"in contexts": best_perplexity(sentences)}}
    print(f"\nPerplexity of words (of GPST bounds):\n\n{table(perplexities, list(figures['GPST']), 1.0)}")
    trees = {name: row for name, row in figures.items() if name != "GPST"}
    print(f"\nTrees against the grammar's own, in %:\n\n{table(trees, ['sentence F1', 'corpus F1'], 1.0)}")
    finish(__file__, figures, run)
    return figures


if __name__ == "__main__":
    run_program(main)
