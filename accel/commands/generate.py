"""`grove generate`: text drawn from a model word by word, see `accel.search.texts`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import accel
from accel.data.batches.text import read_sentences
from accel.data.files.lines import errors_at
from accel.search.texts import draw_text
from accel.tasks.numbers import at_least
from accel.trained.kinds import TEXTS, require
from accel.trained.opening import Model, open_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="words that come first, between blanks")
    parser.add_argument("--context", type=Path, metavar="FILE", help="sentences before those words, one a line")
    parser.add_argument("--words", type=at_least(1), default=50, metavar="N", help="how many words to draw (50)")
    parser.add_argument(
        "--top-k", type=at_least(1), default=2, metavar="K", help="hypotheses that each word is drawn from (2)"
    )
    help_text = "draw every action by itself, instead of words with the actions before them"
    parser.add_argument("--no-sync", dest="sync", action="store_false", help=f"of a GPST, TG or TXL (CC): {help_text}")
    parser.add_argument("--seed", type=at_least(0), default=0)
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    require(model, TEXTS)
    context = [] if options.context is None else list(_read(model, options.context))
    settings = {name: getattr(options, name) for name in ("words", "top_k", "seed", "sync")}
    text = draw_text(ops, model, options.prefix.split(), context=context, **settings)
    if text.full is not None:
        print(f"grove: after {text.full} tokens the context is full", file=sys.stderr)
    print(text)
    return 0


def _read(model: Model, path: Path) -> Iterator[list[str]]:
    """Yield the words of every line that has words; LineError at a word that the model cannot read."""
    for number, words in read_sentences(path):
        with errors_at(path, number):
            model.vocabulary.encode_words(words)
        yield words
