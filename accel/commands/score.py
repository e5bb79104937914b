"""`grove score`: log p of every tree of a file, one line a tree; with --tokens one line an event.

With --text, log p of every line of a text under a language model of words, its end included.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from accel.commands import opened as models
from accel.data.batches.text import EOS, read_sentences
from accel.data.corpora.tagged import encode_sentences, read_whole
from accel.scoring.text import sentence_logps
from accel.scoring.trees import event_logps, events_of
from refimpl.trees import ActionType

_TYPES = {ActionType.ONT: "ONT", ActionType.T: "T", ActionType.CNT1: "CNT"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    parser.add_argument("trees", type=Path, metavar="FILE", help="a treebank, or with --text a text; may be .gz or .xz")
    parser.add_argument("--text", action="store_true", help="score lines of words; each is read by itself")
    parser.add_argument("--tokens", action="store_true", help="a table: number of the tree, token, its type, log p")


def run(options: argparse.Namespace) -> int:
    return _score_text(options) if options.text else _score_trees(options)


def _score_text(options: argparse.Namespace) -> int:
    ops, model = models.open_language_model(options)
    sentences = [words for _, words in read_sentences(options.trees)]
    if options.tokens:
        print("line", "token", "logp", sep="\t")
    of_lines = sentence_logps(ops, model, sentences, batch_size=options.batch_size)
    for number, (words, logps) in enumerate(zip(sentences, of_lines, strict=True), 1):
        if not options.tokens:
            print(f"{logps.sum():.6f}")
            continue
        for word, logp in zip([*words, EOS], logps.tolist(), strict=True):
            print(number, word, f"{logp:.6f}", sep="\t")
    return 0


def _score_trees(options: argparse.Namespace) -> int:
    opened = models.open_models(options)
    model = opened.models[0]
    sentences = list(read_whole(options.trees, opened.reading))
    corpus = encode_sentences(options.trees, sentences, model.vocabulary)
    if options.tokens:
        print("tree", "token", "type", "logp", sep="\t")
    events = event_logps(opened.ops, opened.models, corpus, **opened.scoring)
    for number, logps in enumerate(models.progress(events, len(corpus))):
        if not options.tokens:
            print(f"{logps.sum():.6f}")
            continue
        for i, logp in zip(events_of(model, corpus, number).tolist(), logps.tolist(), strict=True):
            kind = _TYPES[ActionType(model.vocabulary.type_of[i])]
            print(number + 1, model.vocabulary.symbols[i], kind, f"{logp:.6f}", sep="\t")
    return 0
