"""`grove generate`: text that a GPST goes on with, word by word, by top-k sampling of parses and words together.

A GPT-2 has no parses; its words are drawn from the most probable ones alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import accel
from accel.data.lines import LineError
from accel.data.text import read_sentences
from accel.data.vocabulary import END_ID, VocabularyError
from accel.parse_gpst import require_gpst
from accel.saved import Model, load_model
from accel.word_search import sample


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="words that come first, between blanks")
    parser.add_argument("--context", type=Path, metavar="FILE", help="sentences before those words, one a line")
    parser.add_argument("--words", type=int, default=50, metavar="N", help="how many words to draw (50)")
    parser.add_argument("--top-k", type=int, default=2, metavar="K", help="hypotheses that each is drawn from (2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    ops = accel.load(options.backend)
    model = load_model(ops, options.checkpoint)
    require_gpst(model)
    if options.words < 1:
        raise ValueError(f"--words {options.words}: nothing to draw")
    if options.top_k < 1:
        raise ValueError(f"--top-k {options.top_k}: nothing to draw from")
    context = [] if options.context is None else list(_encoded(model, options.context))
    before, most = options.prefix.split(), model.config.n_positions - 1
    try:
        prefix = model.vocabulary.encode_words(before)
    except VocabularyError as error:
        raise ValueError(f"--prefix: {error}") from error
    held = sum(map(len, context))
    if held + len(prefix) + options.words > most:
        counts = f"{len(prefix)} tokens and --words {options.words}"
        behind = f" behind {held} of --context" if context else ""
        raise ValueError(f"--prefix: {counts}{behind} are more than a context of the model has, {most}")
    chosen = {"beam": options.top_k, "seed": options.seed, "prefix": prefix, "end": END_ID, "context": context}
    wanted = len(before) + options.words
    words = before
    for actions in sample(ops, model.config, model.parameters, **chosen):
        tokens = [i for i in actions if i >= 0]
        words = model.vocabulary.decode(i for i in tokens if i != END_ID)
        if len(words) == wanted + bool(model.vocabulary.model):  # the last word may go on, until another one begins
            break
        if held + len(tokens) == most:
            if len(words) < wanted:
                print(f"grove: after {most} tokens the context is full", file=sys.stderr)
            break
    print(" ".join(words[:wanted]))
    return 0


def _encoded(model: Model, path: Path) -> Iterator[list[int]]:
    """Yield the tokens of every line that has words."""
    for number, words in read_sentences(path):
        try:
            yield model.vocabulary.encode_words(words)
        except VocabularyError as error:
            raise LineError(path, number, str(error)) from error
