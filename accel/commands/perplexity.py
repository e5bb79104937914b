"""`grove perplexity`: the perplexity per word, of a model of trees as a bound from proposal trees, of words exactly."""

from __future__ import annotations

import argparse
from math import exp
from pathlib import Path

from accel.commands import models
from accel.proposals import read_proposals, read_single, word_perplexity
from accel.text_score import text_logp


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--proposals", type=Path, help="trees, blank lines between sentences")
    source.add_argument("--trees", type=Path, help="a treebank: every tree is the only proposal for its words")
    source.add_argument("--text", type=Path, help="for a language model of words: text, a sentence a line")
    parser.add_argument(
        "--numbered", action="store_true", help="proposals have no blank lines, but a sentence's number and a tab"
    )


def run(options: argparse.Namespace) -> int:
    if options.text is not None:
        ops, model = models.open_language_model(options)
        logp, n_words = text_logp(ops, model, options.text)
        print(f"perplexity      {exp(-logp / n_words):.4f} (exact)")
        print(f"log p           {logp:.4f}")
        print(f"words           {n_words}")
        return 0
    opened = models.open_models(options)
    if options.trees is not None:
        path, proposals = options.trees, read_single(options.trees, opened.reading)
    elif opened.reading.documents != "none":
        raise ValueError(f"{options.proposals}: proposals are sentences, and this model reads documents: take --trees")
    else:
        path = options.proposals
        proposals = read_proposals(path, opened.reading, numbered=options.numbered)
    found = word_perplexity(
        opened.ops, opened.models, path, proposals, progress=models.progress, **opened.scoring
    )
    print(f"perplexity      {found.perplexity:.4f} ({'upper bound' if found.is_bound else 'exact'})")
    print(f"log p           {sum(found.sentence_logps):.4f}")
    print(f"words           {found.n_words}")
    print(f"sentences       {len(proposals)}")
    print(f"mean proposals  {found.mean_proposals:.2f}")
    return 0
