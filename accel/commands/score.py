"""`grove score`: log p of every tree of a file, one line a tree; with --tokens one line an event.

A tree with a word or a label outside the vocabulary is reported and counted; its line is "-", and the exit status is 1.

With --text: log p of every line of a text, with its end, under a language model of words.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from accel.commands import opened as models
from accel.commands.opened import line_by_line
from accel.data.batches.text import EOS, read_text
from accel.data.corpora.sequences import encode_sentences, read_whole, unknown
from accel.data.files.lines import LineError, errors_at
from accel.data.files.written import named
from accel.scoring.text import sentence_logps
from accel.scoring.trees import event_logps, events_of
from refimpl.trees import ActionType

_TYPES = {ActionType.ONT: "ONT", ActionType.T: "T", ActionType.CNT1: "CNT"}

_LEFT_OUT = "left out, for not every word has a part-of-speech tag"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    parser.add_argument("trees", type=Path, metavar="FILE", help="a treebank, or with --text a text; may be .gz or .xz")
    parser.add_argument("--text", action="store_true", help="score lines of words; each is read by itself")
    parser.add_argument("--tokens", action="store_true", help="a table: number of the tree, token, its type, log p")


def run(options: argparse.Namespace) -> int:
    with named("standard output"):
        return _score_text(options) if options.text else _score_trees(options)


def _score_text(options: argparse.Namespace) -> int:
    ops, model = models.open_language_model(options, "leave --text out, and give a treebank")
    lines = list[list[str]]()
    for number, [*words, _] in read_text(options.trees):
        with errors_at(options.trees, number):
            model.vocabulary.encode(words)
        lines.append(words)
    sentences = [words for words in lines if words]
    if options.tokens:
        print("line", "token", "logp", sep="\t")
    logps = sentence_logps(ops, model, sentences, batch_size=options.batch_size)
    logps_of_lines = models.progress(logps, len(sentences), "line", printed=True)
    if not options.tokens:
        for logp in line_by_line(lines, (f"{of_line.sum():.6f}" for of_line in logps_of_lines)):
            print(logp)
        return 0
    numbers = [number for number, words in enumerate(lines, 1) if words]
    for number, words, of_line in zip(numbers, sentences, logps_of_lines, strict=True):
        for word, logp in zip([*words, EOS], of_line.tolist(), strict=True):
            print(number, word, f"{logp:.6f}", sep="\t")
    return 0


def _score_trees(options: argparse.Namespace) -> int:
    ensemble = models.open_models(options)
    model = ensemble.models[0]
    lines = list[int]()  # of trees that are left out
    sentences = list(read_whole(options.trees, ensemble.reading, lines))
    unread = [LineError(options.trees, line, _LEFT_OUT) for line in lines]
    tree_errors = unknown(options.trees, sentences, model.vocabulary)
    places = [*(sentence.line for sentence in sentences), *lines]
    if ensemble.reading.documents == "none":  # a line may hold several trees: count the trees
        numbers = [sentence.document for sentence in sentences]
        places = [*numbers, *sorted(set(range(len(places))).difference(numbers))]
    errors = [error for _, error in sorted(zip(places, [*tree_errors, *unread], strict=True), key=lambda pair: pair[0])]
    scored = [number for number, error in enumerate(errors) if error is None]
    reasons = [error for error in errors if error is not None]
    if not scored:
        raise reasons[0]
    for error in reasons:
        print(f"grove: not scored: {error}", file=sys.stderr)
    known_sentences = [sentence for sentence, error in zip(sentences, tree_errors, strict=True) if error is None]
    corpus = encode_sentences(options.trees, known_sentences, model.vocabulary)
    if options.tokens:
        print("tree", "token", "type", "logp", sep="\t")
    events = event_logps(ensemble.ops, ensemble.models, corpus, **ensemble.scoring)
    n_printed = 0
    for row, logps in enumerate(models.progress(events, len(corpus), printed=True)):
        if not options.tokens:
            print("-\n" * (scored[row] - n_printed) + f"{logps.sum():.6f}")
            n_printed = scored[row] + 1
            continue
        for i, logp in zip(events_of(model, corpus, row).tolist(), logps.tolist(), strict=True):
            action_type = _TYPES[ActionType(model.vocabulary.type_of[i])]
            print(scored[row] + 1, model.vocabulary.symbols[i], action_type, f"{logp:.6f}", sep="\t")
    if not options.tokens:
        print("-\n" * (len(errors) - n_printed), end="")
    if reasons:
        print(f"grove: {len(reasons)} of {len(errors)} trees not scored", file=sys.stderr)
    return 1 if reasons else 0
