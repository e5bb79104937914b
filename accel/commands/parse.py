"""`grove parse`: the trees that a language model induces, one a line; with gold trees how well they match."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import accel
from accel.data.lines import LineError, read_lines
from accel.data.wsj import CONVENTIONS, read_gold
from accel.models.fasttrees import KINDS
from accel.parse import SPLITS, induced_spans, induced_tree
from accel.saved import load_model, write_text
from accel.unsupervised import score, score_baselines, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sentences", type=Path, nargs="?", metavar="FILE", help="a sentence a line, words apart")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="PATH", help="a run's directory or checkpoint"
    )
    parser.add_argument("--model", choices=KINDS, help="what the checkpoint has to hold")
    parser.add_argument("--layer", type=int, default=2, help="whose distances, from 1 (default: the second)")
    parser.add_argument("--split", choices=SPLITS, default="biased", help="where a constituent is split")
    parser.add_argument("--gold", type=Path, metavar="TREEBANK", help="parse its sentences and score the trees")
    parser.add_argument(
        "--convention",
        choices=CONVENTIONS,
        default="wsj",
        help="words of the gold trees: without punctuation; at most ten of them; all, of trees without tags",
    )
    parser.add_argument(
        "--out", type=Path, metavar="TREES", help="write the trees there (default: to stdout, if not scored)"
    )
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=int, default=64, help="how many sentences are read side by side")


def run(options: argparse.Namespace) -> int:
    if (options.sentences is None) == (options.gold is None):
        raise ValueError("parse: name either a file of sentences or, with --gold, the gold trees of some")
    ops = accel.load(options.backend)
    model = load_model(ops, options.checkpoint)
    kind = getattr(model.config, "kind", model.module.__name__.rpartition(".")[2])
    if options.model not in (None, kind):
        raise ValueError(f"{model.path}: a model of kind {kind}, not {options.model}")
    gold = [] if options.gold is None else list(read_gold(options.gold, options.convention))
    sentences = [sentence.words for sentence in gold] or list(_read_sentences(options.sentences))
    chosen = {"layer": options.layer, "split": options.split, "batch_size": options.batch_size}
    spans = list(induced_spans(ops, model, sentences, **chosen))
    trees = "".join(f"{induced_tree(found, words)}\n" for found, words in zip(spans, sentences, strict=True))
    if options.out is not None:
        write_text(options.out, trees)
    elif not gold:
        print(trees, end="")
    if gold:
        print(table({kind: score(gold, spans), **score_baselines(gold)}, gold))
    return 0


def _read_sentences(path: Path) -> Iterator[list[str]]:
    for number, line in read_lines(path):
        words = line.split()
        if not words:
            raise LineError(path, number, "an empty sentence")
        yield words
