"""`grove score`: log p of every tree of a file, one line a tree; with --tokens one line an event."""

from __future__ import annotations

import argparse
from pathlib import Path

from accel.commands import models
from accel.data.tagged import encode_sentences, read_whole
from accel.score import event_logps, events_of
from refimpl.trees import ActionType

_TYPES = {ActionType.ONT: "ONT", ActionType.T: "T", ActionType.CNT1: "CNT"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    parser.add_argument("trees", type=Path, help="a treebank; may be .gz or .xz")
    parser.add_argument("--tokens", action="store_true", help="a table: number of the tree, token, its type, log p")


def run(options: argparse.Namespace) -> int:
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
